package window_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// page is a text of about so many bytes, of which no two lines are the same.
func page(bytes int) string {
	var b strings.Builder
	for i := 0; b.Len() < bytes; i++ {
		fmt.Fprintf(&b, "line %d: the quick brown fox met %d lazy dogs\n", i, i*i%97)
	}
	return b.String()[:bytes]
}

// A tool result that no budget holds is cut, in every format, stored or pending, whatever the pipeline is, alone or
// beside others. The window can be made again, and without more messages it is the same.
func TestOversizedResults(t *testing.T) {
	k := enginetest.New(t)
	for _, sizes := range [][]int{{36_000}, {1_000_000}, {36_000, 100_000, 200, 50_000}} {
		messages := []string{enginetest.User("read the files")}
		calls := []string{}
		for i := range sizes {
			calls = append(calls, fmt.Sprintf(
				`{"id":"c%d","type":"function","function":{"name":"read","arguments":"{}"}}`, i))
		}
		messages = append(messages,
			`{"role":"assistant","content":null,"tool_calls":[`+strings.Join(calls, ",")+`]}`)
		for i, size := range sizes {
			messages = append(messages, enginetest.Result(fmt.Sprint("c", i), page(size)))
		}
		stored := fmt.Sprint("stored ", len(sizes), sizes[0])
		stored = strings.ReplaceAll(stored, " ", "-")
		k.Post(stored, messages...)
		for _, pipeline := range []string{"", `,"pipeline":[]`, `,"pipeline":[{"policy":"tool-pair-trim"}]`} {
			for _, format := range []string{"openai.chat", "anthropic.messages", "openai.responses", "text"} {
				asked := []string{
					fmt.Sprintf(`{"session_id":%q,"explain":true,"format":%q%s}`, stored, format, pipeline),
					fmt.Sprintf(`{"session_id":%q,"explain":true,"tool_results":"markdown","format":%q%s}`, stored, format,
						pipeline)}
				if format == "openai.chat" || format == "text" {
					asked = append(asked, fmt.Sprintf(`{"session_id":"none","explain":true,"format":%q%s,"pending":[%s]}`,
						format, pipeline, strings.Join(messages, ",")))
				}
				for _, ask := range asked {
					w, err := k.TryAsk(ask)
					if err != nil {
						t.Errorf("%v: %s", err, clip(ask))
						continue
					}
					if w.Usage["tokens"] > 8000 || w.Usage["tokens"] < 2500 {
						t.Errorf("%d tokens: %s", w.Usage["tokens"], clip(ask))
					}
					if len(w.Report) < 2+len(sizes) {
						t.Fatalf("%d rows: %s", len(w.Report), clip(ask))
					}
					for i, size := range sizes {
						row := w.Report[2+i]
						if cut := row.Action == "truncate"; cut != (size > 1000) || cut && row.After >= row.Before {
							t.Errorf("result of %d bytes: %+v", size, row)
						}
					}
					validate(t, format, w)
					k.Replay(w.DecisionID)
					if again := k.Ask("%s", ask); string(windowOf(t, again)) != string(windowOf(t, w)) {
						t.Errorf("another window: %s", clip(ask))
					}
				}
			}
		}
	}
}

func clip(s string) string { return s[:min(len(s), 300)] }

