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

// saying is a list of messages as they came, parsed the way a session will store them.
type saying struct {
	format chat.Format
	raw    []json.RawMessage
	read   []*transcript.Element // the parsed elements of raw; nil for those that were not parsed or are no longer needed
	parsed []message
	hashes []align.Hash
}

// message is the part of a message that an exchange keeps while it waits for its reply, possibly for minutes.
type message struct {
	Index    int // of its element
	Raw      []byte
	Decision string
	Role     plan.Role
	Hidden   bool
	calls    bool // it calls tools
	spoken   bool // it says or calls something
}

// listen parses messages. It returns invalid_messages if one cannot be read.
func listen(f chat.Format, raw []json.RawMessage) (saying, error) {
	return listenTo(f, transcript.ElementsOf(raw))
}

// listenTo is like listen for elements, some of which may already be parsed.
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

// add appends a message.
func (s *saying) add(m *chat.Parsed, said align.Hash) {
	s.hashes = append(s.hashes, said)
	s.parsed = append(s.parsed, message{Role: m.Role, Index: m.Index, Raw: m.Raw, Decision: strings.Clone(m.Decision),
		Hidden: m.Hidden, calls: len(m.Calls) > 0, spoken: m.Text != "" || m.Reasoning != "" || len(m.Calls) > 0})
}

// element returns an element of the list, parsed if it was.
func (s *saying) element(at int) *transcript.Element {
	if s.read != nil && s.read[at] != nil {
		return s.read[at]
	}
	return &transcript.Element{Raw: s.raw[at]}
}

// marked returns the list with elements that may be replaced.
func (s saying) marked() saying {
	list := make([]*transcript.Element, len(s.raw))
	for i := range list {
		list[i] = s.element(i)
	}
	s.read = list
	return s
}

// alone returns an element that contains only the message at an index.
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

// shown returns the hashes of the messages that clients have.
func (s *saying) shown() (out []align.Hash) {
	for i, h := range s.hashes {
		if !s.parsed[i].Hidden {
			out = append(out, h)
		}
	}
	return out
}

func (s *saying) assistant(i int) bool { return s.parsed[i].Role == plan.RoleAssistant }

// cut returns the messages in [from, to) as they came. If an element also contains a message outside the range, its
// other messages are returned as separate elements.
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

// until returns the index of the element in which the message at i begins. What precedes it belongs to the previous
// message.
func (s *saying) until(i int) int {
	if i < len(s.parsed) {
		return s.parsed[i].Index
	}
	return len(s.raw)
}

// calls reports whether the last message calls tools, so that results are awaited.
func (s *saying) calls() bool {
	return slices.ContainsFunc(s.parsed, func(m message) bool { return m.calls })
}

// turns returns the indices where turns begin, and the end. A turn begins with a question after a reply that called no
// tools.
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
