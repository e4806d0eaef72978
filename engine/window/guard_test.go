package window_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// guarded is a pipeline that hides words with the prefix sk- from everything that comes after it.
const guarded = `{"policy":"redact","guard":true}`

const hidden = "sk-12ab"

// leaks fails if a window, its explanation or a replay shows the secret.
func leaks(t *testing.T, what string, raw []byte) {
	t.Helper()
	for _, secret := range []string{hidden, "sk-99", "sk-1 "} {
		at := strings.Index(string(raw), secret)
		if at < 0 {
			continue
		}
		t.Errorf("%s: a secret is shown: …%.120s", what, raw[max(0, at-60):])
	}
}

// scribe summarises everything in the same words.
type scribe struct{ text string }

func (s *scribe) Summarise(context.Context, summary.Request) (summary.Reply, error) {
	return summary.Reply{Text: s.text, Model: "scribe"}, nil
}

func (s *scribe) Prompt() string { return "test" }

// secretive has secrets in each kind of text, and tool results that together exceed what a call could once read.
func secretive(t *testing.T) *enginetest.Kit {
	t.Helper()
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(&scribe{"they used " + hidden}))
	k.Upload("redact", enginetest.Example(t, "redact"))
	k.Remember(memory.Spec{Key: "login", Content: "the login key is " + hidden})
	long := strings.Repeat("all work and no play ", 11_000)
	for turn := range 3 {
		read := "nothing"
		if turn == 1 {
			read = long + hidden + " " + long
		}
		k.Post("s", enginetest.User(fmt.Sprintf("My login key is %s, turn %d.", hidden, turn)),
			`{"role":"assistant","content":"I use `+hidden+`.","tool_calls":[
			{"id":"c1","type":"function","function":{"name":"login","arguments":"{\"key\":\"`+hidden+`\"}"}},
			{"id":"c2","type":"function","function":{"name":"read","arguments":"{}"}}]}`,
			enginetest.Result("c1", "welcome "+hidden), enginetest.Result("c2", read))
	}
	k.Post("s", enginetest.User("What is the login key?"))
	return k
}

// Whatever the request, no window shows what a guard hides.
func TestGuardsHide(t *testing.T) {
	k := secretive(t)
	k.SetPipeline(`[` + guarded + `,{"policy":"delegation-filter"},{"policy":"tool-pair-trim"}]`)
	for _, format := range everyFormat {
		for _, rest := range []string{``, `"tool_results":"markdown"`, `"budget":{"max_tokens":3000}`, `"budget":{"max_tokens":400}`,
			`"budget":{"max_messages":2}`, `"pipeline":[]`, `"pipeline":[{"policy":"redact","config":{"prefix":"zz"}}]`, `"memories":{}`,
			`"memories":{"position":"first"}`, `"memories":{"role":"system"}`, `"pending":[{"role":"user","content":"And sk-99?"}]`,
			`"as_of":{"turn":2}`, `"record":false`} {
			if rest != "" {
				rest = "," + rest
			}
			request := fmt.Sprintf(`{"session_id":"s","explain":true,"pending_format":"openai.chat","format":%q%s}`, format, rest)
			w, err := k.TryAsk(request)
			if err != nil {
				t.Fatalf("%s: %v", request, err)
			}
			leaks(t, request, w.Raw)
			if w.Pipeline[0].Policy != "redact" || w.Pipeline[0].Outcome != "ok" {
				t.Errorf("%s: %+v", request, w.Pipeline)
			}
			if w.DecisionID == "" {
				continue
			}
			k.Replay(w.DecisionID)
			for _, fork := range []lab.ForkRequest{{}, {Settings: json.RawMessage(`{"pipeline":[]}`)}, {Record: true}} {
				forked, err := k.Trials.Fork(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID, &fork, nil)
				if err != nil {
					t.Fatal(err)
				}
				leaks(t, "fork of "+request, forked)
			}
		}
	}
}

