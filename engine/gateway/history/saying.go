package history

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// saying is a list of messages as they came, read as a session will store them.
type saying struct {
	format chat.Format
	raw    []json.RawMessage
	parsed []message
	hashes []align.Hash
}

// message is as much of a message as an exchange keeps, which waits for its reply for minutes.
type message struct {
	Index    int // of its element
	Raw      []byte
	Decision string
	Role     plan.Role
	Hidden   bool
	calls    bool // it calls tools
	spoken   bool // it says or calls something
}

// listen reads messages. It answers invalid_messages where one cannot be read.
func listen(f chat.Format, raw []json.RawMessage) (saying, error) {
	parsed, _, err := transcript.ParseRepaired(f, raw)
	if err != nil {
		return saying{}, err
	}
	s := saying{format: f, raw: raw, parsed: make([]message, len(parsed)), hashes: make([]align.Hash, len(parsed))}
	for i := range parsed {
		m := &parsed[i]
		s.hashes[i] = align.Of(&m.Message)
		s.parsed[i] = message{Role: m.Role, Index: m.Index, Raw: m.Raw, Decision: strings.Clone(m.Decision), Hidden: m.Hidden,
			calls: len(m.Calls) > 0, spoken: m.Text != "" || m.Reasoning != "" || len(m.Calls) > 0}
	}
	return s, nil
}

// shown are the hashes of the messages that clients have.
func (s *saying) shown() (out []align.Hash) {
	for i, h := range s.hashes {
		if !s.parsed[i].Hidden {
			out = append(out, h)
		}
	}
	return out
}

func (s *saying) assistant(i int) bool { return s.parsed[i].Role == plan.RoleAssistant }

// cut gives the messages from one up to another as they came. Where a part of an element belongs to a message outside,
// the element's other messages come each by itself.
func (s *saying) cut(from, to int) (out []json.RawMessage) {
	for i := from; i < to; {
		at, end := s.parsed[i].Index, i+1
		for end < len(s.parsed) && s.parsed[end].Index == at {
			end++
		}
		if whole := i == 0 || s.parsed[i-1].Index != at; whole && end <= to {
			out = append(out, s.raw[at:s.until(end)]...)
		} else {
			for ; i < min(end, to); i++ {
				out = append(out, transcript.Elements(s.format, s.parsed[i].Raw)...)
			}
		}
		i = end
	}
	return out
}

// until is the element that the message at a place begins with: what stands before it belongs to the message before.
func (s *saying) until(i int) int {
	if i < len(s.parsed) {
		return s.parsed[i].Index
	}
	return len(s.raw)
}

// calls tells whether a message calls tools, so that their results are awaited.
func (s *saying) calls() bool {
	return slices.ContainsFunc(s.parsed, func(m message) bool { return m.calls })
}

// turns gives the places where the messages' turns begin, and their end. A turn begins with a question behind a reply
// that called no tools.
func (s *saying) turns() []int {
	starts := []int{0}
	for i := 1; i < len(s.parsed); i++ {
		before := &s.parsed[i-1]
		if s.parsed[i].Role == plan.RoleUser && before.Role == plan.RoleAssistant && !before.calls {
			starts = append(starts, i)
		}
	}
	return append(starts, len(s.parsed))
}
