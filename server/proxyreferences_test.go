package server

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// TestItemReferences runs a client that sends the model's items back as references, as Vercel's AI SDK does. The
// provider gets these references, the session extends, and what is stored is what the model said.
func TestItemReferences(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"observe", "recall", "assemble"} {
		for _, streams := range []bool{false, true} {
			c := newClient(t, chat.OpenAIResponses, "gpt-5.6")
			c.headers, c.streams = []string{"X-Mneme-Mode", mode}, streams
			c.extra = map[string]any{"store": true}
			c.send = func(history []json.RawMessage) []json.RawMessage {
				out := slices.Clone(history)
				for i, raw := range out {
					o, _, _ := rawjson.ReadObject(raw)
					if id := o.Text("id"); id != "" {
						out[i] = object(t, map[string]any{"type": "item_reference", "id": id})
					}
				}
				return out
			}
			for n := range 3 {
				c.turn(n, 2, true)
				if h := c.last.header; h.Get("X-Mneme-Matched") != "extend" && n > 0 || h.Get("X-Mneme-Stored") != "yes" && !streams {
					t.Fatalf("%s: turn %d: %v", mode, n, h)
				}
				requests := c.provider.Requests()
				var got struct{ Input []json.RawMessage }
				if err := json.Unmarshal(requests[len(requests)-1].Body, &got); err != nil {
					t.Fatal(err)
				}
				if want := c.send(asked(c.history)); !slices.EqualFunc(got.Input, want, sameJSON) {
					t.Fatalf("%s: turn %d: the provider got %s, the client sent %s", mode, n, got.Input, want)
				}
			}
			if refused := c.provider.Refusals(); len(refused) > 0 {
				t.Fatal(refused)
			}
			list := c.do("GET", "/api/v1/projects/default/sessions/chat/messages?limit=100", "")
			if list.status != 200 || len(c.texts("chat")) != 3*(1+2*2+1) || bytes.Contains(list.body, []byte("item_reference")) {
				t.Fatalf("%s: the session holds %s", mode, list.body)
			}
		}
	}
}

// asked returns a history without the last reply.
func asked(history []json.RawMessage) []json.RawMessage {
	last := len(history) - 1
	for last > 0 {
		o, _, _ := rawjson.ReadObject(history[last-1])
		if kind := o.Text("type"); kind == "function_call_output" || o.Text("role") == "user" {
			break
		}
		last--
	}
	return history[:last]
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