// The running summary, and what later steps insert or replace, passes the guards as well.
func TestGuardsSeeLaterTexts(t *testing.T) {
	k := secretive(t)
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true,"summary_threshold":4,"summary_keep_last":1,"summary_mode":"background"}`)
	k.Upload("inserts", wasmtest.Policy(`{"abi":"1.1","hooks":["assemble"]}`, wasmtest.Answer(6, 0, 0, 0, "insert sk-1 here")))
	k.Upload("replaces", wasmtest.Policy(`{"abi":"1.1","hooks":["assemble"]}`, wasmtest.Answer(5, 0, 0, 0, "replace sk-1 here")))
	for _, step := range []string{"inserts", "replaces", "summarise"} {
		k.SetPipeline(`[` + guarded + `,{"policy":"` + step + `"}]`)
		w := k.Ask(`{"session_id":"s","explain":true,"budget":{"max_tokens":0}}`)
		k.Drain()
		if step == "summarise" {
			w = k.Ask(`{"session_id":"s","explain":true,"budget":{"max_tokens":0}}`)
		}
		leaks(t, step, w.Raw)
		want := map[string]string{"inserts": "insert [redacted] here", "replaces": "replace [redacted] here",
			"summarise": "they used [redacted]"}[step]
		if !strings.Contains(shownOf(w), want) || len(w.Pipeline) != 3 {
			t.Errorf("%s: %+v %.300s", step, w.Pipeline, shownOf(w))
		}
		k.Replay(w.DecisionID)
	}
}

// Memories after the guards are those before them, for the next window.
func TestGuardedRemindersStay(t *testing.T) {
	k := secretive(t)
	k.SetPipeline(`[` + guarded + `]`)
	first := k.Ask(`{"session_id":"s","memories":{},"pending":[{"role":"user","content":"the login key?"}]}`)
	leaks(t, "first", first.Raw)
	if !strings.Contains(shownOf(first), "the login key is [redacted]") {
		t.Fatalf("%.300s", shownOf(first))
	}
	k.Post("s", enginetest.User("the login key?"), enginetest.Assistant("I cannot say."))
	k.SetPipeline(`[]`)
	bare := k.Ask(`{"session_id":"s","memories":{}}`)
	k.SetPipeline(`[` + guarded + `]`)
	again := k.Ask(`{"session_id":"s","memories":{}}`)
	leaks(t, "again", again.Raw)
	if !strings.Contains(shownOf(bare), "the login key is "+hidden) || !strings.Contains(shownOf(again), "the login key is [redacted]") {
		t.Errorf("%.300s", shownOf(again))
	}
	k.Replay(first.DecisionID)
	k.Replay(bare.DecisionID)
	k.Replay(again.DecisionID)
}

// A guard that does not end well refuses the request, whatever the request's own pipeline is.
func TestGuardsFailClosed(t *testing.T) {
	k := secretive(t)
	for name, code := range map[string][]byte{
		"traps":    wasmtest.Policy(`{"abi":"1.1","hooks":["assemble"]}`, wasmtest.Trap()),
		"inserts":  wasmtest.Policy(`{"abi":"1.1","hooks":["assemble"]}`, wasmtest.Answer(6, 0, 99, 0, "no such place")),
		"drops":    wasmtest.Policy(`{"abi":"1.1","hooks":["assemble"]}`, wasmtest.DropFirst()),
		"compress": wasmtest.Policy(`{"abi":"1.1","hooks":["assemble"]}`, wasmtest.Answer(2, 0, 0, 0, "")),
	} {
		k.Upload(name, code)
		k.SetPipeline(`[{"policy":"` + name + `","guard":true},{"policy":"delegation-filter"}]`)
		for _, rest := range []string{``, `,"pipeline":[]`, `,"record":false`} {
			_, err := k.TryAsk(`{"session_id":"new","pending":[{"role":"user","content":"hello"}]` + rest + `}`)
			enginetest.RefusedWith(t, err, fault.Invalid, "policy_failed")
		}
	}
	// A secret that is longer than a plan can mask.
	k.SetPipeline(`[` + guarded + `]`)
	_, err := k.TryAsk(`{"session_id":"new","pending":[` + enginetest.User("sk-"+strings.Repeat("x", 300)) + `]}`)
	enginetest.RefusedWith(t, err, fault.Invalid, "policy_failed")
}

// Two results of 594 KB are more than a call can mask. They were once shown, because the step that failed was skipped.
func TestGuardsRefuseWhatTheyCannotMask(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("redact", enginetest.Example(t, "redact"))
	k.SetPipeline(`[` + guarded + `]`)
	long := strings.Repeat("all work and no play ", 28_285)
	k.Post("s", enginetest.User("Read both."), `{"role":"assistant","content":null,"tool_calls":[
		{"id":"c1","type":"function","function":{"name":"read","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"read","arguments":"{}"}}]}`,
		enginetest.Result("c1", long+hidden), enginetest.Result("c2", hidden+long))
	for _, rest := range []string{``, `,"budget":{"max_tokens":3000}`, `,"pipeline":[]`} {
		_, err := k.TryAsk(`{"session_id":"s"` + rest + `}`)
		enginetest.RefusedWith(t, err, fault.Invalid, "policy_failed")
	}
}

// A mask hides a secret in long texts, in documents of tool results, in strings of arguments however they are
// written, and in thinking, which then goes.
func TestMaskedParts(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("redact", enginetest.Example(t, "redact"))
	k.SetPipeline(`[` + guarded + `]`)
	long := strings.Repeat("all work and no play ", 4_500)
	post := func(format string, messages ...string) {
		t.Helper()
		if _, err := k.TryPost(session.TurnRequest{SessionID: "s", Format: format}, messages...); err != nil {
			t.Fatal(err)
		}
	}
	post("anthropic.messages", enginetest.User(long+hidden+" "+long),
		`{"role":"assistant","content":[{"type":"thinking","thinking":"the key is `+hidden+`","signature":"c2ln"},{"type":"text","text":"I use `+hidden+`."},
			{"type":"tool_use","id":"c1","name":"login","input":{"key":"s\u006b-12ab"}}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"`+hidden+`"},
			{"type":"document","source":{"type":"text","media_type":"text/plain","data":"page `+hidden+`"}}]}]}`,
		`{"role":"assistant","content":[{"type":"thinking","thinking":"nothing to hide","signature":"c2ln"},{"type":"text","text":"Done."}]}`)
	post("openai.chat", enginetest.User("and now?"), `{"role":"assistant","content":"Fine.","reasoning_content":"they gave me `+hidden+`"}`)
	for _, format := range everyFormat {
		w := k.Ask(`{"session_id":"s","format":%q,"reasoning":"content","explain":true,"budget":{"max_messages":0,"max_tokens":0}}`, format)
		leaks(t, format, w.Raw)
		for _, want := range []string{"all work and no play [redacted] all work", "I use [redacted].", "page [redacted]"} {
			if !strings.Contains(shownOf(w), want) {
				t.Errorf("%s: there is no %q", format, want)
			}
		}
		if format == "anthropic.messages" && !strings.Contains(shownOf(w), `"key":"[redacted]"`) {
			t.Errorf("%s: the arguments are %.800s", format, shownOf(w)[len(long):])
		}
		k.Replay(w.DecisionID)
	}
}

// Settings with guards are checked as a whole.
func TestGuardSettings(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("redact", enginetest.Example(t, "redact"))
	for settings, code := range map[string]string{
		`{"pipeline":[{"policy":"delegation-filter"},` + guarded + `]}`:                         "guard_not_first",
		`{"pipeline":[{"policy":"redact","guard":true,"on_error":"skip"}]}`:                     "invalid_value",
		`{"pipeline":[` + guarded + `],"proxy_mode":"observe"}`:                                 "guard_needs_window",
		`{"pipeline":[` + guarded + `],"proxy_mode":"off"}`:                                     "guard_needs_window",
		`{"pipeline":[` + guarded + `],"proxy_mode":"recall"}`:                                  "guard_needs_window",
		`{"pipeline":[` + guarded + `],"proxy_mode":"auto","proxy_tools":["memory_recall"]}`:    "guard_needs_window",
		`{"pipeline":[` + guarded + `,{"policy":"delegation-filter"}],"proxy_mode":"assemble"}`: "",
	} {
		_, err := k.Projects.PatchSettings(t.Context(), k.Admin, ident.DefaultProject, json.RawMessage(settings))
		if code == "" {
			if err != nil {
				t.Errorf("%s: %v", settings, err)
			}
			continue
		}
		enginetest.RefusedWith(t, err, fault.Invalid, code)
	}
}

// The circuit breaker sets back failing policies, but never a guard.
func TestBreakerLeavesGuards(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("p", wasmtest.Policy(`{"abi":"1.1","hooks":["assemble"]}`, wasmtest.Keep()))
	v := k.Upload("p", wasmtest.Policy(`{"abi":"1.1","hooks":["assemble"]}`, wasmtest.Trap()))
	k.SetLive("p", v.Version)
	k.SetPipeline(`[{"policy":"p","guard":true}]`)
	for range 20 {
		_, err := k.TryAsk(`{"pending":[{"role":"user","content":"hello"}]}`)
		enginetest.RefusedWith(t, err, fault.Invalid, "policy_failed")
	}
	if live := k.Live("p"); live != v.Version {
		t.Errorf("version %d is live", live)
	}
}
