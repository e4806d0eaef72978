package e2e

import (
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// own returns a conversation in a new project.
func own(t testing.TB) *conversation {
	t.Helper()
	c := converse(shared(t), "s")
	c.project = mneme.unique("p")
	c.do("PUT", "/api/v1/projects/"+c.project, object{}).want(200, 201)
	return c
}

// turn posts messages as one turn of a session and returns the raw reply.
func (c *conversation) turn(session string, messages ...any) reply {
	c.t.Helper()
	body := object{"messages": messages}
	if session != "" {
		body["session_id"] = session
	}
	return c.post(c.path("/turns"), body)
}

// assemble asks for a window with a given request.
func (c *conversation) assemble(request object) *window {
	c.t.Helper()
	var w window
	c.post(c.path("/context"), request).want(200).into(&w)
	return &w
}

func user(text string) object      { return object{"role": "user", "content": text} }
func assistant(text string) object { return object{"role": "assistant", "content": text} }

func calling(id, name, arguments string) object {
	return object{"role": "assistant", "content": nil, "tool_calls": []object{
		{"id": id, "type": "function", "function": object{"name": name, "arguments": arguments}}}}
}

func result(id, text string) object {
	return object{"role": "tool", "tool_call_id": id, "content": text}
}

// spoken returns the contents of a window's messages in openai.chat, as role: text.
func spoken(t *testing.T, w *window) []string {
	t.Helper()
	list, fault := flatten(hard.Chat, w.Messages)
	if fault != "" {
		t.Fatal(fault)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.role+": "+e.text)
	}
	return out
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
	}
}
