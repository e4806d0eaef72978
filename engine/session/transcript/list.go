package transcript

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Message is a stored message in a list. Content is its text; Message is its JSON as posted.
type Message struct {
	ID         string          `json:"id"`
	Turn       uint32          `json:"turn"`
	Role       string          `json:"role"`
	Type       string          `json:"type"`
	Agent      string          `json:"agent"`
	Delegation *string         `json:"delegation_id"`
	Tags       []string        `json:"tags,omitempty"`
	Tokens     uint32          `json:"tokens"`
	CreatedAt  time.Time       `json:"created_at"`
	Format     string          `json:"format"`
	Content    string          `json:"content"`
	Message    json.RawMessage `json:"message"`
	Damaged    bool            `json:"damaged,omitempty"`
	Superseded bool            `json:"superseded,omitempty"` // a rewind took it back
}

// Order selects and orders the messages of a list.
type Order struct {
	Descending bool // newest first
	Superseded bool // include messages that a rewind took back
}

// pageBytes is the size at which a page of messages ends early, so that responses do not become too large.
const pageBytes = 4 << 20

// List pages through the messages of an extent by number. absent are the superseded runs of which nothing is stored. A
// message that cannot be read is listed as damaged, never left out; damaged reports that there is one.
func (svc *Service) List(ctx context.Context, tenant string, x Extent, absent Runs, page records.Page, order Order,
	encoding int) (out records.List[Message], damaged bool, err error) {
	out.Data = []Message{}
	limit, cursor, err := page.Decode([]byte("messages"), x.Incarnation[:])
	if err != nil {
		return out, damaged, err
	}
	hidden, descending := x.Superseded, order.Descending
	if order.Superseded {
		hidden = absent
	}
	first, last := uint64(1), x.Messages // still to be listed
	if cursor != nil {
		if len(cursor) != 8 {
			return out, damaged, records.ErrCursor()
		}
		at := binary.BigEndian.Uint64(cursor)
		if descending {
			last = min(last, max(at, 1)-1)
		} else {
			first = at + 1
		}
	}
	size := 0
	skip := func() (end uint64) { // skips hidden messages at the position of the listing, and returns the end of the next stretch
		if !descending {
			first, end = hidden.Stretch(first)
			return min(end, last)
		}
		last = hidden.LastMessage(last)
		for end = range hidden.Living(last) {
			break
		}
		return max(end, first)
	}
	for end := skip(); first <= last && len(out.Data) < limit && size < pageBytes; end = skip() {
		// Read a few at a time, so that long bodies are not all in memory at once.
		n := min(uint64(limit-len(out.Data)), 64, end-first+1)
		from := first
		if descending {
			n = min(uint64(limit-len(out.Data)), 64, last-end+1)
			from = last - n + 1
		}
		bodies, err := svc.ReadBodies(ctx, tenant, x.Incarnation, from, from+n-1)
		if err != nil {
			return out, damaged, err
		}
		if descending {
			slices.Reverse(bodies)
		}
		for _, body := range bodies {
			if size >= pageBytes {
				break
			}
			seq := first
			if descending {
				seq = last
				last--
			} else {
				first++
			}
			m := listed(x.Incarnation, seq, body, encoding)
			m.Superseded = x.Superseded.Message(seq)
			out.Data, damaged = append(out.Data, m), damaged || m.Damaged
			size += len(body)
		}
	}
	skip()
	if out.HasMore = first <= last; out.HasMore {
		at := first - 1
		if descending {
			at = last + 1
		}
		out.NextCursor = records.Cursor(binary.BigEndian.AppendUint64(nil, at), []byte("messages"), x.Incarnation[:])
	}
	return out, damaged, nil
}

// listed returns a stored message as a list shows it.
func listed(sinc ident.Incarnation, seq uint64, body []byte, encoding int) Message {
	id := MessageID(sinc, seq)
	h, msg, err := ParseBody(body)
	if err != nil || h.Seq != seq {
		return Message{ID: id, Damaged: true}
	}
	m := Message{ID: id, Turn: h.Turn, Role: chat.RoleName(h.Role), Type: kindName(h.Kind), Agent: h.Agent,
		Tags: h.Tags, Tokens: h.Tokens[encoding], CreatedAt: records.TimeOf(h.Created), Format: msg.Format.String(),
		Content: msg.Text, Message: msg.Raw}
	if h.Delegation != "" {
		m.Delegation = &h.Delegation
	}
	return m
}

// kindName returns the name of a message kind in the HTTP API.
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
