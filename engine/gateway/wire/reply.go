package wire

import (
	"encoding/json"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// Reply is a complete answer of a provider.
type Reply struct {
	Format chat.Format
	// Messages are the answer as a client sends it back in its next request: one message of OpenAI's Chat Completions or of
	// Anthropic's Messages, or the output items of OpenAI's Responses. Members unknown to Mneme are kept.
	Messages []json.RawMessage
	ID       string // the provider's id of the answer
	Model    string // the model that answered
	Stop     string // why the answer ended, as the provider says it
	Choices  int    // the number of choices in Chat Completions, of which the first is kept; else 1
	Usage    Usage

	rawUsage json.RawMessage // as the provider wrote it; nil if there was none
}

// Usage is what the provider counted, in its tokens. Input counts the whole prompt. Cached is the part read from the
// provider's cache, and Written the part written to it.
type Usage struct {
	Input   int64 `json:"input_tokens"`
	Cached  int64 `json:"cached_tokens"`
	Written int64 `json:"cache_write_tokens,omitempty"`
	Output  int64 `json:"output_tokens"`
}

// Known reports whether the provider reported any usage.
func (u Usage) Known() bool { return u != Usage{} }

// Failure is an error that a provider sends within a stream, or in place of an answer.
type Failure struct {
	Type, Code, Message string
}

func (f *Failure) Error() string {
	return fmt.Sprintf("the provider failed: %s %s: %s", f.Type, f.Code, f.Message)
}

// Parse reads an answer that is one JSON object. It returns a Failure if the object is an error.
func Parse(f chat.Format, body []byte) (*Reply, error) {
	var o fields
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, fmt.Errorf("the provider's answer is no JSON object: %w", err)
	}
	if failed := failure(o); failed != nil {
		return nil, failed
	}
	r := &Reply{Format: f, ID: o.text("id"), Model: o.text("model"), Choices: 1, Usage: usageOf(f, o["usage"]), rawUsage: o["usage"]}
	switch f {
	case chat.OpenAIResponses:
		r.Messages = o.list("output")
		r.Stop = o.text("status")
		if details := o.object("incomplete_details"); details != nil {
			r.Stop = details.text("reason")
		}
		if r.Stop == "failed" || r.Stop == "cancelled" {
			return nil, &Failure{Type: r.Stop, Message: "the response has no output"}
		}
	case chat.AnthropicMessages:
		r.Stop = o.text("stop_reason")
		r.Messages = []json.RawMessage{assistant(o["content"])}
	default:
		choices := o.list("choices")
		for _, raw := range choices {
			var c fields
			if json.Unmarshal(raw, &c) != nil || c.number("index") != 0 {
				continue
			}
			r.Stop, r.Messages = c.text("finish_reason"), []json.RawMessage{c["message"]}
		}
		r.Choices = len(choices)
	}
	if len(r.Messages) == 0 || len(r.Messages[0]) == 0 {
		return nil, fmt.Errorf("the provider's answer has no message")
	}
	return r, nil
}

// assistant returns an assistant's message of Anthropic's with these blocks.
func assistant(content json.RawMessage) json.RawMessage {
	if len(content) == 0 {
		return nil
	}
	return append(append([]byte(`{"role":"assistant","content":`), content...), '}')
}

// failure returns the error in an answer or an event of any of the protocols, or nil if there is none.
func failure(o fields) *Failure {
	e := o.object("error")
	if e == nil {
		return nil
	}
	return &Failure{Type: e.text("type"), Code: e.text("code"), Message: e.text("message")}
}

// usageOf reads a provider's usage. Anthropic's input_tokens exclude tokens read from or written to the cache. OpenAI's
// prompt and input tokens include cached tokens.
func usageOf(f chat.Format, raw json.RawMessage) Usage {
	var o fields
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return Usage{}
	}
	switch f {
	case chat.AnthropicMessages:
		u := Usage{Cached: o.number("cache_read_input_tokens"), Written: o.number("cache_creation_input_tokens"),
			Output: o.number("output_tokens")}
		u.Input = o.number("input_tokens") + u.Cached + u.Written
		return u
	case chat.OpenAIResponses:
		d := o.object("input_tokens_details")
		return Usage{Input: o.number("input_tokens"), Cached: d.number("cached_tokens"),
			Written: d.number("cache_write_tokens"), Output: o.number("output_tokens")}
	}
	d := o.object("prompt_tokens_details")
	return Usage{Input: o.number("prompt_tokens"), Cached: d.number("cached_tokens"),
		Written: d.number("cache_write_tokens"), Output: o.number("completion_tokens")}
}

// fields is a JSON object whose members are decoded on demand. A member of the wrong type reads as absent.
type fields map[string]json.RawMessage

func (o fields) text(name string) (s string) {
	_ = json.Unmarshal(o[name], &s)
	return s
}

func (o fields) number(name string) (n int64) {
	_ = json.Unmarshal(o[name], &n)
	return n
}

func (o fields) object(name string) (in fields) {
	_ = json.Unmarshal(o[name], &in)
	return in
}

func (o fields) list(name string) (in []json.RawMessage) {
	_ = json.Unmarshal(o[name], &in)
	return in
}
