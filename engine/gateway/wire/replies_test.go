package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// protocols are the three APIs with the body of a request to each.
var protocols = []struct {
	format chat.Format
	api    providers.API
	path   string
	body   string
}{
	{chat.OpenAIChat, providers.Chat, "/v1/chat/completions",
		`{"model":"gpt-4.1","messages":[{"role":"user","content":"Hello"}],"stream_options":{"include_usage":true}`},
	{chat.OpenAIResponses, providers.Responses, "/v1/responses",
		`{"model":"gpt-5.5","input":[{"role":"user","content":"Hello"}]`},
	{chat.AnthropicMessages, providers.Messages, "/v1/messages",
		`{"model":"claude-sonnet-4-5","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":2000},` +
			`"messages":[{"role":"user","content":"Hello"}]`},
}

// answers returns what the model says: all kinds of parts, separately and together.
func answers() []providers.Reply {
	call := providers.Part{Call: &providers.Call{Name: "look_up", Arguments: `{"city":"Köln","n":1.50,"deep":{"a":[1,"<&>"]}}`}}
	none := providers.Part{Call: &providers.Call{Name: "now", Arguments: `{}`}}
	return []providers.Reply{
		providers.Say("A text that is long enough to come in several pieces: äöü 😀 \"<b>\" \\n"),
		{Parts: []providers.Part{call}},
		{Parts: []providers.Part{{Text: "Both at once, and a text before them."}, call, none}},
		providers.Think("some thoughts that nobody else may change", providers.Reply{
			Parts: []providers.Part{{Text: "Well."}, call, call}}),
	}
}

// ask sends a request and returns the bytes of the answer.
func ask(t testing.TB, s *providers.Server, path, body string, stream bool) []byte {
	t.Helper()
	if stream {
		body += `,"stream":true`
	} else {
		body = strings.Replace(body, `,"stream_options":{"include_usage":true}`, "", 1)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+path, strings.NewReader(body+"}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key")
	req.Header.Set("x-api-key", "key")
	req.Header.Set("anthropic-version", "2023-06-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, string(answer), err)
	}
	return answer
}

// fold feeds a stream in pieces. It returns the folder and its state after the last event.
func fold(t testing.TB, f chat.Format, stream []byte, cut func(left int) int) (*wire.Folder, wire.State) {
	t.Helper()
	var split wire.Splitter
	folder, state, passed := wire.New(f), wire.Going, 0
	for len(stream) > 0 {
		n := cut(len(stream))
		events, err := split.Feed(stream[:n])
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			passed += len(e.Raw)
			state = folder.Add(e)
		}
		stream = stream[n:]
	}
	return folder, state
}

// TestStreamsAreTheWholeAnswer checks that a stream folds into the same answer as its non-streamed form, however the
// network splits it.
func TestStreamsAreTheWholeAnswer(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, p := range protocols {
		for i, answer := range answers() {
			plain, streamed := providers.Start(t), providers.Start(t)
			plain.Script(answer)
			streamed.Script(answer)
			want, err := wire.Parse(p.format, ask(t, plain, p.path, p.body, false))
			if err != nil {
				t.Fatal(err)
			}
			stream := ask(t, streamed, p.path, p.body, true)
			for _, most := range []int{1, 7, 4096, 1 << 20} {
				folder, state := fold(t, p.format, stream, func(left int) int { return min(left, 1+random.IntN(most)) })
				if state != wire.Ended {
					t.Fatalf("%s answer %d: state %d", p.api, i, state)
				}
				got, err := folder.Reply()
				if err != nil {
					t.Fatal(err)
				}
				same(t, want, got)
			}
			// A stream without its end is not an answer, wherever it was cut.
			for _, part := range []int{1, len(stream) / 3, len(stream) / 2, len(stream) - 3} {
				folder, state := fold(t, p.format, stream[:part], func(left int) int { return min(left, 64) })
				if _, err := folder.Reply(); state == wire.Ended || err == nil {
					t.Fatalf("%s: a stream without its end counts as an answer after %d of %d bytes", p.api, part, len(stream))
				}
			}
		}
	}
}

func same(t testing.TB, want, got *wire.Reply) {
	t.Helper()
	var a, b []any
	for _, side := range []struct {
		from *wire.Reply
		to   *[]any
	}{{want, &a}, {got, &b}} {
		for _, m := range side.from.Messages {
			var v any
			if err := json.Unmarshal(m, &v); err != nil {
				t.Fatal(err)
			}
			if o := v.(map[string]any); o["refusal"] == nil { // which streams leave out
				delete(o, "refusal")
			}
			*side.to = append(*side.to, v)
		}
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("folded\n%s\nwanted\n%s", got.Messages, want.Messages)
	}
	if want.Stop != got.Stop || want.Usage != got.Usage || !got.Usage.Known() || want.Choices != got.Choices {
		t.Errorf("%q %+v %d, wanted %q %+v %d", got.Stop, got.Usage, got.Choices, want.Stop, want.Usage, want.Choices)
	}
	// The folded answer can be stored.
	if _, _, bad := chat.Parse(got.Format, got.Messages); bad != nil {
		t.Error(bad)
	}
}

