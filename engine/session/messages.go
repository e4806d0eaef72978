package session

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Message is one stored message, as listed. Content is its text; Message is its JSON as posted.
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
}

// pageBytes ends a page of messages early, so that a page of long ones stays a bearable answer.
const pageBytes = 4 << 20

// ListMessages pages through a session's messages by number. A message that cannot be read is listed as damaged,
// never left out.
func (svc *Service) ListMessages(ctx context.Context, c access.Caller, projectID, id string, page records.Page, descending bool,
) (records.List[Message], error) {
	out := records.List[Message]{Data: []Message{}}
	p, h, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return out, err
	}
	r, err := svc.projects.SetupOf(p)
	if err != nil {
		return out, err
	}
	limit, cursor, err := page.Decode()
	if err != nil {
		return out, err
	}
	first, last := uint64(1), h.Messages
	if cursor != nil {
		if len(cursor) != 8 {
			return out, fault.InvalidField("cursor", "invalid_cursor", "must be the next_cursor of an earlier page")
		}
		if at := binary.BigEndian.Uint64(cursor); descending {
			last = min(last, max(at, 1)-1)
		} else {
			first = at + 1
		}
	}
	size, damaged := 0, false
	for first <= last && len(out.Data) < limit && size < pageBytes {
		// A few at a time, so that long bodies are not all in memory at once.
		n := min(uint64(limit-len(out.Data)), 64, last-first+1)
		from := first
		if descending {
			from = last - n + 1
		}
		bodies, err := svc.ReadBodies(ctx, c.Tenant, h.Incarnation, from, from+n-1)
		if err != nil {
			return out, err
		}
		for i := range bodies {
			at := i
			if descending {
				at = len(bodies) - 1 - i
			}
			if size >= pageBytes {
				break
			}
			seq := from + uint64(at)
			m := svc.listed(h.Incarnation, seq, bodies[at], r.Encoding)
			out.Data, damaged = append(out.Data, m), damaged || m.Damaged
			size += len(bodies[at])
			if descending {
				last = seq - 1
			} else {
				first = seq + 1
			}
		}
	}
	if damaged {
		if replaced, err := svc.replaced(ctx, c, projectID, id, h.Incarnation); err != nil {
			return records.List[Message]{Data: []Message{}}, err
		} else if replaced {
			return svc.ListMessages(ctx, c, projectID, id, page, descending)
		}
	}
	if out.HasMore = first <= last; out.HasMore {
		at := first - 1
		if descending {
			at = last + 1
		}
		next := base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, at))
		out.NextCursor = &next
	}
	return out, nil
}

// listed shows one stored message.
func (svc *Service) listed(sinc ident.Incarnation, seq uint64, body []byte, encoding int) Message {
	m := Message{ID: MessageID(sinc, seq), Damaged: true}
	h, msg, err := ParseBody(body)
	if err != nil || h.Seq != seq {
		return m
	}
	m = Message{ID: m.ID, Turn: h.Turn, Role: chat.RoleName(h.Role), Type: kindName(h.Kind), Agent: h.Agent, Tags: h.Tags,
		Tokens: h.Tokens[encoding], CreatedAt: records.TimeOf(h.Created), Format: msg.Format.String(), Content: msg.Text,
		Message: msg.Raw}
	if h.Delegation != "" {
		m.Delegation = &h.Delegation
	}
	return m
}
