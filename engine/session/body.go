package session

import (
	"encoding/json"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// A body record is the message's own header once more, its format in one byte, and its JSON as posted. The header
// makes listings one scan, and lets a lost header record be made again.

// errBadBody is answered for a body record that does not parse.
var errBadBody = errors.New("a message body does not parse")

func appendBody(dst []byte, h *Header, m *chat.Message) []byte {
	dst = appendHeaders(dst, []Header{*h})
	dst = append(dst, byte(m.Format))
	return append(dst, m.Raw...)
}

// ParseBody gives back the header and the canonical message. The message aliases b.
func ParseBody(b []byte) (*Header, *chat.Message, error) {
	hs, rest, err := parseHeaders(b)
	if err != nil || len(hs) != 1 || len(rest) < 1 {
		return nil, nil, errBadBody
	}
	h := &hs[0]
	if len(b) != int(h.bodyBytes) {
		return nil, nil, errBadBody
	}
	format, raw := chat.Format(rest[0]), json.RawMessage(rest[1:])
	in := elementsOf(format, raw)
	parsed, _, bad := chat.Parse(format, in)
	if len(bad) > 0 || len(parsed) != 1 {
		return nil, nil, errBadBody
	}
	m := &parsed[0].Message
	m.Raw = raw
	m.Agent, m.Delegation, m.Tags = h.Agent, h.Delegation, h.Tags
	m.CreatedAt = records.TimeOf(h.Created)
	return h, m, nil
}

// elementsOf gives the posted elements that a message's JSON holds: for OpenAIResponses it is a list of items.
func elementsOf(format chat.Format, raw json.RawMessage) []json.RawMessage {
	var items []json.RawMessage // its own: decoding into raw's memory would overwrite it
	if format == chat.OpenAIResponses && json.Unmarshal(raw, &items) == nil {
		return items
	}
	return []json.RawMessage{raw}
}

// kindName is a kind of stored messages in the HTTP contract.
func kindName(k plan.Kind) string {
	switch k {
	case plan.KindCall:
		return "tool_call"
	case plan.KindResult:
		return "tool_result"
	case plan.KindA2A:
		return "a2a"
	}
	return "chat"
}