// TestErrorsInStreams checks that an error within a stream ends it, and is reported in the provider's words.
func TestErrorsInStreams(t *testing.T) {
	for _, p := range protocols {
		s := providers.Start(t)
		broken := providers.Say("The beginning of an answer that never ends.")
		broken.Break = providers.ServerError(p.api)
		s.Script(broken)
		folder, state := fold(t, p.format, ask(t, s, p.path, p.body, true), func(left int) int { return min(left, 50) })
		_, err := folder.Reply()
		failed := new(wire.Failure)
		if state != wire.Failed || !errors.As(err, &failed) || !strings.Contains(failed.Message, "rror") || !folder.Begun() {
			t.Errorf("%s: state %d, %v", p.api, state, err)
		}
	}
}

// TestForeignStreams folds streams of servers that deviate from the protocols.
func TestForeignStreams(t *testing.T) {
	for name, test := range map[string]struct {
		format chat.Format
		stream string
		want   string // the one message; "" if there is no answer
	}{
		"names and ids again in every delta": {chat.OpenAIChat, `
data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\""}}]}}]}

data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":":1}"}}]}}]}

data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`, `{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"x\":1}","name":"f"},"id":"a","type":"function"}]}`},
		"calls out of order, an unknown member, other choices": {chat.OpenAIChat, `
data: {"choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"annotations":[{"n":12345678901234567890}],"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]

`, `{"annotations":[{"n":12345678901234567890}],"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"g"},"id":"b","type":"function"},{"function":{"arguments":"{}","name":"f"},"id":"a","type":"function"}]}`},
		"lines that end in CR and LF, comments, no blank behind the colon": {chat.OpenAIChat,
			": ping\r\n\r\ndata:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\r\n\r\n" +
				"data:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata:[DONE]\r\n\r\n",
			`{"content":"Ab","role":"assistant"}`},
		"done without a reason": {chat.OpenAIChat,
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\ndata: [DONE]\n\n", ""},
		"completed without output": {chat.OpenAIResponses, `
event: response.output_item.done
data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}}

event: response.completed
data: {"type":"response.completed","response":{"id":"r","output":[]}}

`, `{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}`},
		"blocks of new kinds and deltas of new types": {chat.AnthropicMessages, `
data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":3}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"holo","value":1}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"holo_delta","value":2}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","citations":[]}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"<x>"}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"n":1}}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}

data: {"type":"message_stop"}

`, `{"role":"assistant","content":[{"type":"holo","value":2},{"citations":[{"n":1}],"text":"<x>","type":"text"}]}`},
		"an input that is no JSON": {chat.AnthropicMessages, `
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a"}}

data: {"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":1}}

data: {"type":"message_stop"}

`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder, _ := fold(t, test.format, []byte(strings.TrimPrefix(test.stream, "\n")), func(left int) int { return min(left, 11) })
			got, err := folder.Reply()
			if test.want == "" {
				if err == nil {
					t.Fatalf("%s", got.Messages)
				}
				return
			}
			if err != nil || len(got.Messages) != 1 || string(got.Messages[0]) != test.want {
				t.Fatalf("%v %s", err, got.Messages)
			}
		})
	}
}

// TestBounds checks that an answer over the limits is still relayed, but not kept.
func TestBounds(t *testing.T) {
	folder := wire.New(chat.OpenAIChat)
	delta := []byte(`{"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 1<<20) + `"}}]}`)
	for range 20 {
		folder.Add(wire.Event{Data: delta})
	}
	folder.Add(wire.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)})
	if folder.Add(wire.Event{Data: []byte("[DONE]")}) != wire.Ended {
		t.Error("the stream did not end")
	}
	if _, err := folder.Reply(); !errors.Is(err, wire.ErrTooLarge) {
		t.Error(err)
	}
	folder = wire.New(chat.AnthropicMessages)
	folder.Add(wire.Event{Data: []byte(`{"type":"content_block_start","index":1000000000,"content_block":{}}`)})
	if _, err := folder.Reply(); err == nil {
		t.Error("a block with an index of a billion was taken")
	}
	var split wire.Splitter
	var err error
	for range 40 {
		if _, err = split.Feed(make([]byte, 1<<20)); err != nil {
			break
		}
	}
	if !errors.Is(err, wire.ErrEventTooLong) {
		t.Error("an event without an end is kept for ever")
	}
}

// FuzzSplit checks that the events are the same however the bytes are split, that they contain all bytes, and that no
// bytes break a folder.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("event: a\ndata: 1\ndata: 2\n\n\n: c\r\n\r\ndata\r\rdata: x\n"), uint64(1))
	f.Add([]byte("\ufeffdata: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":\"a\"}]}}]}\n\n"), uint64(2))
	f.Add([]byte("data: {\"type\":\"content_block_delta\",\"index\":-1}\n\ndata: {\"type\":\"response.completed\"}\n\n"), uint64(3))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		var whole, cut wire.Splitter
		want, err := whole.Feed(stream)
		if err != nil {
			t.Skip()
		}
		var got []wire.Event
		var all []byte
		for left := stream; len(left) > 0; {
			n := 1 + random.IntN(min(len(left), 9))
			events, err := cut.Feed(left[:n])
			if err != nil {
				t.Fatal(err)
			}
			got, left = append(got, events...), left[n:]
		}
		for _, e := range got {
			all = append(all, e.Raw...)
		}
		if !reflect.DeepEqual(want, got) || !bytes.Equal(append(all, cut.Rest()...), stream) {
			t.Fatalf("%q: %q, in one piece %q", stream, got, want)
		}
		for _, p := range protocols {
			folder := wire.New(p.format)
			for _, e := range got {
				folder.Add(e)
			}
			_, _ = folder.Reply()
		}
	})
}
