package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// TestCampaignNewAlone has clients send only new messages, with a response's id or saying so, to a server that restarts
// again and again. Each session holds what was said.
func TestCampaignNewAlone(t *testing.T) {
	seed := campaign.Seed(t)
	talks := append(made(rand.New(rand.NewPCG(seed, 3)), campaign.Size(12, 100)), recorded(t)...)
	if !campaign.Long() {
		talks = talks[:min(len(talks), 12)]
	}
	raw := memstore.New()
	k := enginetest.Open(t, raw)
	for i, conversation := range talks {
		f := []chat.Format{chat.OpenAIResponses, chat.OpenAIChat, chat.AnthropicMessages}[i%3]
		byID, restarts := f == chat.OpenAIResponses, i%2 == 0
		p := newPerson(k, habits[0], f, fmt.Sprint("s", i), "", conversation, nil, nil)
		sent, previous := 0, ""
		for at := range p.messages {
			if !p.replies(at) {
				continue
			}
			if restarts {
				k = enginetest.Open(t, raw)
				p.Kit = k
			}
			ask := history.Ask{Session: p.session, Format: f, Messages: elements(p.messages[sent:at]), Delta: !byID, Previous: previous}
			if previous != "" {
				ask.Session = ""
			}
			x, err := k.Dialogues.Begin(t.Context(), k.Admin, ident.DefaultProject, ask)
			if err != nil {
				t.Fatal(err)
			}
			r := history.Reply{Messages: elements(p.messages[at : at+1])}
			if byID {
				previous = fmt.Sprintf("resp_%d_%d", i, at)
				r.ResponseID = previous
			}
			s, err := k.Dialogues.Commit(t.Context(), k.Admin, ident.DefaultProject, x, r)
			if err != nil || s.Session != p.session || s.Open == (s.Turn > 0) || s.Reason != "" {
				t.Fatalf("conversation %d, call %d: %+v became %+v %v", i, at, x.Match, s, err)
			}
			sent, p.at = at+1, at+1
			if s.Turn > 0 {
				p.holds()
			}
		}
	}
	k.Sound()
}

func callItem(id, name string) string {
	return fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":%q,"arguments":"{}"}`, id, name)
}

func resultItem(id, text string) string {
	return fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":%q}`, id, text)
}

// responses is a client that continues responses.
type responses struct {
	*enginetest.Kit
	body [32]byte
}

func (c *responses) try(previous, id, reply string, messages ...string) (*history.Exchange, history.Stored, error) {
	c.Helper()
	x, err := c.Dialogues.Begin(c.Context(), c.Admin, ident.DefaultProject, history.Ask{Session: "s", Weak: true, Previous: previous,
		Format: chat.OpenAIResponses, Messages: enginetest.Raw(messages...), Body: func() [32]byte { return c.body }})
	if err != nil {
		return nil, history.Stored{}, err
	}
	s, err := c.Dialogues.Commit(c.Context(), c.Admin, ident.DefaultProject, x, history.Reply{Messages: enginetest.Raw(reply), ResponseID: id})
	return x, s, err
}

func (c *responses) exchange(previous, id, reply string, messages ...string) (*history.Exchange, history.Stored) {
	c.Helper()
	x, s, err := c.try(previous, id, reply, messages...)
	if err != nil || s.Reason != "" {
		c.Fatalf("%+v %v", s, err)
	}
	return x, s
}

func (c *responses) unknown(previous string) {
	c.Helper()
	_, _, err := c.try(previous, "x", assistant("x"), user("x"))
	if known, ok := fault.As(err); !ok || known.Code != "previous_response_not_found" {
		c.Fatalf("%s: %v", previous, err)
	}
}

