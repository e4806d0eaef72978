package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// proxyCase is a sequence of calls that clients' reports are about. What is right is in the check of its id.
type proxyCase struct {
	ID    string
	Steps []json.RawMessage // bodies; texts are comments
}

// proxyCases reads the cases of testdata and, where MNEME_TESTDATA names a folder beside one of cases, those, too.
func proxyCases(t *testing.T) map[string][]proxyCase {
	t.Helper()
	out := map[string][]proxyCase{}
	for name, path := range map[string]string{"ours": filepath.Join("testdata", "proxycases.json"),
		"reported": filepath.Join(os.Getenv("MNEME_TESTDATA"), "..", "cases", "proxy.json")} {
		if name == "reported" && os.Getenv("MNEME_TESTDATA") == "" {
			continue
		}
		raw, err := os.ReadFile(path)
		if name == "reported" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var list []proxyCase
		if err == nil {
			err = json.Unmarshal(raw, &list)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			list[i].Steps = slices.DeleteFunc(list[i].Steps, func(step json.RawMessage) bool { return step[0] != '{' })
		}
		out[name] = list
	}
	return out
}

// proxyChecks play a case in a mode and check what the provider and the client got, and what is stored.
var proxyChecks = map[string]func(t *testing.T, c proxyCase, mode string){
	"item-reference": caseReference, "edit-kept-answers": caseEdit, "stale-front": caseFront, "prompt-cache-key": caseCacheKey,
	"reasoning-content": caseReasoning, "function-call": caseFunctions, "no-done": caseNoDone, "stream-options": caseStreamOptions, "big-turn": caseBigTurn,
	"title-call": caseTitle, "routes": caseRoutes,
}

// TestProxyCases plays calls that went wrong for users of proxies, in every mode that stores.
func TestProxyCases(t *testing.T) {
	t.Parallel()
	for from, list := range proxyCases(t) {
		for _, c := range list {
			check := proxyChecks[c.ID]
			if check == nil {
				t.Errorf("nothing checks the case %s", c.ID)
				continue
			}
			if len(c.Steps) == 0 && from != "ours" {
				continue // It is a description, and has run.
			}
			for _, mode := range []string{"observe", "recall", "assemble"} {
				t.Run(from+"/"+c.ID+"/"+mode, func(t *testing.T) {
					t.Parallel()
					check(t, c, mode)
				})
			}
		}
	}
}

// caseCall sends a body of the case to a path, and checks that the provider got its last message and, in observe, its
// bytes.
func caseCall(t *testing.T, s *site, r *recorder, path string, body []byte, headers ...string) answer {
	t.Helper()
	a := s.do("POST", path, string(body), callHeaders(headers...)...)
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := r.bodies[len(r.bodies)-1]; slices.Contains(headers, "observe") && got != string(body) {
		t.Errorf("the provider got %s, the client sent %s", got, body)
	}
	return a
}

// listOf returns the messages or the input of a body.
func listOf(t *testing.T, body []byte) (out []json.RawMessage) {
	t.Helper()
	o, _, _ := rawjson.ReadObject(body)
	value := o.Get("messages")
	if value == nil {
		value = o.Get("input")
	}
	if err := json.Unmarshal(value, &out); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return out
}

// sameList checks that the provider's newest request has exactly the messages of a body.
func sameList(t *testing.T, r *recorder, body []byte) {
	t.Helper()
	r.mu.Lock()
	last := r.bodies[len(r.bodies)-1]
	r.mu.Unlock()
	got, want := listOf(t, []byte(last)), listOf(t, body)
	if !slices.EqualFunc(got, want, sameJSON) {
		t.Errorf("the provider got %s, the client sent %s", got, want)
	}
}

