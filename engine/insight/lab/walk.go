package lab

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/facts"
	"github.com/seed-0906e6bc/mneme/engine/insight/promptcache"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// FactsKept counts needed facts: the literals (ids, codes, numbers) that an agent's messages copied from before their
// turn, and how many of them the window before the turn holds, on both sides. Package facts defines literals.
type FactsKept struct {
	Needed int `json:"needed"`
	Before int `json:"before"`
	After  int `json:"after"`
}

// CallCost is what the calls of the model would cost with each side's windows, in tokens at the price of uncached input.
// Each call sends the window before its turn and the turn so far. Prompts are cached as Anthropic does: 5 minutes,
// reading costs a tenth, and writing a quarter more.
type CallCost struct {
	Calls  int    `json:"calls"`
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
}

const (
	// walkTurns is the number of turns at the end of a session whose windows are compared.
	walkTurns = 8
	// walkMessages is how many of a session's newest messages are searched for the literals that its agent copied, and
	// their sources.
	walkMessages = 1000
)

// stored is one message outside delegations.
type stored struct {
	*transcript.Header
	facts.Message
	end int // of its text in the session's text
}

// storedTranscript is the newest part of a session, oldest first.
type storedTranscript struct {
	messages []stored
	text     string // of all messages
}

// transcriptOf reads the newest living messages of a session. It skips messages of delegations and those that cannot be
// read.
func (svc *Service) transcriptOf(ctx context.Context, tenant string, h *session.Head) (*storedTranscript, error) {
	t, x := new(storedTranscript), h.Extent()
	for last := x.Messages; last > 0 && x.Messages-last < walkMessages; {
		first := last - min(last, transcript.BodiesAtOnce) + 1
		bodies, err := svc.sessions.ReadBodies(ctx, tenant, x.Incarnation, first, last)
		if err != nil {
			return nil, err
		}
		for i, body := range slices.Backward(bodies) {
			hd, m, err := transcript.ParseBody(body)
			if err == nil && hd.Delegation == "" && !x.Superseded.Message(first+uint64(i)) {
				t.messages = append(t.messages, stored{Header: hd, Message: factsOf(m)})
			}
		}
		last = first - 1
	}
	slices.Reverse(t.messages)
	var text []byte
	for i := range t.messages {
		text = t.messages[i].Append(text)
		t.messages[i].end = len(text)
	}
	t.text = string(text)
	return t, nil
}

// factsOf returns what package facts sees of a message.
func factsOf(m *chat.Message) facts.Message {
	out := facts.Message{Text: m.Text}
	for _, c := range m.Calls {
		out.Calls = append(out.Calls, facts.Call{Name: c.Name, Arguments: c.Arguments})
	}
	return out
}

// after returns the messages of the first turn that begins after the given number of messages, and the text of those
// before.
func (t *storedTranscript) after(messages uint64) (turn []stored, before string) {
	first := slices.IndexFunc(t.messages, func(m stored) bool { return m.Seq > messages })
	if first < 0 {
		return nil, t.text
	}
	if first > 0 {
		before = t.text[:t.messages[first-1].end]
	}
	end := first
	for end < len(t.messages) && t.messages[end].Turn == t.messages[first].Turn {
		end++
	}
	return t.messages[first:end], before
}

// walk is what one side's windows of a session's last turns hold and cost.
type walk struct {
	share   float64 // sum of the shares that windows start with of the window before
	windows int     // compared with the previous one
	facts   facts.Count
	calls   int
	cost    promptcache.Usage
}

// walk makes the windows that a session's last turns began with.
func (svc *Service) walk(ctx context.Context, tenant string, pinc ident.Incarnation, h *session.Head, raw []byte,
	at time.Time, r *policy.Ready, past *storedTranscript) (out walk, err error) {
	var last *window.Draft
	cache := promptcache.New(promptcache.Anthropic("Claude Opus 5", 512, .1))
	for turn := max(1, int64(h.Turns)-walkTurns); turn <= int64(h.Turns); turn++ {
		as := window.Past{Project: pinc, Turn: new(uint32(turn))}
		if last != nil {
			as.Before = &last.Trace
		}
		d, err := svc.windows.DraftOfSession(ctx, tenant, h, raw, at, r, as)
		if err != nil {
			return out, err
		}
		if last != nil && d.Extent.Messages == last.Extent.Messages {
			continue // the turn is superseded
		}
		if last != nil {
			out.share += d.Usage.Prefix.Share
			out.windows++
		}
		next, before := past.after(d.Extent.Messages)
		if err := out.play(d, next, before, cache, r.Encoding); err != nil {
			return out, err
		}
		last = d
	}
	return out, nil
}

// play counts the calls of a turn that began with a window. before is the text of all messages before the turn.
func (w *walk) play(d *window.Draft, turn []stored, before string, cache *promptcache.Cache, encoding int) error {
	var text []byte
	var blocks []promptcache.Block
	add := func(role plan.Role, m facts.Message, tokens uint32) {
		from := len(text)
		text = m.Append(text)
		blocks = append(blocks, promptcache.Block{Text: string(text[from:]), Tokens: int(tokens),
			Input: role == plan.RoleUser || role == plan.RoleTool})
	}
	if err := d.Each(func(it *plan.Item, m *chat.Message, _ int) error {
		if m == nil {
			add(it.Role, facts.Message{Text: it.Text}, it.Tokens)
		} else {
			add(it.Role, factsOf(m), it.Tokens)
		}
		return nil
	}); err != nil {
		return err
	}
	shown := string(text)
	for i := range turn {
		m := &turn[i]
		if m.Role == plan.RoleAssistant && len(blocks) > 0 {
			// What the turn itself says is in the prompt anyway, like a system prompt.
			source := facts.Source{History: before, System: string(text[len(shown):])}
			w.facts.Add(source.Of(&m.Message), &source, shown)
			sent := slices.Clone(blocks)
			sent[len(sent)-1].Breakpoint = promptcache.Short
			w.cost.Add(cache.Send(promptcache.Request{At: time.Duration(m.Created) * time.Millisecond, Blocks: sent}))
			w.calls++
		}
		add(m.Role, m.Message, m.Tokens[encoding])
	}
	return nil
}

// walked records how the windows of both sides differ.
func (s *SessionReplay) walked(before, after walk) {
	s.Prefix = PrefixKept{Windows: after.windows}
	if n := float64(after.windows); n > 0 {
		s.Prefix.Before, s.Prefix.After = before.share/n, after.share/n
	}
	s.Facts = FactsKept{after.facts.Needed, before.facts.Present, after.facts.Present}
	s.Cost = CallCost{after.calls, uint64(math.Round(before.cost.Paid)), uint64(math.Round(after.cost.Paid))}
}
