// Package chat translates messages between the formats of providers and the canonical Message, and counts their tokens.
// Everything here is a pure function of its arguments.
//
// A message keeps the JSON that it was posted as, so that a window in the same format shows it byte for byte. Parse
// reads that JSON once; Render cuts Mneme's own fields out of it, or translates it into another format; a Builder
// splices the rendered fragments into a window.
package chat

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Message is one message of a conversation in the terms that all formats share.
type Message struct {
	Role plan.Role
	Kind plan.Kind
	// Text is what policies and search see: the message's texts, joined by newlines. Images, calls, reasoning and the
	// sender of an agent-to-agent message are not in it.
	Text string

	Calls   []Call     // of an assistant
	CallID  string     // of a tool: the call it answers
	IsError bool       // of a tool: the call failed
	Images  int        // how many images the content holds
	Parts   plan.Parts // what it holds beside text and calls
	Name    string     // OpenAI's participant name

	// Mneme's own fields. They are left out of windows.
	Reasoning  string // also the text of a provider's thinking blocks or reasoning items
	Agent      string
	Delegation string
	From, To   string // of an agent-to-agent message
	Decision   string // names the decision whose window a model made the message from
	Hidden     bool   // clients do not have the message, so they do not send it again
	Tags       []string
	Metadata   json.RawMessage
	CreatedAt  time.Time // zero: not said

	// Compacts says that Anthropic's message stands for all messages before it: none of them may be sent with it.
	Compacts bool

	// Made is the place in a prompt that a model made the message behind; the zero Place: nobody knows.
	Made prefix.Place

	// Format is the format of Raw.
	Format Format
	// Raw is the JSON this message came from, byte for byte, own fields included; nil where Mneme made the message up.
	// A message split out of a bigger one is that message with only its own blocks. For OpenAIResponses it is an array
	// of the items. Parsed again, Raw gives the same one message. It must not be changed: fragments alias it.
	Raw []byte

	// bare marks a text that names its own origin (an earlier question, a tool's markdown): the text format then
	// shows it without a speaker.
	bare bool
}

// Call is one tool call of an assistant message. Arguments are what the model wrote, JSON or not.
type Call struct {
	ID        string
	Name      string
	Arguments string
	// Type is that of the Responses item that makes the call; empty: function_call, or a call of another format.
	Type string
}

// Empty reports that a message has no visible text, call or image. Not every provider accepts such a message.
func (m *Message) Empty() bool {
	return m.Role != plan.RoleTool && len(m.Calls) == 0 && m.Images == 0 && blank(m.Shown())
}

// Bare reports that the flat text shows the message without its speaker.
func (m *Message) Bare() bool { return m.bare }

// Shown is the text as a window shows it: that of an agent-to-agent message names sender and recipient.
func (m *Message) Shown() string { return m.sender() + m.Text }

// sender is what a window puts before the text of an agent-to-agent message; "" for others.
func (m *Message) sender() string {
	if m.Kind != plan.KindA2A {
		return ""
	}
	return "[from " + m.From + " to " + m.To + "] "
}

// blank reports what Anthropic calls an empty text: nothing, or white space alone.
func blank(text string) bool {
	return strings.TrimSpace(text) == ""
}
