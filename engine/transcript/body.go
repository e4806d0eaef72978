package transcript

import (
	"encoding/json"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

var errBadBody = errors.New("a message body does not parse")

// appendBody packs a body record: the message's own header once more, its format in one byte, and its JSON as posted.
func appendBody(dst []byte, h *Header, m *chat.Message) []byte {
	dst = appendHeaders(dst, []Header{*h})
	dst = append(dst, byte(m.Format))
	return append(dst, m.Raw...)
}

// ParseBody takes a body record apart: it gives the header, and the message in the terms that all formats share. The
// message aliases b.
func ParseBody(b []byte) (*Header, *chat.Message, error) {
	hs, rest, err := parseHeaders(b)
	if err != nil || len(hs) != 1 || len(rest) < 1 {
		return nil, nil, errBadBody
	}
	h := &hs[0]
	if len(b) != int(h.BodyBytes) {
		return nil, nil, errBadBody
	}
	format, raw := chat.Format(rest[0]), json.RawMessage(rest[1:])
	parsed, _, bad := chat.Parse(format, Elements(format, raw))
	if len(bad) > 0 || len(parsed) != 1 {
		return nil, nil, errBadBody
	}
	m := &parsed[0].Message
	m.Raw = raw
	m.Agent, m.Delegation, m.Tags = h.Agent, h.Delegation, h.Tags
	m.CreatedAt = records.TimeOf(h.Created)
	return h, m, nil
}

// Elements gives the posted elements that a message's JSON holds: for OpenAIResponses it is a list of items.
func Elements(format chat.Format, raw json.RawMessage) []json.RawMessage {
	var items []json.RawMessage // its own: decoding into raw's memory would overwrite it
	if format == chat.OpenAIResponses && json.Unmarshal(raw, &items) == nil {
		return items
	}
	return []json.RawMessage{raw}
}
