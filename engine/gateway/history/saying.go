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
	read   []*transcript.Element // of raw, those that were read; nil where one was not, or is not needed any more
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
	return listenTo(f, transcript.ElementsOf(raw))
}

// listenTo is listen for elements, those among them that were read before included.
func listenTo(f chat.Format, list []*transcript.Element) (saying, error) {
	s := saying{format: f, raw: transcript.Raw(list)}
	if f == chat.OpenAIResponses {
		parsed, _, err := transcript.ParseRepaired(f, s.raw)
		if err != nil {
			return saying{}, err
		}
		for i := range parsed {
			s.add(&parsed[i], align.Of(&parsed[i].Message))
		}
		return s, nil
	}
	if len(list) > transcript.MaxPosted {
		_, _, err := transcript.ParseRepaired(f, s.raw)
		return saying{}, err
	}
	var err error
	if s.read, err = transcript.Read(f, list); err != nil {
		return saying{}, err
	}
	for i, e := range s.read {
		messages, said := e.Messages()
		for n := range messages {
			m := messages[n]
			m.Index = i
			s.add(&m, said[n])
		}
	}
	return s, nil
}

// add takes up a message behind the others.
func (s *saying) add(m *chat.Parsed, said align.Hash) {
	s.hashes = append(s.hashes, said)
	s.parsed = append(s.parsed, message{Role: m.Role, Index: m.Index, Raw: m.Raw, Decision: strings.Clone(m.Decision),
		Hidden: m.Hidden, calls: len(m.Calls) > 0, spoken: m.Text != "" || m.Reasoning != "" || len(m.Calls) > 0})
}

// element is an element of the list, read if it was.
func (s *saying) element(at int) *transcript.Element {
	if s.read != nil && s.read[at] != nil {
		return s.read[at]
	}
	return &transcript.Element{Raw: s.raw[at]}
}

// marked is the list with elements that may be replaced.
func (s saying) marked() saying {
	list := make([]*transcript.Element, len(s.raw))
	for i := range list {
		list[i] = s.element(i)
	}
	s.read = list
	return s
}

// alone is an element of nothing but the message at a place.
func (s *saying) alone(i int) []*transcript.Element {
	m := &s.parsed[i]
	e := s.element(m.Index)
	if !e.IsRead() {
		return transcript.ElementsOf(transcript.Elements(s.format, m.Raw))
	}
	n := 0
	for n < i && s.parsed[i-n-1].Index == m.Index {
		n++
	}
	return []*transcript.Element{e.Only(n)}
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
func (s *saying) cut(from, to int) (out []*transcript.Element) {
	for i := from; i < to; {
		at, end := s.parsed[i].Index, i+1
		for end < len(s.parsed) && s.parsed[end].Index == at {
			end++
		}
		if whole := i == 0 || s.parsed[i-1].Index != at; whole && end <= to {
			for ; at < s.until(end); at++ {
				out = append(out, s.element(at))
			}
		} else {
			for ; i < min(end, to); i++ {
				out = append(out, s.alone(i)...)
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
