// Package chat translates messages between the formats of providers and the canonical Message, and counts their tokens.
// All functions are pure functions of their arguments.
//
// A message keeps the JSON that it was posted as, so that a window in the same format shows it byte for byte. Parse
// reads that JSON once. Render removes Mneme's own fields from it, or translates it into another format. A Builder
// joins the rendered fragments into a window.
package chat

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Message is one message of a conversation, with the properties that all formats share.
type Message struct {
	Role plan.Role
	Kind plan.Kind
	// Text is what policies and search see: the message's texts, joined by newlines. It excludes images, calls, reasoning
	// and the sender of an agent-to-agent message.
	Text string

	Calls   []Call     // of an assistant
	CallID  string     // of a tool: the call it answers
	IsError bool       // of a tool: the call failed
	Images  int        // how many images the content contains
	Parts   plan.Parts // what it contains besides text and calls
	Name    string     // OpenAI's participant name

	// Mneme's own fields. They are left out of windows.
	Reasoning  string // also the text of a provider's thinking blocks or reasoning items
	Agent      string
	Delegation string
	From, To   string // of an agent-to-agent message
	Decision   string // names the decision whose window led to the message
	Hidden     bool   // clients do not have the message, so they do not send it again
	Tags       []string
	Metadata   json.RawMessage
	CreatedAt  time.Time // zero if unknown

	// Compacts says that Anthropic's message replaces all messages before it: none of them may be sent with it.
	Compacts bool

	// Made is the place in a prompt after which a model made the message; the zero Place if unknown.
	Made prefix.Place

	// Format is the format of Raw.
	Format Format
	// Raw is the JSON this message came from, byte for byte, including own fields; nil if Mneme made the message. A message
	// split out of a bigger one has only its own blocks. For OpenAIResponses it is an array of the items. Parsing Raw again
	// gives the same single message. It must not be changed: fragments alias it.
	Raw []byte

	// bare marks a text that names its own origin (an earlier question, a tool's markdown): the text format then shows it
	// without a speaker.
	bare bool
	// uncited marks a message of which a document lost its citations.
	uncited bool
}

// Call is one tool call of an assistant message. Arguments are as the model wrote them, and may not be JSON.
type Call struct {
	ID        string
	Name      string
	Arguments string
	// Type is the type of the Responses item that makes the call. It is empty for function_call and in other formats.
	Type string
}

// Empty reports whether a message has no visible text, call or image. Not every provider accepts such a message.
func (m *Message) Empty() bool {
	return m.Role != plan.RoleTool && len(m.Calls) == 0 && m.Images == 0 && blank(m.Shown())
}

// Bare reports whether the flat text shows the message without its speaker.
func (m *Message) Bare() bool { return m.bare }

// Shown returns the text as a window shows it. For an agent-to-agent message it names sender and recipient.
func (m *Message) Shown() string { return m.sender() + m.Text }

// sender returns what a window puts before the text of an agent-to-agent message, or "" for others.
func (m *Message) sender() string {
	if m.Kind != plan.KindA2A {
		return ""
	}
	return "[from " + m.From + " to " + m.To + "] "
}

// blank reports whether Anthropic considers a text empty: it has nothing but white space.
func blank(text string) bool {
	return strings.TrimSpace(text) == ""
}
