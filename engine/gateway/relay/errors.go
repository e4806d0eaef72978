package relay

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// Refusal is an error of Mneme, reported to the client in the error format of its protocol.
type Refusal struct {
	Status  int
	Code    string // stable; only OpenAI's protocol has a field for it
	Message string
	Retry   bool // the client may try again
	// Kind and Said are the type and the code of the provider's own error within a stream, or empty.
	Kind, Said string
}

// Refuse returns a Refusal that the client should not retry.
func Refuse(status int, code, message string) *Refusal {
	return &Refusal{Status: status, Code: code, Message: message}
}

// Said returns a Refusal for what a provider answered instead of the next stream. It keeps the code or type of the
// provider's error, if any.
func Said(body []byte) *Refusal {
	r := Refuse(http.StatusBadGateway, "upstream_error", "The provider did not answer with a stream.")
	var said struct {
		Error struct {
			Message, Type string
			Code          any // a string; a number on some compatible servers
		}
	}
	if json.Unmarshal(body, &said) != nil || said.Error.Message == "" {
		return r
	}
	r.Message, r.Kind = said.Error.Message, said.Error.Type
	r.Said, _ = said.Error.Code.(string)
	return r
}

// Again marks the refusal as one that the client may retry.
func (r *Refusal) Again() *Refusal {
	r.Retry = true
	return r
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Message }

// kinds are the types of errors by status: Anthropic's, and OpenAI's where it differs from that of the status class.
var kinds = map[int][2]string{
	http.StatusUnauthorized:          {"authentication_error", "authentication_error"},
	http.StatusForbidden:             {"permission_error", ""},
	http.StatusNotFound:              {"not_found_error", ""},
	http.StatusRequestEntityTooLarge: {"request_too_large", ""},
	http.StatusTooManyRequests:       {"rate_limit_error", "rate_limit_error"},
	http.StatusServiceUnavailable:    {"overloaded_error", ""},
	http.StatusGatewayTimeout:        {"timeout_error", ""},
}

// Body returns the refusal as the protocol of a format writes it.
func (r *Refusal) Body(f chat.Format, requestID string) []byte {
	kind := kinds[r.Status]
	if f == chat.AnthropicMessages {
		family := "invalid_request_error"
		if r.Status >= http.StatusInternalServerError {
			family = "api_error"
		}
		return object(map[string]any{"type": "error", "request_id": requestID,
			"error": map[string]any{"type": cmp.Or(kind[0], family), "message": r.Message}})
	}
	family := "invalid_request_error"
	if r.Status >= http.StatusInternalServerError {
		family = "server_error"
	}
	return object(map[string]any{"error": map[string]any{"message": r.Message, "type": cmp.Or(kind[1], family),
		"param": nil, "code": r.Code}})
}

// ShouldRetry returns the value of x-should-retry, which the providers' own clients obey.
func (r *Refusal) ShouldRetry() string {
	if r.Retry {
		return "true"
	}
	return "false"
}

func object(v map[string]any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // all values are strings, numbers and null
		panic(err)
	}
	return b
}

// Why a stream ended before its last event.
var (
	errDied    = errors.New("the provider ended the stream before its last event")
	errStalled = errors.New("the provider sent nothing for too long")
)

// brokenStream returns what tells the client, in its protocol, that the answer is incomplete. Chat Completions get no
// [DONE] after it, because clients take that as a complete answer.
func brokenStream(f chat.Format, why error) []byte {
	message, code := "The connection to the provider broke: "+why.Error()+".", "upstream_disconnected"
	kind, said := "", ""
	if refusal, ok := errors.AsType[*Refusal](why); ok {
		message, code, kind, said = refusal.Message, cmp.Or(refusal.Said, refusal.Code), refusal.Kind, refusal.Said
	}
	switch f {
	case chat.AnthropicMessages:
		return event("error", map[string]any{"type": "error",
			"error": map[string]any{"type": cmp.Or(kind, "api_error"), "message": message}})
	case chat.OpenAIResponses:
		return event("response.failed", map[string]any{"type": "response.failed", "response": map[string]any{
			"object": "response", "status": "failed", "output": []any{},
			"error": map[string]any{"code": cmp.Or(said, "server_error"), "message": message}}})
	}
	return event("", map[string]any{"error": map[string]any{"message": message, "type": cmp.Or(kind, "server_error"), "param": nil,
		"code": code}})
}

func event(name string, data map[string]any) []byte {
	var b []byte
	if name != "" {
		b = append(b, "event: "+name+"\n"...)
	}
	return append(append(append(b, "data: "...), object(data)...), "\n\n"...)
}

// keepAlive returns bytes that the client ignores. Writing them shows whether the client is still connected.
func keepAlive(f chat.Format) []byte {
	if f == chat.AnthropicMessages {
		return []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n")
	}
	return []byte(": still here\n\n")
}
