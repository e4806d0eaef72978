package wire

// This part of the package reads the body of a call to a model, and changes it as bytes: what an edit does not name stays as the
// client wrote it, with unknown members, their order and white space. It knows the bodies of OpenAI's Chat Completions
// and Responses and of Anthropic's Messages.
//
// Everything here is a pure function of its arguments.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// Body is the body of a call.
type Body struct {
	Format chat.Format
	Model  string
	// Head are the system and developer messages that the list of messages begins with. Anthropic's has none: its system
	// prompt is System.
	Head []json.RawMessage
	// Messages are those behind the head. The input of Responses may be a text, which is one message here.
	Messages []json.RawMessage
	System   json.RawMessage // Anthropic's system, or the instructions of Responses; nil: none
	Tools    []json.RawMessage
	// MaxTokens bounds the answer; nil: the body does not say.
	MaxTokens  *int
	Choices    int // n of Chat Completions; 1 elsewhere
	Stream     bool
	Background bool // of Responses: the answer is to be fetched later
	WantsUsage bool // the client asks for the usage of a chat stream
	// Previous and Conversation name what the provider keeps of the conversation, in Responses.
	Previous, Conversation string
	Thinking               string // the type of Anthropic's thinking; "": the body does not say
	// Reasoning reports whether the client sends reasoning_content back in Chat Completions, as DeepSeek demands.
	Reasoning bool
	// CacheControl says where the client has set breakpoints.
	CacheControl Breakpoints

	object  rawjson.Object
	all     []json.RawMessage // Head and Messages
	anchors int               // how many of Messages are the system's or the developer's
}

// Breakpoints are where a body of Anthropic's Messages has cache_control.
type Breakpoints struct {
	Top  bool // as a member of the body: the provider sets one at the end
	Text bool // in the system prompt or in messages
}

// errForm says of what is no body at all.
var errForm = errors.New("the body must be a JSON object")

// Object is a body whose members are known. The bytes must stay as they are while it is used.
type Object struct{ rawjson.Object }

// Open finds the members of a body. The error says what is wrong with one that two readers could read differently, or
// not at all.
func Open(raw []byte) (Object, error) {
	if !rawjson.Valid(raw) {
		return Object{}, errForm
	}
	o, twice, ok := rawjson.ReadObject(raw[rawjson.SkipSpace(raw, 0):])
	switch {
	case !ok:
		return Object{}, errForm
	case twice != nil:
		return Object{}, fmt.Errorf("the body has the member %q twice", twice)
	}
	return Object{o}, nil
}

// Read reads the body of a call. The error says what is wrong.
func Read(f chat.Format, raw []byte) (*Body, error) {
	o, err := Open(raw)
	if err != nil {
		return nil, err
	}
	return o.Read(f)
}

// Read reads an open body as that of a call.
func (opened Object) Read(f chat.Format) (*Body, error) {
	o := opened.Object
	b := &Body{Format: f, object: o, Model: o.Text("model"), Stream: truth(&o, "stream"), Choices: 1,
		Tools: elements(o.Get("tools"))}
	var err error
	switch f {
	case chat.OpenAIResponses:
		b.System, b.Background = o.Get("instructions"), truth(&o, "background")
		b.Previous, b.Conversation = o.Text("previous_response_id"), conversation(o.Get("conversation"))
		b.MaxTokens = number(&o, "max_output_tokens")
		err = b.readInput(o.Get("input"))
	case chat.AnthropicMessages:
		b.System, b.MaxTokens = o.Get("system"), number(&o, "max_tokens")
		if thinking := o.Get("thinking"); rawjson.IsObject(thinking) {
			inner, _, _ := rawjson.ReadObject(thinking)
			b.Thinking = inner.Text("type")
		}
		err = b.readList("messages", o.Get("messages"))
		b.CacheControl = Breakpoints{Top: o.Get(cacheControl) != nil, Text: marked(b.System, b.Messages)}
	default:
		if b.MaxTokens = number(&o, "max_completion_tokens"); b.MaxTokens == nil {
			b.MaxTokens = number(&o, "max_tokens")
		}
		if n := number(&o, "n"); n != nil {
			b.Choices = *n
		}
		if options := o.Get("stream_options"); rawjson.IsObject(options) {
			inner, _, _ := rawjson.ReadObject(options)
			b.WantsUsage = truth(&inner, "include_usage")
		}
		messages := o.Get("messages")
		b.Reasoning = bytes.Contains(messages, []byte(`"reasoning_content"`))
		err = b.readList("messages", messages)
	}
	return b, err
}

