package providers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestStreams gets the same answer plain from one server and streamed from another, and assembles the stream.
func TestStreams(t *testing.T) {
	reply := Reply{Parts: []Part{{Thinking: "let me think about it"}, {Text: "This is long enough for two pieces: äöü"},
		{Call: &Call{Name: "f", Arguments: `{"a":"some longer argument"}`}}, {Call: &Call{Name: "f", Arguments: `{}`}}}}
	for _, api := range []API{Chat, Responses, Messages} {
		t.Run(string(api), func(t *testing.T) {
			plain, streamed := Start(t), Start(t)
			plain.Script(reply)
			streamed.Script(reply)
			_, _, whole := send(t, plain, api, first(api))
			body := first(api)
			body["stream"] = true
			if api == Chat {
				body["stream_options"] = map[string]any{"include_usage": true}
			}
			_, header, stream := send(t, streamed, api, body)
			if kind := header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
				t.Fatal(kind)
			}
			var want map[string]any
			if err := json.Unmarshal(whole, &want); err != nil {
				t.Fatal(err)
			}
			got := assemble(t, api, events(t, stream))
			for _, key := range []string{"output", "content", "message", "usage", "stop_reason", "status",
				"finish_reason"} {
				wanted := want[key]
				if api == Chat && (key == "message" || key == "finish_reason") {
					wanted = want["choices"].([]any)[0].(map[string]any)[key]
				}
				if !reflect.DeepEqual(got[key], wanted) {
					t.Errorf("%s of the stream\n%v\nis not that of the answer\n%v", key, got[key], wanted)
				}
			}
		})
	}
}

// events parses server-sent events into names and data.
func events(t *testing.T, stream []byte) (out []map[string]any) {
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, 1<<20)
	name := ""
	for lines.Scan() {
		if found, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = found
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		e := map[string]any{"done": true}
		if data != "[DONE]" {
			e = nil
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
		}
		if name != "" && e["type"] != name {
			t.Errorf("event %s has type %v", name, e["type"])
		}
		out = append(out, e)
	}
	return out
}

// assemble combines the events of an answer as clients do.
func assemble(t *testing.T, api API, list []map[string]any) map[string]any {
	out := map[string]any{}
	if api == Chat {
		message := map[string]any{"role": "assistant", "refusal": nil}
		var calls []any
		add := func(to map[string]any, key string, from object) {
			if text, ok := from[key].(string); ok {
				was, _ := to[key].(string)
				to[key] = was + text
			}
		}
		for _, e := range list {
			for _, c := range objects(object(e).list("choices")) {
				d := c.object("delta")
				add(message, "content", d)
				add(message, "reasoning_content", d)
				for _, call := range objects(d.list("tool_calls")) {
					if i := call["index"].(float64); int(i) == len(calls) {
						calls = append(calls, map[string]any{"id": call["id"], "type": call["type"],
							"function": call["function"]})
						continue
					}
					add(calls[len(calls)-1].(map[string]any)["function"].(map[string]any), "arguments",
						call.object("function"))
				}
				if c.has("finish_reason") {
					out["finish_reason"] = c["finish_reason"]
				}
			}
			if e["usage"] != nil {
				out["usage"] = e["usage"]
			}
		}
		if list[len(list)-1]["done"] != true {
			t.Error("no [DONE]")
		}
		message["tool_calls"], out["message"] = calls, message
		return out
	}
	if api == Responses {
		var items []any
		for n, e := range list {
			if e["sequence_number"] != float64(n) {
				t.Errorf("event %d has number %v", n, e["sequence_number"])
			}
			if e["type"] == "response.output_item.done" {
				items = append(items, e["item"])
			}
		}
		end := object(list[len(list)-1]).object("response")
		return map[string]any{"output": items, "usage": end["usage"], "status": end["status"]}
	}
	var blocks []any
	partial := ""
	for _, e := range list {
		d := object(e).object("delta")
		switch e["type"] {
		case "content_block_start":
			blocks, partial = append(blocks, e["content_block"]), ""
		case "content_block_delta":
			b := blocks[len(blocks)-1].(map[string]any)
			switch d.str("type") {
			case "text_delta":
				b["text"] = b["text"].(string) + d.str("text")
			case "thinking_delta":
				b["thinking"] = b["thinking"].(string) + d.str("thinking")
			case "signature_delta":
				b["signature"] = d.str("signature")
			case "input_json_delta":
				partial += d.str("partial_json")
			}
		case "content_block_stop":
			if b := blocks[len(blocks)-1].(map[string]any); b["type"] == "tool_use" {
				b["input"] = nil
				if err := json.Unmarshal([]byte(partial), new(any)); err != nil {
					t.Error(err, partial)
				}
				var input map[string]any
				json.Unmarshal([]byte(partial), &input)
				b["input"] = input
			}
		case "message_delta":
			out["stop_reason"], out["usage"] = d["stop_reason"], e["usage"]
		}
	}
	if list[0]["type"] != "message_start" || list[len(list)-1]["type"] != "message_stop" {
		t.Error("the stream has no beginning or no end")
	}
	out["content"] = blocks
	return out
}
