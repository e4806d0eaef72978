package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	size "github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/hard"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// redacting sets the project's pipeline to the default one behind the example redact, which hides words with a prefix.
func (c *conversation) redacting(prefix string) {
	c.t.Helper()
	module, err := os.ReadFile("../../sdk/policy/go/examples/redact/redact.wasm")
	if err != nil {
		c.t.Fatal(err)
	}
	name := mneme.unique("redact")
	c.upload(name, module).want(201)
	steps := []object{{"policy": name, "config": object{"prefix": prefix}, "on_error": "error"}}
	for _, policy := range []string{"delegation-filter", "tool-result-clear", "summarise", "tool-pair-trim"} {
		steps = append(steps, object{"policy": policy})
	}
	c.do("PATCH", c.path("/settings"), object{"pipeline": steps}).want(200)
}

// ledgerOf returns the message of a window that names what is gone, or "".
func ledgerOf(w *window) string {
	for _, m := range w.Messages {
		if strings.Contains(string(m), plan.Marker) {
			return string(m)
		}
	}
	return ""
}

// gone names the stored messages that a window does not show, or only as a question.
func gone(w *window) string {
	var ids []string
	for _, r := range w.Report {
		if (r.Action == "drop" || r.Action == "compress") && r.MessageID != "" {
			ids = append(ids, r.MessageID)
		}
	}
	return strings.Join(ids, " ")
}

// braided weaves the turns of transcripts into one session.
func braided(all []*hard.Transcript) (turns [][]json.RawMessage) {
	for n := 0; ; n++ {
		more := false
		for i, transcript := range all {
			if n >= len(transcript.Turns) {
				continue
			}
			more = true
			var turn []json.RawMessage
			for _, raw := range transcript.Turns[n].Input {
				// Calls of different transcripts may have the same id.
				text := strings.ReplaceAll(string(raw), `"id":"call_`, fmt.Sprintf(`"id":"call_%d`, i))
				text = strings.ReplaceAll(text, `"id": "call_`, fmt.Sprintf(`"id": "call_%d`, i))
				text = strings.ReplaceAll(text, `"tool_call_id":"call_`, fmt.Sprintf(`"tool_call_id":"call_%d`, i))
				turn = append(turn, json.RawMessage(strings.ReplaceAll(text, `"tool_call_id": "call_`, fmt.Sprintf(`"tool_call_id": "call_%d`, i))))
			}
			turns = append(turns, turn)
		}
		if !more {
			return turns
		}
	}
}

// TestCampaignLedger plays recorded sessions, four woven into one, with the default pipeline and behind a policy that
// redacts. The ledger is the same, byte for byte, while the same messages are gone, and names nothing that was redacted.
func TestCampaignLedger(t *testing.T) {
	t.Parallel()
	all := transcripts(t)
	ids := slices.Sorted(maps.Keys(all))
	const secret = "gift_card_"
	named := 0 // ledgers without redaction that name a secret
	for at := 0; at+4 <= size.Size(4, len(ids)); at += 4 {
		var four []*hard.Transcript
		for _, id := range ids[at : at+4] {
			four = append(four, all[id])
		}
		turns := braided(four)
		open, redacted := own(t), own(t)
		redacted.redacting(secret)
		for _, tokens := range []int{8000, 3000} {
			for _, c := range []*conversation{open, redacted} {
				session := fmt.Sprint("s", tokens)
				var last *window
				ledgers, repeated := map[string]bool{}, 0
				ask := func(pending []json.RawMessage) {
					t.Helper()
					w := c.assemble(object{"session_id": session, "pending": pending, "explain": true,
						"budget": object{"max_tokens": tokens}})
					ledger := ledgerOf(w)
					if last != nil && gone(last) == gone(w) {
						if ledger != ledgerOf(last) {
							t.Errorf("the same messages are gone, and the ledger changes from\n%s\nto\n%s", ledgerOf(last), ledger)
						}
						repeated++
					}
					ledgers[ledger], last = true, w
					if shown := string(promptOf(w)); c == redacted && strings.Contains(shown, secret) {
						t.Fatalf("a window shows what was redacted: %s", shown)
					}
					if strings.Contains(ledger, secret) {
						named++
					}
				}
				for _, turn := range turns {
					for i, raw := range turn {
						if strings.Contains(string(raw), `"assistant"`) && i > 0 {
							ask(turn[:i])
						}
					}
					c.post(c.path("/turns"), object{"session_id": session, "messages": turn}).want(201)
				}
				if tokens < 8000 && (len(ledgers) < 3 || repeated < 20) {
					t.Errorf("%d ledgers, of which %d windows repeated one", len(ledgers), repeated)
				}
			}
		}
	}
	if named == 0 {
		t.Error("no ledger names what is redacted elsewhere")
	}
}