// contents returns the texts of a session's stored messages.
func (s *site) contents(session string) (out []string) {
	s.t.Helper()
	var list struct {
		Data []struct{ Message json.RawMessage }
	}
	a := s.do("GET", "/api/v1/projects/default/sessions/"+session+"/messages?limit=1000", "")
	if err := json.Unmarshal(a.body, &list); err != nil || a.status != 200 {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
	for _, m := range list.Data {
		out = append(out, string(m.Message))
	}
	return out
}

func caseReference(t *testing.T, c proxyCase, mode string) {
	items := listOf(t, c.Steps[1])
	o, _, _ := rawjson.ReadObject(items[1])
	item := func(id, text string) string {
		return fmt.Sprintf(`{"id":"resp_%s","object":"response","status":"completed","model":"gpt-5.6","output":[{"id":%q,"type":"message",`+
			`"status":"completed","role":"assistant","content":[{"type":"output_text","text":%q,"annotations":[]}]}]}`, id, id, text)
	}
	r := startRecorder(t, item(o.Text("id"), "What you asked for."), item("msg_2", "Gladly."))
	s := inFront(t, r.URL)
	for i, step := range c.Steps {
		a := caseCall(t, s, r, "/v1/responses", step, "X-Mneme-Session", "s", "X-Mneme-Mode", mode)
		if want := []string{"new", "extend"}[i]; a.header.Get("X-Mneme-Matched") != want || a.header.Get("X-Mneme-Stored") != "yes" {
			t.Errorf("step %d: %v", i, a.header)
		}
		sameList(t, r, step)
	}
	stored := strings.Join(s.contents("s"), "\n")
	if len(s.texts("s")) != 4 || strings.Count(stored, "What you asked for.") != 1 || strings.Contains(stored, "item_reference") {
		t.Errorf("stored is %s", stored)
	}
}

func caseEdit(t *testing.T, c proxyCase, mode string) {
	edited := listOf(t, c.Steps[0])
	was := slices.Clone(edited)
	was[0] = json.RawMessage(strings.Replace(string(edited[0]), "[removed]", "hunter2", 1))
	var replies []string
	for i := 1; i < len(was); i += 2 {
		replies = append(replies, choice(string(was[i]), "stop"))
	}
	r := startRecorder(t, append(replies, choice(`{"role":"assistant","content":"That is the last answer of all."}`, "stop"))...)
	s := inFront(t, r.URL)
	for i := 0; i+1 < len(was); i += 2 {
		caseCall(t, s, r, "/v1/chat/completions", object(t, map[string]any{"model": "gpt-4o", "messages": was[:i+1]}), "X-Mneme-Session", "s", "X-Mneme-Mode", mode)
	}
	a := caseCall(t, s, r, "/v1/chat/completions", c.Steps[0], "X-Mneme-Session", "s", "X-Mneme-Mode", mode)
	if a.header.Get("X-Mneme-Matched") != "edit" || a.header.Get("X-Mneme-Stored") != "yes" || a.header.Get("X-Mneme-Session") != "s" {
		t.Errorf("%v", a.header)
	}
	sameList(t, r, c.Steps[0])
	stored := s.contents("s")
	if all := strings.Join(stored, "\n"); len(stored) != len(edited)+1 || strings.Contains(all, "hunter2") || strings.Count(all, "[removed]") != 1 {
		t.Errorf("stored is %s", all)
	}
}

func caseFront(t *testing.T, c proxyCase, mode string) {
	first, second := listOf(t, c.Steps[0]), listOf(t, c.Steps[1])
	r := startRecorder(t, choice(string(second[len(first)]), "stop"), choice(reply2, "stop"))
	s := inFront(t, r.URL)
	for _, step := range c.Steps {
		a := caseCall(t, s, r, "/v1/chat/completions", step, "X-Mneme-Session", "s", "X-Mneme-Mode", mode)
		if a.header.Get("X-Mneme-Session") != "s" || a.header.Get("X-Mneme-Stored") != "yes" {
			t.Errorf("%v", a.header)
		}
	}
	sameList(t, r, c.Steps[1])
	if r.bodies[1] == "" || strings.Contains(r.bodies[1], "VERSION 1") || !strings.Contains(r.bodies[1], "VERSION 2") {
		t.Errorf("the provider got %s", r.bodies[1])
	}
}

func caseCacheKey(t *testing.T, c proxyCase, mode string) {
	r := startRecorder(t, choice(reply2, "stop"))
	s := inFront(t, r.URL)
	for _, step := range c.Steps {
		a := caseCall(t, s, r, "/v1/chat/completions", step, "X-Mneme-Mode", mode)
		if a.header.Get("X-Mneme-Stored") != "no; no_session" || a.header.Get("X-Mneme-Session") != "" || r.bodies[len(r.bodies)-1] != string(step) {
			t.Errorf("%v: the provider got %s", a.header, r.bodies)
		}
	}
}

func caseReasoning(t *testing.T, c proxyCase, mode string) {
	call := listOf(t, c.Steps[1])[1]
	o, _, _ := rawjson.ReadObject(call)
	r := startRecorder(t, choice(string(call), "tool_calls"), choice(reply2, "stop"))
	s := inFront(t, r.URL)
	for _, step := range c.Steps {
		caseCall(t, s, r, "/v1/chat/completions", step, "X-Mneme-Session", "s", "X-Mneme-Mode", mode)
	}
	sent, _, _ := rawjson.ReadObject(listOf(t, []byte(r.bodies[1]))[1])
	if got, want := sent.Text("reasoning_content"), o.Text("reasoning_content"); got != want {
		t.Errorf("the reasoning went on as %q, the client sent %q", got, want)
	}
	sameList(t, r, c.Steps[1])
	if got := s.texts("s"); len(got) != len(listOf(t, c.Steps[1]))+1 {
		t.Errorf("stored are %q", got)
	}
}

func caseFunctions(t *testing.T, c proxyCase, mode string) {
	var messages []json.RawMessage
	var replies []string
	steps := 0
	all := append(listOf(t, c.Steps[0]), json.RawMessage(reply2))
	for _, m := range all {
		if o, _, _ := rawjson.ReadObject(m); o.Text("role") == "assistant" {
			replies = append(replies, choice(string(m), "function_call"))
		}
	}
	r := startRecorder(t, replies...)
	s := inFront(t, r.URL)
	o, _, _ := rawjson.ReadObject(c.Steps[0])
	for _, m := range all {
		if said, _, _ := rawjson.ReadObject(m); said.Text("role") == "assistant" {
			list, err := json.Marshal(messages)
			if err != nil {
				t.Fatal(err)
			}
			body := o.With("messages", list)
			a := caseCall(t, s, r, "/v1/chat/completions", body, "X-Mneme-Session", "s", "X-Mneme-Mode", mode)
			if got := a.header.Get("X-Mneme-Matched"); got != "extend" && (got != "new" || steps > 2) {
				t.Errorf("a call with %d messages is %s", len(messages), got)
			}
			sameList(t, r, body)
			steps++
		}
		messages = append(messages, m)
	}
	if got := s.texts("s"); len(got) != len(all) {
		t.Errorf("stored are %q of %d messages", got, len(all))
	}
}

// Events of a chat stream.
const (
	deltaHi  = `data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}` + "\n\n"
	deltaEnd = `data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
)

func caseNoDone(t *testing.T, c proxyCase, mode string) {
	r := startRecorder(t, deltaHi+deltaEnd)
	s := inFront(t, r.URL)
	a := caseCall(t, s, r, "/v1/chat/completions", c.Steps[0], "X-Mneme-Session", "s", "X-Mneme-Mode", mode)
	if string(a.body) != deltaHi+deltaEnd || len(s.texts("s")) != 2 {
		t.Errorf("the client got %s, stored are %q", a.body, s.texts("s"))
	}
}

func caseStreamOptions(t *testing.T, c proxyCase, mode string) {
	r := startRecorder(t, deltaHi+deltaEnd+"data: [DONE]\n\n")
	r.refuses = "stream_options"
	s := inFront(t, r.URL)
	for n := range 2 {
		a := caseCall(t, s, r, "/v1/chat/completions", c.Steps[0], "X-Mneme-Session", fmt.Sprint(n), "X-Mneme-Mode", mode)
		if len(s.texts(fmt.Sprint(n))) != 2 || !strings.HasSuffix(string(a.body), "[DONE]\n\n") {
			t.Errorf("the client got %s", a.body)
		}
	}
	if refused := len(r.bodies) - 2; refused > 1 {
		t.Errorf("the provider refused %d calls", refused)
	}
}

func caseBigTurn(t *testing.T, _ proxyCase, mode string) {
	const pictures = 9
	var calls, results []any
	for i := range pictures {
		id := fmt.Sprint("call_", i)
		calls = append(calls, map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "screen", "arguments": "{}"}})
		results = append(results, map[string]any{"role": "tool", "tool_call_id": id, "content": []any{map[string]any{"type": "image_url",
			"image_url": map[string]any{"url": "data:image/png;base64," + strings.Repeat(fmt.Sprintf("%08d", i), 1<<17)}}}})
	}
	call := map[string]any{"role": "assistant", "content": nil, "tool_calls": calls}
	r := startRecorder(t, choice(string(object(t, call)), "tool_calls"), choice(reply2, "stop"), choice(reply2, "stop"))
	s := inFront(t, r.URL)
	history := []any{json.RawMessage(question1)}
	say := func() answer {
		return caseCall(t, s, r, "/v1/chat/completions", object(t, map[string]any{"model": "gpt-4o", "messages": history}), "X-Mneme-Session", "s", "X-Mneme-Mode", mode)
	}
	say()
	history = append(append(history, call), results...)
	for n, last := range []string{reply2, question2} {
		if a := say(); n == 0 && a.header.Get("X-Mneme-Stored") != "yes" || strings.Count(r.bodies[len(r.bodies)-1], "base64,") != pictures {
			t.Errorf("%v", a.header)
		}
		history = append(history, json.RawMessage(last))
	}
	if a := say(); a.header.Get("X-Mneme-Stored") != "yes" || a.header.Get("X-Mneme-Mode") != mode {
		t.Errorf("the next turn: %v", a.header)
	}
	var stored struct{ Messages int }
	list := s.do("GET", "/api/v1/projects/default/sessions/s", "")
	if err := json.Unmarshal(list.body, &stored); err != nil || stored.Messages != len(history)+1 {
		t.Errorf("stored are %s, of %d messages", list.body, len(history)+1)
	}
}

func caseTitle(t *testing.T, c proxyCase, mode string) {
	r := startRecorder(t, choice(`{"role":"assistant","content":"A title"}`, "stop"), choice(reply2, "stop"))
	s := inFront(t, r.URL)
	name := ""
	for _, step := range c.Steps {
		name = caseCall(t, s, r, "/v1/chat/completions", step, "X-Session-Affinity", "ses_1", "X-Mneme-Mode", mode).header.Get("X-Mneme-Session")
	}
	sameList(t, r, c.Steps[1])
	if got := s.contents("ses_1"); name != "ses_1" || len(got) != 2 || !sameJSON(json.RawMessage(got[0]), listOf(t, c.Steps[1])[0]) {
		t.Errorf("the conversation is in %s, the named session has %q", name, got)
	}
}

func caseRoutes(t *testing.T, _ proxyCase, mode string) {
	r := startRecorder(t, `{"id":"x"}`)
	s := inFront(t, r.URL)
	for _, path := range []string{"/v1/conversations", "/v1/responses/input_tokens", "/v1/files", "/v1/messages/batches", "/v1/embeddings", "/v1/batches"} {
		caseCall(t, s, r, path, []byte(`{"model":"gpt-4.1"}`), "X-Mneme-Session", "s", "X-Mneme-Mode", mode)
	}
	r.replies = []string{choice(reply2, "stop")}
	caseCall(t, s, r, "/v1/chat/completions/", []byte(`{"model":"m","messages":[`+question1+`]}`), "X-Mneme-Session", "s", "X-Mneme-Mode", mode)
	if got := s.texts("s"); len(got) != 2 {
		t.Errorf("stored are %q", got)
	}
}
