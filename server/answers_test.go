package server

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// Responses that the engine assembles by hand have no other fields than the types that describe them.
func TestSplicedAnswersFitTheirTypes(t *testing.T) {
	t.Parallel()
	s := start(t)
	const run = "/api/v1/policies/tool-pair-trim/versions/1/run"
	messages := strings.Repeat(`{"role":"user","content":"more words of a conversation"},`, 120)
	for _, turn := range []string{
		`{"messages":[` + strings.TrimSuffix(messages, ",") + `]}`,
		`{"messages":[{"role":"user","content":"Oslo?"},{"role":"assistant","content":null,"tool_calls":[
			{"id":"c1","type":"function","function":{"name":"weather","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c1","content":"4 °C"},{"role":"assistant","content":"cold"}]}`,
	} {
		if a := s.do("POST", turns, turn); a.status != 201 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	s.do("POST", "/api/v1/projects/default/memories", `{"key":"k","content":"words of Oslo"}`)
	answers := func(method, path, body string, into any) {
		t.Helper()
		a := s.do(method, path, body)
		if a.status != 200 {
			t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
		}
		dec := json.NewDecoder(bytes.NewReader(a.body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(into); err != nil {
			t.Errorf("%s %s: %v in %s", method, path, err, a.body)
		}
	}
	for _, format := range []string{"openai.chat", "anthropic.messages", "openai.responses", "text"} {
		var w window.Answer
		body := `{"system":"be brief","explain":true,"memories":{"query":"Oslo"},"budget":{"max_messages":2},
			"format":"` + format + `"}`
		answers("POST", contextPath, body, &w)
		if w.DecisionID == "" || w.Format != format || len(w.Report) == 0 || len(w.Pipeline) == 0 ||
			len(w.Memories) != 1 {
			t.Errorf("%+v", w)
		}
		var d lab.Explanation
		answers("GET", "/api/v1/projects/default/decisions/"+w.DecisionID, "", &d)
		if d.DecisionID != w.DecisionID || !reflect.DeepEqual(*d.Report, w.Report) || d.Usage != w.Usage {
			t.Errorf("the decision says %+v", d)
		}
		var again window.Replayed
		answers("POST", "/api/v1/projects/default/decisions/"+w.DecisionID+"/replay", "", &again)
		if !again.Equal || !reflect.DeepEqual(again.Window, w.Rendered) {
			t.Errorf("the replay says %+v", again)
		}
		var r lab.Ran
		answers("POST", run,
			`{"messages":[{"role":"system","content":"x"},{"role":"user","content":"y"}],"format":"`+format+`"}`, &r)
		if r.Policy != "tool-pair-trim" || r.Fuel == 0 || len(r.Report) == 0 {
			t.Errorf("the run says %+v", r)
		}
	}
}