// windowOf is what a response gives a provider.
func windowOf(t *testing.T, w enginetest.Window) []byte {
	t.Helper()
	b, err := json.Marshal([]any{w.System, w.Messages, w.Text})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A history beside an oversized result is not lost to it.
func TestOversizedLeavesRoom(t *testing.T) {
	k := enginetest.New(t)
	for i := range 10 {
		k.Post("s", enginetest.User(fmt.Sprint("question ", i)), enginetest.Assistant(page(300)))
	}
	k.Post("s", enginetest.User("read"), enginetest.Call("c", "read"), enginetest.Result("c", page(50_000)))
	w := k.Ask(`{"session_id":"s","explain":true,"pipeline":[{"policy":"tool-pair-trim"}]}`)
	if row := w.Report[22]; row.Action != "truncate" || row.Policy != "mneme" || row.ReasonCode != "oversized" ||
		row.After < 4000 || row.After > 6000 {
		t.Errorf("%+v", row)
	}
	if w.Report[0].Action != "keep" || len(w.Messages) != 23 {
		t.Errorf("%d messages, the first is %+v", len(w.Messages), w.Report[0])
	}
	k.Replay(w.DecisionID)
}

// A window of a session without a turn, of which nothing is stored yet, replays.
func TestReplayBeforeTheFirstTurn(t *testing.T) {
	k := enginetest.New(t)
	w := k.Ask(`{"session_id":"none","pending":[%s]}`, enginetest.User("hello"))
	k.Replay(w.DecisionID)
	if _, err := k.Trials.Decision(t.Context(), k.Admin, "default", w.DecisionID); err != nil {
		t.Error(err)
	}
}

// Assistants' texts are cut where results are not enough; users' never are.
func TestOversizedTexts(t *testing.T) {
	k := enginetest.New(t)
	k.Post("a", enginetest.User("write a book"), enginetest.Assistant(page(100_000)))
	w := k.Ask(`{"session_id":"a","explain":true}`)
	if row := w.Report[1]; row.Action != "truncate" || row.ReasonCode != "oversized" {
		t.Errorf("%+v", row)
	}
	k.Replay(w.DecisionID)

	k.Post("u", enginetest.User(page(100_000)))
	_, err := k.TryAsk(`{"session_id":"u"}`)
	if e := enginetest.WantKind(t, err, fault.Invalid); e.Code != "budget_too_small" || e.Needed < 20_000 {
		t.Errorf("%+v", e)
	}
}

// A project may rather have such requests refused. What a policy cuts is not refused.
func TestOversizedRefused(t *testing.T) {
	k := enginetest.New(t)
	k.SetIn("default", `{"oversized":"refuse"}`)
	k.Post("s", enginetest.User("read"), enginetest.Call("c", "read"), enginetest.Result("c", page(50_000)))
	_, err := k.TryAsk(`{"session_id":"s","pipeline":[{"policy":"tool-pair-trim"}]}`)
	if e := enginetest.WantKind(t, err, fault.Invalid); e.Code != "budget_too_small" || e.Needed < 10_000 ||
		e.Allowed != 8000 {
		t.Errorf("%+v", e)
	}
}

// A result that holds more than text says so where its text is cut or stubbed, and goes on to hold it.
func TestCutResultsTellWhatStays(t *testing.T) {
	k := enginetest.New(t)
	const image = `{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`
	for _, test := range []struct{ session, content, config, want string }{
		{"stub", `[{"type":"text","text":"` + strings.Repeat("word ", 100) + `"},` + image + `]`,
			`{"trigger":100,"keep":0,"clear_at_least":1}`,
			`"text":"[text of the result of shoot left out: 500 bytes, 101 tokens; images stay]"`},
		{"cut", `[{"type":"text","text":"` + strings.Repeat("word ", 4000) + `"},` + image + `]`,
			`{"max_result_tokens":100}`, ` bytes left out; images stay …]`},
		{"plain stub", `"` + strings.Repeat("word ", 100) + `"`, `{"trigger":100,"keep":0,"clear_at_least":1}`,
			`"content":"[result of shoot left out: 500 bytes, 107 tokens]"`},
	} {
		session := strings.ReplaceAll(test.session, " ", "-")
		for i, content := range []string{test.content, `"small"`} {
			req := inAnthropic(session)
			if _, err := k.TryPost(req, `{"role":"user","content":"look"}`,
				fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"c%d","name":"shoot","input":{}}]}`, i),
				fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c%d","content":%s}]}`, i,
					content)); err != nil {
				t.Fatal(err)
			}
		}
		w := k.Ask(`{"session_id":%q,"format":"anthropic.messages","pipeline":[{"policy":"tool-result-clear","config":%s}]}`,
			session, test.config)
		shown := string(windowOf(t, w))
		if !strings.Contains(shown, test.want) || strings.Contains(shown, "images stay") != strings.Contains(shown, "a.png") {
			t.Errorf("%s: %s", test.session, clip(shown))
		}
		k.Replay(w.DecisionID)
	}
}

func inAnthropic(id string) session.TurnRequest {
	return session.TurnRequest{SessionID: id, Format: "anthropic.messages"}
}

// A session of many long results is cut once: what is cut is the same however often it was asked for and whatever was
// asked for in between, and what a session gives that nobody has asked for anything yet.
func TestCutsAreRemembered(t *testing.T) {
	k := enginetest.New(t)
	post := func(session string) {
		for i := range 40 {
			id := fmt.Sprint("c", i)
			k.Post(session, enginetest.User("next"), enginetest.Call(id, "read"), enginetest.Result(id, page(30_000+100*i)))
		}
	}
	ask := func(session, rest string) string {
		w := k.Ask(`{"session_id":%q%s}`, session, rest)
		for _, step := range w.Pipeline {
			if step.Outcome != "ok" {
				t.Fatalf("%s ended with %s: %s", step.Policy, step.Outcome, step.Detail)
			}
		}
		k.Replay(w.DecisionID)
		return fmt.Sprint(w.Pipeline[1].Fuel, string(windowOf(t, w)))
	}
	post("s")
	asks := []string{``, `,"format":"anthropic.messages"`, `,"tool_results":"markdown"`, `,"budget":{"max_tokens":12000}`,
		`,"format":"text"`}
	alone := map[string]string{}
	for i, rest := range asks {
		session := fmt.Sprint("alone-", i)
		post(session)
		alone[rest] = ask(session, rest)
	}
	for range 3 {
		for _, rest := range asks {
			if ask("s", rest) != alone[rest] {
				t.Errorf("%q gave another window or other fuel than alone", rest)
			}
		}
	}
}
