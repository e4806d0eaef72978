// Package hard makes difficult transcripts, as agents produce them when much goes wrong: parallel calls answered in any
// order, late or never, reused call ids, nested delegations, empty contents, images and awkward texts. A transcript
// comes with an independent model of how a server must understand it, so that a test can check every window against it.
//
// Everything is derived from a seed: the same Knobs always give the same bytes.
package hard

import (
	"encoding/json"
)

// Format is a provider's message format, by its name in the HTTP API.
type Format string

// The formats that turns may be posted in.
const (
	Chat      Format = "openai.chat"
	Anthropic Format = "anthropic.messages"
	Responses Format = "openai.responses"
)

// Formats lists all of them.
func Formats() []Format { return []Format{Chat, Anthropic, Responses} }

// Call is one tool call of an assistant message. Arguments are unchanged from the model: usually a JSON object.
type Call struct {
	ID, Name, Arguments string
}

// Part is one piece of a message's content: a text, or an image's URL.
type Part struct {
	Text, Image string
}

// Message describes how a server must understand one message.
type Message struct {
	Seq        int    // counts the session's stored messages from 1, in the order posted
	Turn       int    // the turn it was posted in, from 1
	Role       string // user, assistant or tool
	Atom       int    // Seq of the message that its atom begins with
	Delegation string
	Agent      string
	From, To   string // both set for messages between agents
	Parts      []Part // in order; none if the content is null or empty
	Calls      []Call
	CallID     string // of a tool result
	Own        Own    // members that only this server reads

	// Posted is the message's JSON as sent, if one message of the format is one stored message.
	Posted json.RawMessage
	// Pieces are the JSON blocks (anthropic.messages) or items (openai.responses) of this message, in order, as sent;
	// nil if the content was a plain string.
	Pieces []json.RawMessage
}

// Own are members that the server reads and leaves out of windows.
type Own struct {
	Reasoning string
	Tags      []string
	Metadata  json.RawMessage
	CreatedAt string
}

// A2A reports whether the message was sent from one agent to another.
func (m *Message) A2A() bool { return m.From != "" }

// Turn is one run of the agent: the body of one request, without the session's id.
type Turn struct {
	Number     int
	Agent      string
	Delegation string
	Format     Format
	Input      []json.RawMessage // as sent, with system messages
	Skipped    []int             // indexes in Input that are system messages
	Messages   []*Message        // the messages that must be stored
}

// Transcript is one session.
type Transcript struct {
	Format   Format
	Turns    []Turn
	Messages []*Message // of all turns
}

// Upto returns the stored messages of the first n turns.
func (t *Transcript) Upto(n int) []*Message {
	count := 0
	for _, turn := range t.Turns[:n] {
		count += len(turn.Messages)
	}
	return t.Messages[:count]
}

// Delegations lists the delegations that occur, in order of appearance.
func (t *Transcript) Delegations() []string {
	var out []string
	seen := map[string]bool{"": true}
	for _, m := range t.Messages {
		if !seen[m.Delegation] {
			seen[m.Delegation] = true
			out = append(out, m.Delegation)
		}
	}
	return out
}
