package e2e

import (
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// compared is what a window's usage says about the previous window.
type compared struct {
	DecisionID string `json:"decision_id"`
	Messages   []json.RawMessage
	System     json.RawMessage
	Text       string
	Cut        *bool
	Usage      struct {
		Tokens float64
		Prefix *struct {
			Messages int
			Tokens   float64
			Share    float64
		}
	}
}

// TestUsagePrefix plays a recorded session and compares what each window says about the previous one with the two
// windows themselves.
func TestUsagePrefix(t *testing.T) {
	all := transcripts(t)
	ids := slices.Sorted(maps.Keys(all))[:2]
	for _, format := range []string{"openai.chat", "openai.responses", "anthropic.messages"} {
		t.Run(format, func(t *testing.T) {
			c, session := shared(t).in(t), mneme.unique("prefix")
			ask := func(viewer string, more object) (w compared) {
				t.Helper()
				body := object{"session_id": session, "format": format, "system": "You help.", "viewer": object{"agent": viewer},
					"budget": object{"max_messages": 30, "max_tokens": 2000}}
				maps.Copy(body, more)
				c.post("/api/v1/projects/default/context", body).want(200).into(&w)
				return w
			}
			var last *compared
			cuts, windows := 0, 0
			for _, id := range ids {
				for _, turn := range all[id].Turns {
					c.post("/api/v1/projects/default/turns", turnBody(session, turn)).want(201)
					// A window that is not recorded, or is for another viewer, does not count as the previous one.
					ask("main", object{"record": false, "system": "You look."})
					ask("other", object{"system": "You are another."})
					w := ask("main", nil)
					if last == nil {
						if w.Usage.Prefix != nil || *w.Cut {
							t.Fatalf("the first window shares %+v", w.Usage.Prefix)
						}
						last = &w
						continue
					}
					same := 0
					for same < min(len(last.Messages), len(w.Messages)) && string(w.Messages[same]) == string(last.Messages[same]) {
						same++
					}
					if string(w.System) != string(last.System) {
						same = 0
					}
					p := w.Usage.Prefix
					if p == nil {
						t.Fatal("a window is compared with none")
					}
					// Three tokens begin the reply and were not sent. The last message may now be part of a longer one.
					if p.Messages != same && p.Messages != same-1 {
						t.Errorf("turn %d: %d messages are shared, it says %d", turn.Number, same, p.Messages)
					}
					whole := same == len(last.Messages)
					if whole && (*w.Cut || p.Share < .99) || p.Share < 0 || p.Share > 1 ||
						math.Abs(p.Share-min(1, p.Tokens/(last.Usage.Tokens-3))) > .001 {
						t.Errorf("turn %d: %d of %d messages are shared: cut %t, %+v", turn.Number, same, len(last.Messages), *w.Cut, p)
					}
					if same < len(last.Messages)-1 && !*w.Cut {
						t.Errorf("turn %d: %d of %d messages are shared, and it is no cut", turn.Number, same, len(last.Messages))
					}
					windows++
					if *w.Cut {
						cuts++
					}
					var d struct {
						Cut   bool
						Usage struct{ Prefix any }
					}
					c.get("/api/v1/projects/default/decisions/" + w.DecisionID).want(200).into(&d)
					if d.Cut != *w.Cut || d.Usage.Prefix == nil {
						t.Errorf("the decision says %+v", d)
					}
					last = &w
				}
			}
			t.Logf("%d windows, %d cuts", windows, cuts)
			if cuts == 0 || cuts == windows {
				t.Errorf("%d of %d windows are cuts", cuts, windows)
			}
		})
	}
	text := string(shared(t).get("/metrics").want(200).body)
	for _, name := range []string{"windows", "windows_compared", "windows_cut", "windows_before_tokens", "windows_prefix_tokens"} {
		if !regexp.MustCompile(`(?m)^mneme_` + name + `_total [1-9]`).MatchString(text) {
			t.Errorf("/metrics has no mneme_%s_total", name)
		}
	}
}

// TestCacheControl posts more breakpoints than Anthropic accepts. The provider refuses no window, and auto sets
// breakpoints at which the next window's prefix ends.
func TestCacheControl(t *testing.T) {
	c, session := shared(t).in(t), mneme.unique("breakpoints")
	mark := object{"type": "ephemeral"}
	say := func(role, text string, mark any) object {
		block := object{"type": "text", "text": text}
		if mark != nil {
			block["cache_control"] = mark
		}
		return object{"role": role, "content": []object{block}}
	}
	for n := range 6 {
		ttl := any(mark)
		if n == 4 {
			ttl = object{"type": "ephemeral", "ttl": "1h"} // shorter ones before it must be removed
		}
		c.post("/api/v1/projects/default/turns", object{"session_id": session, "format": "anthropic.messages",
			"messages": []object{say("user", sprintf("question %d", n), ttl), say("assistant", sprintf("answer %d", n), nil)}}).want(201)
	}
	for _, tt := range []struct {
		control string
		tools   []object
		want    []string // the texts that have a breakpoint
	}{
		{"", nil, []string{"question 4", "question 5", "now"}},
		{"keep", []object{{"name": "f", "input_schema": object{"type": "object"}, "cache_control": object{"type": "ephemeral", "ttl": "1h"}}},
			[]string{"question 4", "question 5", "now"}},
		{"strip", nil, nil},
		{"auto", nil, []string{"You help.", "now"}},
		{"auto", nil, []string{"You help.", "now"}},
	} {
		body := object{"session_id": session, "format": "anthropic.messages", "system": "You help.",
			"pending": []object{say("user", "now", mark)}}
		if tt.control != "" {
			body["cache_control"] = tt.control
		}
		if tt.tools != nil {
			body["tools"] = tt.tools
		}
		var w compared
		c.post("/api/v1/projects/default/context", body).want(200).into(&w)
		sent := object{"model": "claude-opus-5-5", "max_tokens": 10, "messages": w.Messages, "system": w.System}
		if tt.tools != nil {
			sent["tools"] = tt.tools
		}
		if refusal := providers.CheckMessages(encodeJSON(t, sent)); refusal != nil {
			t.Errorf("%s: %v", tt.control, refusal)
		}
		raw := string(encodeJSON(t, []any{w.System, w.Messages}))
		var got []string
		for _, m := range regexp.MustCompile(`\{[^{}]*"cache_control":\{[^{}]*\}[^{}]*\}`).FindAllString(raw, -1) {
			got = append(got, regexp.MustCompile(`"text":"([^"]*)"`).FindStringSubmatch(m)[1])
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: breakpoints at %q, want %q\n%s", tt.control, got, tt.want, raw)
		}
		var again struct {
			Equal  bool
			Window struct{ Messages []json.RawMessage }
		}
		c.post("/api/v1/projects/default/decisions/"+w.DecisionID+"/replay", nil).want(200).into(&again)
		if !again.Equal || len(again.Window.Messages) != len(w.Messages) {
			t.Errorf("%q: the window is another one when it is made again", tt.control)
		}
	}
	c.post("/api/v1/projects/default/context", object{"cache_control": "never"}).wantCode(422, "invalid_value")
}
