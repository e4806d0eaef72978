package wire

// The body of a call is read here and edited as bytes (edit.go). What an edit does not name stays as the client wrote it,
// including unknown members, their order and white space.

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
	// Head are the system and developer messages at the start of the list. Anthropic has none; its system prompt is
	// System.
	Head []json.RawMessage
	// Messages are those after the head. If the input of Responses is a string, it is one message here.
	Messages []json.RawMessage
	System   json.RawMessage // Anthropic's system, or the instructions of Responses; nil: none
	Tools    []json.RawMessage
	// MaxTokens is the longest answer in tokens; nil if the body does not say.
	MaxTokens  *int
	Choices    int // n of Chat Completions; 1 elsewhere
	Stream     bool
	Background bool // Responses: the client fetches the answer later
	WantsUsage bool // the client asks for the usage of a chat stream
	// Previous and Conversation are ids of what the provider stores of the conversation (Responses).
	Previous, Conversation string
	Thinking               string // the type of Anthropic's thinking; "": the body does not say
	// CacheControl says where the client has set breakpoints.
	CacheControl Breakpoints

	object  rawjson.Object
	whole   []byte            // the object with the white space before it
	all     []json.RawMessage // Head and Messages
	anchors int               // how many of Messages have the role system or developer
}

// Breakpoints tell where a body of Anthropic's Messages has cache_control.
type Breakpoints struct {
	Top  bool // as a member of the body: the provider sets one at the end
	Text bool // in the system prompt or in messages
}

// errForm refuses a body that is not a JSON object.
var errForm = errors.New("the body must be a JSON object")

// Object is a body whose members were located. The bytes must not change while it is used.
type Object struct {
	rawjson.Object
	whole []byte // with the white space before the object
}

// Open locates the members of a body. It refuses a body that is not valid JSON or that has a member twice, because two
// parsers could read that differently.
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
	return Object{o, raw}, nil
}

// Read reads the body of a call.
func Read(f chat.Format, raw []byte) (*Body, error) {
	o, err := Open(raw)
	if err != nil {
		return nil, err
	}
	return o.Read(f)
}

// Read reads the body of a call.
func (opened Object) Read(f chat.Format) (*Body, error) {
	o := opened.Object
	b := &Body{Format: f, object: o, whole: opened.whole, Model: o.Text("model"), Stream: truth(&o, "stream"), Choices: 1,
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
		err = b.readList("messages", o.Get("messages"))
	}
	return b, err
}

// ReasoningName returns the member of chat messages in which some of them have reasoning, or "".
func ReasoningName(messages []json.RawMessage) string {
	for _, raw := range messages {
		if !bytes.Contains(raw, []byte(`"reasoning`)) {
			continue
		}
		o, _, _ := rawjson.ReadObject(raw)
		for _, name := range [...]string{ReasoningContent, "reasoning"} {
			if _, ok := rawjson.String(o.Get(name)); ok {
				return name
			}
		}
	}
	return ""
}

// ReasoningContent is the usual name of the reasoning in a chat message.
const ReasoningContent = "reasoning_content"

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

// IsSystem reports whether a message has the role system or developer.
func IsSystem(message []byte) bool {
	o, _, _ := rawjson.ReadObject(message)
	return systemRole(&o)
}

func systemRole(o *rawjson.Object) bool {
	role := o.Text("role")
	return role == "system" || role == "developer"
}

// HeadText returns the texts of the system prompt and the head as the system prompt of a window: a string, or a list of
// text blocks. It is nil if there are none.
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

// conversation returns the id of a conversation, which is a string or an object with an id.
func conversation(value []byte) string {
	if rawjson.IsObject(value) {
		o, _, _ := rawjson.ReadObject(value)
		return o.Text("id")
	}
	id, _ := rawjson.String(value)
	return id
}

// marked reports whether a system prompt or messages have breakpoints.
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

// elements returns the elements of an array, or nil for any other value.
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

// Member returns a member of the body as the client wrote it, or nil.
func (b *Body) Member(name string) []byte { return b.object.Get(name) }

// All returns all messages, including the head. The list must not be changed.
func (b *Body) All() []json.RawMessage { return b.all[:len(b.all):len(b.all)] }
