package session

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
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
// never left out. It answers not_found where there is no such session.
func (svc *Service) ListMessages(ctx context.Context, c access.Caller, projectID, id string, page records.Page,
	descending bool) (records.List[Message], error) {
	out := records.List[Message]{Data: []Message{}}
	p, h, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return out, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return out, err
	}
	limit, cursor, err := page.Decode()
	if err != nil {
		return out, err
	}
	first, last := uint64(1), h.Messages // those still to be listed
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
			m := listed(h.Incarnation, seq, body, set.Encoding)
			out.Data, damaged = append(out.Data, m), damaged || m.Damaged
			size += len(body)
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
func listed(sinc ident.Incarnation, seq uint64, body []byte, encoding int) Message {
	id := transcript.MessageID(sinc, seq)
	h, msg, err := transcript.ParseBody(body)
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