// TestGoingOnFromResponses follows what clients do with the ids of responses.
func TestGoingOnFromResponses(t *testing.T) {
	c := &responses{Kit: enginetest.New(t)}
	c.unknown("r0")
	c.exchange("", "r1", assistant("Hello."), user("Hi"))
	c.exchange("r1", "r2", callItem("a", "f"), user("Look"))
	c.exchange("r2", "r3", callItem("b", "f"), resultItem("a", "1"))
	c.exchange("r3", "r4", assistant("Found."), resultItem("b", "2"))
	c.Lives("s", "Hi", "Hello.", "Look", "", "1", "", "2", "Found.")

	// The request includes the history although it names the response: nothing is stored twice.
	x, _ := c.exchange("r4", "r5", assistant("Bye."), user("Hi"), assistant("Hello."), user("Look"), callItem("a", "f"), resultItem("a", "1"),
		callItem("b", "f"), resultItem("b", "2"), assistant("Found."), user("Bye"))
	if x.Match.Case != align.Extend || len(x.Pending()) != 1 {
		t.Fatalf("%+v %s", x.Match, transcript.Raw(x.Pending()))
	}
	c.Lives("s", "Hi", "Hello.", "Look", "", "1", "", "2", "Found.", "Bye", "Bye.")

	// Repeating the same request takes its own turn back. A different request from there is a branch.
	c.body = [32]byte{1}
	c.exchange("r5", "r6", assistant("one"), user("Count"))
	if _, s := c.exchange("r5", "r7", assistant("two"), user("Count")); s.Session != "s" {
		t.Fatalf("%+v", s)
	}
	c.unknown("r6")
	c.body = [32]byte{2}
	if x, s := c.exchange("r5", "r8", assistant("three"), user("Count on")); x.Fork != "s~1" || s.Session != "s~1" {
		t.Fatalf("%+v %+v", x.Fork, s)
	}
	c.Lives("s", "Hi", "Hello.", "Look", "", "1", "", "2", "Found.", "Bye", "Bye.", "Count", "two")
	c.Lives("s~1", "Hi", "Hello.", "Look", "", "1", "", "2", "Found.", "Bye", "Bye.", "Count on", "three")
	c.exchange("r8", "r9", assistant("four"), user("More"))
	c.exchange("r7", "r10", assistant("three"), user("More"))
	c.Lives("s", "Hi", "Hello.", "Look", "", "1", "", "2", "Found.", "Bye", "Bye.", "Count", "two", "More", "three")

	// An open turn is kept for a day, a response for thirty, and neither outlives its session.
	c.exchange("r10", "r11", callItem("c", "f"), user("Look again"))
	c.Advance(23 * time.Hour)
	c.Drain()
	c.exchange("r11", "r12", callItem("d", "f"), resultItem("c", "1"))
	c.Advance(2 * time.Hour)
	c.Drain()
	c.unknown("r11")
	c.unknown("r12") // what led to it is gone
	c.exchange("r10", "r13", assistant("Good night."), user("Good night"))
	c.Advance(31 * enginetest.ADay)
	c.Drain()
	c.unknown("r13")
	c.exchange("", "r14", callItem("e", "f"), user("Hi"), assistant("Hello."), user("Look"), callItem("a", "f"), resultItem("a", "1"),
		callItem("b", "f"), resultItem("b", "2"), assistant("Found."), user("Another way"))
	c.Sound()
	for _, id := range []string{"s", "s~1"} {
		if err := c.Sessions.Delete(t.Context(), c.Admin, ident.DefaultProject, id); err != nil {
			t.Fatal(err)
		}
	}
	c.Drain()
	c.unknown("r14")
	if err := c.Projects.Delete(t.Context(), c.Admin, ident.DefaultProject); err != nil {
		t.Fatal(err)
	}
	c.Drain()
	r, err := c.Store.Read(t.Context(), ident.DefaultTenant, store.Query{Ranges: []store.Range{records.Response.All(), records.SessionRecords.All()}})
	if err != nil || len(slices.Concat(r.Ranges...)) > 0 {
		t.Errorf("%d records are left of a project that is gone, %v", len(slices.Concat(r.Ranges...)), err)
	}
}

// TestOpenTurnsGoWithTheirSession checks that deleting a session also deletes its open turn.
func TestOpenTurnsGoWithTheirSession(t *testing.T) {
	c := &responses{Kit: enginetest.New(t)}
	_, s := c.exchange("", "r1", callItem("a", "f"), user("secret"))
	if !s.Open || s.Session != "s" {
		t.Fatalf("%+v", s)
	}
	if err := c.Sessions.Delete(t.Context(), c.Admin, ident.DefaultProject, "s"); err != nil {
		t.Fatal(err)
	}
	c.Drain()
	c.unknown("r1")
	r, err := c.Store.Read(t.Context(), ident.DefaultTenant, store.Query{Ranges: []store.Range{records.SessionRecords.All()}})
	if err != nil || len(r.Ranges[0]) > 0 {
		t.Errorf("%d records of the session are left, %v", len(r.Ranges[0]), err)
	}
	c.Sound()
}