// listName is the member that holds the messages.
func (b *Body) listName() string {
	if b.Format == chat.OpenAIResponses {
		return "input"
	}
	return "messages"
}

func (b *Body) readInput(value []byte) error {
	if rawjson.IsArray(value) || value == nil {
		return b.readList("input", value)
	}
	if _, ok := rawjson.String(value); !ok {
		return errors.New("input must be a text or a list of items")
	}
	b.all = []json.RawMessage{append(append([]byte(`{"role":"user","content":`), value...), '}')}
	b.Messages = b.all
	return nil
}

func (b *Body) readList(name string, value []byte) error {
	if value != nil && !rawjson.IsArray(value) {
		return fmt.Errorf("%s must be a list", name)
	}
	b.all = elements(value)
	b.Messages = b.all
	var o rawjson.Object
	systems, head := 0, 0
	for i, raw := range b.all {
		twice, ok := o.Read(raw)
		if !ok {
			return fmt.Errorf("%s[%d] must be an object", name, i)
		}
		if twice != nil {
			return fmt.Errorf("%s[%d] has the member %q twice", name, i, twice)
		}
		if systemRole(&o) {
			if systems++; systems == i+1 {
				head = systems
			}
		}
	}
	b.anchors = systems
	if b.Format == chat.AnthropicMessages {
		return nil
	}
	b.anchors -= head
	b.Head, b.Messages = b.all[:head:head], b.all[head:]
	return nil
}

// IsSystem tells whether a message is one of the system's or the developer's.
func IsSystem(message []byte) bool {
	o, _, _ := rawjson.ReadObject(message)
	return systemRole(&o)
}

func systemRole(o *rawjson.Object) bool {
	role := o.Text("role")
	return role == "system" || role == "developer"
}

// HeadText is what the head and the system prompt say, as a system prompt in the words that windows read: a text, or a
// list of text blocks. It is nil where they say nothing.
func (b *Body) HeadText() json.RawMessage {
	if b.Format == chat.AnthropicMessages {
		return b.System
	}
	var blocks [][]byte
	text := func(value []byte) {
		if _, ok := rawjson.String(value); ok {
			blocks = append(blocks, append(append([]byte(`{"type":"text","text":`), value...), '}'))
		}
	}
	text(b.System)
	for _, raw := range b.Head {
		o, _, _ := rawjson.ReadObject(raw)
		content := o.Get("content")
		text(content)
		for _, part := range elements(content) {
			if rawjson.IsObject(part) {
				p, _, _ := rawjson.ReadObject(part)
				text(p.Get("text"))
			}
		}
	}
	if blocks == nil {
		return nil
	}
	return rawjson.ArrayOf(blocks...)
}

// conversation is the id of a conversation, which is a text or an object.
func conversation(value []byte) string {
	if rawjson.IsObject(value) {
		o, _, _ := rawjson.ReadObject(value)
		return o.Text("id")
	}
	id, _ := rawjson.String(value)
	return id
}

// marked tells whether a system prompt or messages have breakpoints.
func marked(system []byte, messages []json.RawMessage) bool {
	if markedContent(system) {
		return true
	}
	for _, raw := range messages {
		o, _, _ := rawjson.ReadObject(raw)
		if markedContent(o.Get("content")) {
			return true
		}
	}
	return false
}

const cacheControl = "cache_control"

func markedContent(value []byte) bool {
	for _, block := range elements(value) {
		if rawjson.IsObject(block) {
			if o, _, _ := rawjson.ReadObject(block); o.Get(cacheControl) != nil {
				return true
			}
		}
	}
	return false
}

// elements are those of an array; nil for another value.
func elements(value []byte) (out []json.RawMessage) {
	if !rawjson.IsArray(value) {
		return nil
	}
	for from, to := range rawjson.Elements(value) {
		out = append(out, value[from:to:to])
	}
	return out
}

func truth(o *rawjson.Object, name string) bool { return string(o.Get(name)) == "true" }

func number(o *rawjson.Object, name string) *int {
	n, err := strconv.Atoi(string(o.Get(name)))
	if err != nil {
		return nil
	}
	return &n
}

// Member is a member of the body as the client wrote it; nil: it has none.
func (b *Body) Member(name string) []byte { return b.object.Get(name) }

// All are the messages with those of the head. Nobody changes the list.
func (b *Body) All() []json.RawMessage { return b.all[:len(b.all):len(b.all)] }
