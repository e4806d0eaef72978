package window_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
)

// rememberedIn are the memories that a window says were found, in order, those that it shows with a +.
func rememberedIn(t *testing.T, w enginetest.Window) string {
	t.Helper()
	var got struct {
		Memories []struct {
			Key      string
			Injected bool
		}
	}
	if err := json.Unmarshal(w.Raw, &got); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range got.Memories {
		if m.Injected {
			m.Key = "+" + m.Key
		}
		out = append(out, m.Key)
	}
	return strings.Join(out, " ")
}

// TestRemembered asks for memories in a window: what fits stands before the newest question as one message, within the
// budget, with a row of its own, and the window can be replayed for as long as the versions that it used are kept.
func TestRemembered(t *testing.T) {
	k := enginetest.New(t)
	k.Keep("home", "Ada lives in Lisbon with two cats")
	k.Keep("work", "Ada builds bridges")
	k.Keep("food", "Grace likes olives")
	k.Post("dashboard", enginetest.User("hello"), `{"role":"assistant","content":"hi"}`)

	w := k.Ask(`{"explain":true,"memories":{"query":"where does Ada live?","limit":2},"pending":[{"role":"user","content":"x"}]}`)
	if got := rememberedIn(t, w); !strings.HasPrefix(got, "+home") {
		t.Errorf("found %q", got)
	}
	if m := string(w.Messages[2]); !strings.Contains(m, "two cats") || !strings.Contains(m, `"role":"user"`) || len(w.Messages) != 4 {
		t.Errorf("before the question stands %s", m)
	}
	rows, size := 0, 0
	for _, r := range w.Report {
		if r.MessageID == "memories" {
			rows++
			size = r.After
			if r.Action != "inject" || r.ReasonCode != "recalled" || r.Policy != "mneme" {
				t.Errorf("the row says %+v", r)
			}
		}
	}
	if rows != 1 || w.Usage["tokens"] != w.Usage["history_tokens"]+size+tokens.Primer {
		t.Errorf("%d rows, %d tokens of %v", rows, size, w.Usage)
	}
	k.Replay(w.DecisionID)

	byQuestion := k.Ask(`{"memories":{},"pending":[{"role":"user","content":"who likes olives?"}]}`)
	if got := rememberedIn(t, byQuestion); !strings.HasPrefix(got, "+food") {
		t.Errorf("the newest question finds %q", got)
	}

	k.Keep("home", "Ada lives in Porto") // the version before is kept
	k.Replay(w.DecisionID)
	if _, err := k.Memories.Forget(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "home"); err != nil {
		t.Fatal(err)
	}
	k.Keep("home", "Ada lives in Faro") // another memory of that name
	_, err := k.Windows.Replay(k.Context(), k.Admin, ident.DefaultProject, w.DecisionID, nil)
	if gone := (*fault.Error)(nil); !errors.As(err, &gone) || gone.Code != "memory_purged" {
		t.Errorf("replaying with a forgotten memory: %v", err)
	}
}