// longTalk posts turns until older ones are gone from the window of 2,000 tokens that it returns.
func (c *conversation) longTalk(session string) *window {
	c.t.Helper()
	for n := range 12 {
		c.turn(session, user(fmt.Sprint("and then? ", strings.Repeat("so ", 200), n)), assistant("We shall see.")).want(201)
	}
	return c.small(session)
}

// small asks for a window of 2,000 tokens.
func (c *conversation) small(session string) *window {
	c.t.Helper()
	return c.assemble(object{"session_id": session, "budget": object{"max_tokens": 2000}, "explain": true})
}

// TestLedgerForgets: what is rewound, purged, deleted, or removed and edited by a client of the proxy, and a memory that
// is forgotten, is in no later ledger. Before, the ledger names what the session said, and never what a memory says.
func TestLedgerForgets(t *testing.T) {
	t.Parallel()
	names := func(t *testing.T, w *window, want bool) {
		t.Helper()
		ledger, shown := ledgerOf(w), string(promptOf(w))
		if strings.Contains(ledger, "ZX12345") != want || !want && strings.Contains(shown, "ZX12345") || gone(w) == "" {
			t.Errorf("the ledger names it: %v, want %v: %s", !want, want, shown)
		}
	}
	said := []any{user("my order is ZX12345"), assistant("noted")}
	t.Run("rewound", func(t *testing.T) {
		c := own(t)
		c.turn("s", user("hello"), assistant("hi")).want(201)
		c.turn("s", said...).want(201)
		names(t, c.longTalk("s"), true)
		c.post(c.path("/sessions/s/rewind"), object{"to_turn": 1}).want(200)
		names(t, c.longTalk("s"), false)
	})
	t.Run("deleted", func(t *testing.T) {
		c := own(t)
		c.turn("s", said...).want(201)
		names(t, c.longTalk("s"), true)
		c.do("DELETE", c.path("/sessions/s"), nil).want(204)
		names(t, c.longTalk("s"), false)
	})
	t.Run("purged", func(t *testing.T) {
		c := own(t)
		c.turn("s", said...).want(201)
		names(t, c.longTalk("s"), true)
		c.do("DELETE", purgePath+c.project+"&older_than_days=0", nil).want(200)
		names(t, c.longTalk("s"), false)
	})
	t.Run("a memory forgotten", func(t *testing.T) {
		c := own(t)
		c.remember(object{"key": "order", "content": "the order is ZX12345"})
		w := c.assemble(object{"session_id": "s", "memories": object{}, "pending": []any{user("which order?")}})
		if !strings.Contains(string(promptOf(w)), "ZX12345") {
			t.Fatalf("it is not recalled: %s", promptOf(w))
		}
		c.post(c.path("/turns"), object{"session_id": "s", "decision_id": w.DecisionID,
			"messages": []any{user("which order?"), assistant("that one")}}).want(201)
		if w := c.longTalk("s"); strings.Contains(string(promptOf(w)), "ZX12345") || gone(w) == "" {
			t.Errorf("the window shows a memory of a turn that is gone: %s", promptOf(w))
		}
		c.do("DELETE", c.path("/memories/order"), nil).want(204)
		names(t, c.small("s"), false)
	})
	t.Run("removed and edited through the proxy", func(t *testing.T) {
		provider := providers.Start(t)
		c := behindProxy(t, provider.URL)
		call := func(messages []object, question string) []object {
			messages = append(slices.Clip(messages), user(question))
			provider.Script(providers.Say("noted"))
			c.do("POST", "/v1/chat/completions", object{"model": "gpt-4o", "messages": messages},
				"X-Mneme-Session", "s", "X-Mneme-Key", c.key, "Authorization", "Bearer sk").want(200)
			return append(messages, assistant("noted"))
		}
		history := call(nil, "my order is ZX12345")
		history = call(history, "and YW23456")
		for n := range 12 {
			history = call(history, fmt.Sprint("and then? ", strings.Repeat("so ", 200), n))
		}
		names(t, c.small("s"), true)
		history = history[2:] // the first turn
		history = call(history, "one more")
		names(t, c.small("s"), false)
		if ledger := ledgerOf(c.small("s")); !strings.Contains(ledger, "YW23456") {
			t.Errorf("the ledger does not name what stays: %s", ledger)
		}
		history[0] = user("and QQ34567")
		call(history, "one more still")
		if ledger := ledgerOf(c.small("s")); strings.Contains(ledger, "YW23456") || !strings.Contains(ledger, "QQ34567") {
			t.Errorf("the ledger after an edit: %s", ledger)
		}
	})
}
