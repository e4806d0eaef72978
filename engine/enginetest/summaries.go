package enginetest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

// Scribe is a model whose summary lists the marks, #1 #2 …, that it was ever given, so that a summary shows what it
// covers.
type Scribe struct {
	Mu       sync.Mutex
	Requests []summary.Request
	Fail     func(call int) error // the result of the call; nil for success
	Gate     chan struct{}        // each call receives from it first; nil for no wait
}

var Mark = regexp.MustCompile(`#\d+`)

func (s *Scribe) Summarise(ctx context.Context, r summary.Request) (summary.Reply, error) {
	s.Mu.Lock()
	s.Requests = append(s.Requests, r)
	call, fail, gate := len(s.Requests), s.Fail, s.Gate
	s.Mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return summary.Reply{}, &summary.ProviderError{Code: "provider_timeout"}
		}
	}
	if fail != nil {
		if err := fail(call); err != nil {
			return summary.Reply{}, err
		}
	}
	marks := Mark.FindAllString(r.Previous, -1)
	for _, m := range r.Messages {
		marks = append(marks, Mark.FindAllString(m.Text, -1)...)
	}
	return summary.Reply{Text: strings.Join(marks, " "), Model: "scribe", TokensIn: 100, TokensOut: 10}, nil
}

func (s *Scribe) Prompt() string { return "test" }

func (s *Scribe) Calls() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.Requests)
}

func (s *Scribe) Last() summary.Request {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Requests[len(s.Requests)-1]
}

func SummariseWith(s summary.Summariser) func(*engine.Options) {
	return func(o *engine.Options) { o.Summariser = s }
}

// Say posts one turn of n messages, user and assistant in turns, each with a mark of its own.
func (k *Kit) Say(session string, from, n int) {
	k.Helper()
	var messages []string
	for i := from; i < from+n; i++ {
		role := "user"
		if i%2 == 0 {
			role = "assistant"
		}
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":"message #%d"}`, role, i))
	}
	k.Post(session, messages...)
}

// Marks are those in a window's messages, with the summary's first.
func (w Window) Marks() []string {
	return Mark.FindAllString(string(w.Raw[:strings.Index(string(w.Raw), `,"usage":`)]), -1)
}

func UpTo(n int) []string {
	var out []string
	for i := 1; i <= n; i++ {
		out = append(out, fmt.Sprintf("#%d", i))
	}
	return out
}

func (k *Kit) GetSession(id string) session.Session {
	k.Helper()
	s, err := k.Sessions.Get(k.Context(), k.Admin, ident.DefaultProject, id)
	if err != nil {
		k.Fatal(err)
	}
	return s
}

const Unbounded = `{"explain":true,"budget":{"max_messages":0,"max_tokens":0}}`
