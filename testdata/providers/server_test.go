package providers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

var paths = map[API]string{Chat: "/v1/chat/completions", Responses: "/v1/responses", Messages: "/v1/messages"}

// send posts a request as the provider's client does.
func send(t *testing.T, s *Server, api API, body any) (int, http.Header, []byte) {
	t.Helper()
	r, err := http.NewRequest("POST", s.URL+paths[api], bytes.NewReader(encode(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer k")
	if api == Messages {
		r.Header.Set("anthropic-version", "2023-06-01")
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, out
}

// first returns the smallest request of each API.
func first(api API) map[string]any {
	ask := []any{map[string]any{"role": "user", "content": "q"}}
	switch api {
	case Chat:
		return map[string]any{"model": "deepseek-v4", "messages": ask}
	case Responses:
		return map[string]any{"model": "gpt-5.6", "input": ask}
	}
	return map[string]any{"model": "claude-opus-5-5", "max_tokens": 9, "messages": ask,
		"tools": []any{map[string]any{"name": "f", "input_schema": map[string]any{}}}}
}

// TestLoop runs an agent over 60 turns, each with thinking, a call and a text, and sends everything back unchanged.
// Nothing is refused. Then it edits the first question, and the thinking bound to it is refused or removed.
func TestLoop(t *testing.T) {
	const turns = 60
	for _, api := range []API{Chat, Responses, Messages} {
		t.Run(string(api), func(t *testing.T) {
			s := Start(t)
			body := first(api)
			history := "messages"
			if api == Responses {
				history, body["model"] = "input", "gpt-6.2-astra"
			}
			for n := range turns {
				s.Script(Think("hm", Use("f", fmt.Sprintf(`{"n":%d}`, n))), Think("", Say("done")))
				for step := range 2 {
					status, _, answer := send(t, s, api, body)
					if status != 200 {
						t.Fatalf("turn %d: %s", n, answer)
					}
					body[history] = append(body[history].([]any), replied(t, api, answer, step == 0)...)
				}
			}
			requests := s.Requests()
			if len(requests) != 2*turns || len(s.Refusals()) > 0 || len(requests[2*turns-1].Transformations) > 0 {
				t.Fatalf("%d requests, refused %v", len(requests), s.Refusals())
			}
			body[history].([]any)[0] = map[string]any{"role": "user", "content": "another"}
			status, _, answer := send(t, s, api, body)
			switch api {
			case Messages:
				if status != 400 || !strings.Contains(string(answer), "bound to a different conversation") {
					t.Error(status, string(answer))
				}
			case Responses:
				if n := strings.Count(string(answer), `"reason":"prefix_mismatch"`); n != 2*turns {
					t.Errorf("%d of %d reasoning items were removed", n, 2*turns)
				}
			}
		})
	}
}

// replied returns what a client keeps of an answer, followed by the results of its calls and the next question.
func replied(t *testing.T, api API, answer []byte, called bool) []any {
	var a struct {
		Choices []struct{ Message map[string]any }
		Output  []any
		Content []map[string]any
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		t.Fatal(err)
	}
	next := map[string]any{"role": "user", "content": "next"}
	switch api {
	case Chat:
		m := a.Choices[0].Message
		if called {
			id := asObject(m["tool_calls"].([]any)[0]).str("id")
			next = map[string]any{"role": "tool", "tool_call_id": id, "content": "r"}
		}
		return []any{m, next}
	case Responses:
		if called {
			id := asObject(a.Output[len(a.Output)-1]).str("call_id")
			next = map[string]any{"type": "function_call_output", "call_id": id, "output": "r"}
		}
		return append(a.Output, next)
	}
	if called {
		id := a.Content[len(a.Content)-1]["id"]
		next["content"] = []any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": "r"}}
	}
	return []any{map[string]any{"role": "assistant", "content": a.Content}, next}
}

// TestErrors checks errors before a stream and within one, and requests without a key.
func TestErrors(t *testing.T) {
	for _, api := range []API{Chat, Responses, Messages} {
		s := Start(t)
		s.Script(Reply{Fail: RateLimited(api)}, Reply{Parts: Say("half").Parts, Break: ServerError(api)})
		status, header, answer := send(t, s, api, first(api))
		if status != 429 || header.Get("retry-after") == "" || !strings.Contains(string(answer),
			RateLimited(api).Message) {
			t.Error(api, status, string(answer))
		}
		body := first(api)
		body["stream"] = true
		status, _, answer = send(t, s, api, body)
		if list := events(t, answer); status != 200 || !strings.Contains(string(answer), "half") ||
			!strings.Contains(string(encode(list[len(list)-1])), ServerError(api).Message) {
			t.Error(api, status, string(answer))
		}
		if len(s.Refusals()) != 0 {
			t.Errorf("%s: what the script answers is no refusal of a rule: %v", api, s.Refusals())
		}
		res, err := http.Post(s.URL+paths[api], "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 401 {
			t.Errorf("%s: %d without a key", api, res.StatusCode)
		}
	}
}

// TestCounting checks token counts against the published example, and that counting refuses the same requests as
// answering.
func TestCounting(t *testing.T) {
	s := Start(t, Counting(func(text string) int { return len(strings.Fields(text)) }))
	count := func(path, body string) string {
		r, err := http.NewRequest("POST", s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("x-api-key", "k")
		r.Header.Set("anthropic-version", "2023-06-01")
		r.Header.Set("Authorization", "Bearer k")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		out, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	got := count("/v1/messages/count_tokens",
		`{"model":"claude-opus-5","system":"You are a scientist","messages":[{"role":"user","content":"Hello, Claude"}]}`)
	if got != `{"input_tokens":14}` { // D/token-counting
		t.Error(got)
	}
	if got := count("/v1/messages/count_tokens",
		`{"model":"claude-opus-5","messages":[{"role":"assistant","content":"x"}]}`); !strings.Contains(got, "first "+
		"message must use") {
		t.Error(got)
	}
	if got := count("/v1/responses/input_tokens", `{"model":"gpt-5.6","input":"a b c"}`); !strings.Contains(got,
		`"object":"response.input_tokens"`) {
		t.Error(got)
	}
}
