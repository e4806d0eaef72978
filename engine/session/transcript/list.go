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
	// SourceIDs are the ids that the message has in the file of another program from which it was imported.
	SourceIDs  []string `json:"source_ids,omitempty"`
	Damaged    bool     `json:"damaged,omitempty"`
	Superseded bool     `json:"superseded,omitempty"` // a rewind took it back
}

// Order selects and orders the messages of a list.
type Order struct {
	Descending bool // newest first
	Superseded bool // include messages that a rewind took back
	// First and Last are the numbers of the messages that the list begins and ends with; 0: those of the extent.
	First, Last uint64
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
	todo := remainder{first: max(1, order.First), last: x.Messages, hidden: x.Superseded, descending: order.Descending}
	if order.Last > 0 {
		todo.last = min(todo.last, order.Last)
	}
	if order.Superseded {
		todo.hidden = absent
	}
	if cursor != nil {
		if len(cursor) != 8 {
			return out, damaged, records.ErrCursor()
		}
		todo.after(binary.BigEndian.Uint64(cursor))
		todo.first = max(todo.first, order.First)
	}
	size := 0
	for len(out.Data) < limit && size < pageBytes {
		// Read a few at a time, so that long bodies are not all in memory at once.
		from, to, ok := todo.stretch(min(uint64(limit-len(out.Data)), 64))
		if !ok {
			break
		}
		bodies, err := svc.ReadBodies(ctx, tenant, x.Incarnation, from, to)
		if err != nil {
			return out, damaged, err
		}
		if order.Descending {
			slices.Reverse(bodies)
		}
		for _, body := range bodies {
			if size >= pageBytes {
				break
			}
			seq := todo.take()
			m := listed(x.Incarnation, seq, body, encoding)
			m.Superseded = x.Superseded.Message(seq)
			out.Data, damaged = append(out.Data, m), damaged || m.Damaged
			size += len(body)
		}
	}
	if _, _, out.HasMore = todo.stretch(1); out.HasMore {
		at := binary.BigEndian.AppendUint64(nil, todo.cursor())
		out.NextCursor = records.Cursor(at, []byte("messages"), x.Incarnation[:])
	}
	return out, damaged, nil
}

// remainder holds the messages that are still to be listed: those from first to last that are not hidden.
type remainder struct {
	first, last uint64
	hidden      Runs
	descending  bool
}

// after excludes the messages up to the given one, in the order of the list.
func (r *remainder) after(seq uint64) {
	if r.descending {
		r.last = min(r.last, max(seq, 1)-1)
	} else {
		r.first = seq + 1
	}
}

// stretch skips hidden messages. It returns the lowest and highest numbers of at most n messages to list next, which have
// no hidden ones between them. It returns false if there are none.
func (r *remainder) stretch(n uint64) (from, to uint64, ok bool) {
	if !r.descending {
		var end uint64
		r.first, end = r.hidden.Stretch(r.first)
		return r.first, min(end, r.last, r.first+n-1), r.first <= r.last
	}
	r.last = r.hidden.LastMessage(r.last)
	for begin := range r.hidden.Living(r.last) {
		return max(begin, r.first, r.last-min(r.last, n)+1), r.last, r.first <= r.last
	}
	return 0, 0, false
}

// take removes the next message and returns its number.
func (r *remainder) take() uint64 {
	if r.descending {
		r.last--
		return r.last + 1
	}
	r.first++
	return r.first - 1
}

// cursor returns the number of a message that the next page begins after.
func (r *remainder) cursor() uint64 {
	if r.descending {
		return r.last + 1
	}
	return r.first - 1
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
		Content: msg.Text, Message: msg.Raw, SourceIDs: h.Sources}
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