// TestWhereMemoriesStand holds for each place, role and format where memories stand, who seems to say them, that what
// they take is counted apart, and that replays are equal.
func TestWhereMemoriesStand(t *testing.T) {
	k := enginetest.New(t)
	k.Keep("home", "Ada lives in Lisbon with two cats")
	k.Post("dashboard", enginetest.User("hello"), `{"role":"assistant","content":"hi"}`)
	bare := func(format, pending string) enginetest.Window {
		return k.Ask(`{"format":%q,"pending":[%s]}`, format, pending)
	}
	for format, user := range map[string]string{"openai.chat": `{"role":"user","content":"where does Ada live?"}`,
		"anthropic.messages": `{"role":"user","content":[{"type":"text","text":"where does Ada live?"}]}`,
		"openai.responses":   `{"role":"user","content":"where does Ada live?"}`, "text": `{"role":"user","content":"where does Ada live?"}`} {
		plain := bare(format, user) // before any memories were shown for the question
		for _, position := range []string{"before_newest", "first"} {
			for _, role := range []string{"user", "system"} {
				request := fmt.Sprintf(`{"explain":true,"format":%q,"pending":[%s],"memories":{"position":%q,"role":%q}}`,
					format, user, position, role)
				w := k.Ask("%s", request)
				at := -1 // the message that holds them
				for i, m := range w.Messages {
					if strings.Contains(string(m), "two cats") {
						at = i
					}
				}
				var whole struct{ System, Text string }
				if err := json.Unmarshal(w.Raw, &whole); err != nil {
					t.Fatal(err)
				}
				inSystem := format == "anthropic.messages" && role == "system"
				switch last := len(w.Messages) - 1; {
				case format == "text":
					if first := strings.Index(whole.Text, "two cats") < strings.Index(whole.Text, "hello"); first != (position == "first") {
						t.Errorf("%s: %s", request, whole.Text)
					}
				case inSystem && (at >= 0 || !strings.Contains(whole.System, "two cats")):
					t.Errorf("%s: %s", request, w.Raw)
				case inSystem:
				case format == "anthropic.messages" && position == "before_newest": // joined with the question
					if at != last || !strings.Contains(string(w.Messages[at]), "where does") {
						t.Errorf("%s: %s", request, w.Messages)
					}
				case position == "before_newest" && at != last-1, position == "first" && at != 0,
					!strings.Contains(string(w.Messages[at]), `"role":"`+role+`"`):
					t.Errorf("%s: %s", request, w.Messages)
				}
				memories, kept := 0, 0
				for _, r := range w.Report {
					if r.MessageID == "memories" {
						memories += r.After
					} else {
						kept += r.After
					}
				}
				parts := func(w enginetest.Window) (p struct {
					Usage struct {
						Parts map[string]int
					}
				}) {
					if err := json.Unmarshal(w.Raw, &p); err != nil {
						t.Fatal(err)
					}
					return p
				}
				with, without := parts(w).Usage.Parts, parts(plain).Usage.Parts
				if memories == 0 || with["memories"] != memories || w.Usage["tokens"] != plain.Usage["tokens"]+memories ||
					with["pending"] != without["pending"] || with["history"] != without["history"] ||
					w.Usage["history_tokens"] != plain.Usage["history_tokens"] || kept != w.Usage["history_tokens"] {
					t.Errorf("%s: %v and %v, memories %d, kept %d", request, w.Usage, plain.Usage, memories, kept)
				}
				k.Replay(w.DecisionID)
			}
		}
	}
	for _, wrong := range []string{`{"memories":{"position":"last"}}`, `{"memories":{"role":"assistant"}}`} {
		if _, err := k.TryAsk(wrong); err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
}

// TestRememberedBudget gives memories no more than what must stay leaves them.
func TestRememberedBudget(t *testing.T) {
	k := enginetest.New(t)
	for i := range 5 {
		k.Keep(fmt.Sprintf("fact%d", i), "bridge "+strings.Repeat(fmt.Sprintf("detail%d ", i), 20))
	}
	k.Post("dashboard", enginetest.User("tell me of the bridge"))
	last := -1
	for tokens := 10; tokens < 900; tokens += 10 {
		request := fmt.Sprintf(`{"explain":true,"memories":{"query":"bridge"},"budget":{"max_tokens":%d}}`, tokens)
		w, err := k.TryAsk(request)
		if tooSmall := (*fault.Error)(nil); errors.As(err, &tooSmall) && tooSmall.Code == "budget_too_small" {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		shown := strings.Count(rememberedIn(t, w), "+")
		if w.Usage["tokens"] > tokens || shown < last {
			t.Errorf("%d memories in %d of %d tokens, %d before", shown, w.Usage["tokens"], tokens, last)
		}
		last = shown
		k.Replay(w.DecisionID)
	}
	if last != 5 {
		t.Errorf("%d memories fit the widest budget", last)
	}
	w := k.Ask(`{"memories":{"query":"nothing of the kind"}}`)
	if got := rememberedIn(t, w); got != "" || len(w.Messages) != 1 {
		t.Errorf("found %q", got)
	}
	k.Advance(time.Hour)
	if _, err := k.TryAsk(`{"memories":{"query":"x","limit":100000}}`); err == nil {
		t.Error("a limit beyond all bounds was taken")
	}
}

// TestRememberedWhatFits leaves out what is too long for the message, and not what comes behind it; a question without
// words asks for the most recent.
func TestRememberedWhatFits(t *testing.T) {
	k := enginetest.New(t)
	k.Keep("long", strings.Repeat("bridge ", 20_000))
	k.Advance(time.Second)
	k.Keep("short", "a bridge in Lisbon")
	k.Post("dashboard", enginetest.User("hello"))
	for _, budget := range []string{"0", "8000"} {
		w := k.Ask(`{"memories":{"query":"bridge"},"budget":{"max_tokens":%s}}`, budget)
		if got := rememberedIn(t, w); got != "long +short" && got != "+short long" {
			t.Errorf("with %s tokens: %q", budget, got)
		}
		k.Replay(w.DecisionID)
	}
	for _, question := range []string{" ", "\\n", "\u00a0"} {
		w := k.Ask(`{"memories":{},"pending":[{"role":"user","content":"%s"}]}`, question)
		if got := rememberedIn(t, w); got != "+short long" {
			t.Errorf("%q finds %q", question, got)
		}
	}
}
