package transcript

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/tiktoken"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// counted records how many bytes were encoded.
type counted struct {
	*tiktoken.Counter
	bytes int
}

func (c *counted) CountBehind(ctx context.Context, prefix, text string) (alone, behind [2]uint32, err error) {
	c.bytes += len(text)
	return c.Counter.CountBehind(ctx, prefix, text)
}

// ending is a context that ends when it is asked for the third time.
type ending struct {
	context.Context
	asked int
}

func (e *ending) Err() error {
	if e.asked++; e.asked >= 3 {
		return context.Canceled
	}
	return nil
}

// A user's text is encoded once, and its count as an earlier question equals that of the whole text.
func TestUsersTextIsEncodedOnce(t *testing.T) {
	counter, err := tiktoken.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "hello", "1234 or so", "  two blanks", "\nit's a line", "(so)", "'s",
		strings.Repeat("What is it? ", 1000)} {
		c := &counted{Counter: counter}
		svc := New(nil, c)
		m := &chat.Message{Role: plan.RoleUser, Text: text}
		turn := &Turn{Messages: []chat.Parsed{{Message: *m}}}
		if err := svc.Measure(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		h := turn.headers[0]
		if c.bytes > len(text)+len("user")+len(chat.Placeholder) {
			t.Errorf("%.20q: %d bytes of %d were encoded", text, c.bytes, len(text))
		}
		for i, name := range project.Encodings {
			want := tokens.Of(chat.OpenAIChat, m).Words(func(s string) int { return counter.Count(name, s) })
			if int(h.Tokens[i]) != want || int(h.Compressed[i]) != counter.Count(name, "): "+text) {
				t.Errorf("%.20q: %d tokens, %d as a question", text, h.Tokens[i], h.Compressed[i])
			}
		}
	}
}

// Counting a long text stops when the request ends, and the partial count is not used.
func TestMeasureEndsWithTheContext(t *testing.T) {
	counter, err := tiktoken.New()
	if err != nil {
		t.Fatal(err)
	}
	long := chat.Message{Role: plan.RoleUser, Text: strings.Repeat("a b ", 1<<20)}
	turn := &Turn{Messages: []chat.Parsed{{Message: long}}}
	ctx := &ending{Context: t.Context()}
	if err := New(nil, counter).Measure(ctx, turn); !errors.Is(err, context.Canceled) || len(turn.headers) > 0 {
		t.Errorf("%v, with %d headers", err, len(turn.headers))
	}
	if ctx.asked > 5 {
		t.Errorf("the context was asked %d times", ctx.asked)
	}
}
