package board

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Notification informs an agent of an entry.
type Notification struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"` // chat, mention or control
	Command  string `json:"command,omitempty"`
	BoardID  string `json:"board_id"`
	MemoryID string `json:"memory_id"` // of the entry
	From     string `json:"from"`
	// Unverified says that From is what a client wrote, and not the name of its key's agent or user.
	Unverified bool      `json:"unverified,omitempty"`
	Snippet    string    `json:"snippet"`
	ReplyTo    string    `json:"reply_to"` // URL that replies are posted to
	Text       string    `json:"text"`     // all of this in words, for a model to read
	CreatedAt  time.Time `json:"created_at"`
	Read       bool      `json:"read"`
}

// Kinds of notifications.
const (
	noticeChat    = "chat"
	noticeMention = "mention"
	noticeControl = "control"
)

// noticeRecord is a notification as it is stored.
type noticeRecord struct {
	Kind    string `json:"kind"`
	Command string `json:"command,omitempty"`
	Entry   uint64 `json:"entry"` // number of the entry
	From    string `json:"from"`
	// Unverified is the entry's.
	Unverified bool   `json:"unverified,omitempty"`
	Snippet    string `json:"snippet"`
	Created    int64  `json:"created"` // milliseconds since 1970
}

// public returns a notification as its reader sees it. base is the URL by which the reader reaches this server.
func (n *noticeRecord) public(b *boardRecord, a *agentRecord, seq uint64, base string) Notification {
	out := Notification{ID: noticeID(a.Inbox, seq), Kind: n.Kind, Command: n.Command, BoardID: b.ID,
		MemoryID: entryID(b.Incarnation, n.Entry), From: n.From, Unverified: n.Unverified, Snippet: n.Snippet,
		ReplyTo:   base + "/api/v1/agent/boards/" + b.ID + "/memory",
		CreatedAt: records.TimeOf(n.Created), Read: seq <= a.Acked}
	title := "BOARD CHAT"
	switch n.Kind {
	case noticeMention:
		title = "BOARD CHAT MENTION"
	case noticeControl:
		title = "BOARD CONTROL"
	}
	from := n.From
	if n.Unverified {
		from += " (unverified)"
	}
	out.Text = title + "\nBoard: " + b.title() + "\nFrom: " + from + "\n\n" + n.Snippet +
		"\n\nReply via board chat:\nPOST " + out.ReplyTo + "\nBody: {\"content\":\"...\",\"tags\":[\"chat\"]}"
	return out
}

func noticeID(inbox ident.Incarnation, seq uint64) string {
	return ident.Numbered(noticePrefix, inbox, seq)
}

// InboxQuery asks for an agent's notifications, oldest first.
type InboxQuery struct {
	After  string // id of a notification
	Unread bool
	Limit  int // 0 means 50
	// Base is the URL by which the reader reaches this server. It is part of the URL for replies.
	Base string
}

// InboxPage is one page of notifications. Unread counts the whole inbox.
type InboxPage struct {
	Items   []Notification `json:"items"`
	HasMore bool           `json:"has_more"`
	Unread  uint64         `json:"unread"`
}

// Inbox returns a page of an agent's notifications, oldest first. It returns not_found if the board has no such agent,
// invalid_id if After is not the id of a notification, and out_of_range for the limit.
func (svc *Service) Inbox(ctx context.Context, c ident.Caller, id, agent string, q InboxQuery) (InboxPage, error) {
	b, a, err := svc.readAgent(ctx, c, id, agent)
	if err != nil {
		return InboxPage{}, err
	}
	limit, _, err := records.Page{Limit: q.Limit}.Decode()
	if err != nil {
		return InboxPage{}, err
	}
	after := uint64(0)
	if q.After != "" {
		if after, err = ident.ParseNumbered(noticePrefix, "after", q.After, a.Inbox); err != nil {
			return InboxPage{}, err
		}
	}
	if q.Unread {
		after = max(after, a.Acked)
	}
	items, _, err := svc.notices(ctx, c.Tenant, b, a, after, limit+1, q.Base)
	if err != nil {
		return InboxPage{}, err
	}
	out := InboxPage{Items: items, Unread: a.Unread}
	if len(items) > limit {
		out.Items, out.HasMore = items[:limit], true
	}
	return out, nil
}

// notices reads the notifications after the number after, oldest first. last is the number of the last one returned.
func (svc *Service) notices(ctx context.Context, tenant string, b *boardRecord, a *agentRecord, after uint64, limit int,
	base string) (out []Notification, last uint64, err error) {
	out = []Notification{}
	rng := noticeRange(b, a, after, a.Last)
	rng.Limit = limit
	for it, err := range records.Each[noticeRecord](ctx, svc.db, tenant, rng) {
		if err != nil {
			return nil, 0, err
		}
		_, _, last, _ = records.Notice.Split(it.Key)
		if out = append(out, it.Value.public(b, a, last, base)); len(out) == limit {
			break
		}
	}
	return out, last, nil
}

// noticeRange covers an agent's notifications after the number after, up to the number last.
func noticeRange(b *boardRecord, a *agentRecord, after, last uint64) store.Range {
	return store.Range{From: records.Notice.Key(b.Incarnation, a.Inbox, after+1),
		To: records.Notice.Key(b.Incarnation, a.Inbox, last+1)}
}

// InboxAck marks notifications as read, up to and including UpTo.
type InboxAck struct {
	UpTo string `json:"up_to"`
}

// InboxAcked is the state of an inbox after an InboxAck.
type InboxAcked struct {
	UpTo   string `json:"up_to"`
	Unread uint64 `json:"unread"`
}

// AckInbox marks an agent's notifications up to UpTo as read. If they are read already, it changes nothing. It returns
// not_found if the board has no such agent, and required, invalid_id or out_of_range if UpTo is not one of its
// notifications.
func (svc *Service) AckInbox(ctx context.Context, c ident.Caller, once ident.Once, id, agent string, ack InboxAck) (
	InboxAcked, error) {
	if ack.UpTo == "" {
		return InboxAcked{}, fault.InvalidField("up_to", "required", "must be the id of a notification")
	}
	return change(ctx, svc, c, once, id, existing, func(t *records.Tx, b *boardRecord) (out InboxAcked, err error) {
		a, err := svc.agent(ctx, c.Tenant, b, agent)
		if err != nil {
			return out, err
		}
		upTo, err := ident.ParseNumbered(noticePrefix, "up_to", ack.UpTo, a.Inbox)
		if err != nil {
			return out, err
		}
		if upTo > a.Last {
			return out, fault.InvalidField("up_to", "out_of_range", "no notification of this inbox has that id yet")
		}
		if upTo > a.Acked {
			// Count the notifications: a purge may have left gaps in their numbers.
			read := noticeRange(b, a, a.Acked, upTo)
			read.KeysOnly = true
			r, err := svc.db.Store.Read(ctx, c.Tenant, store.Query{Ranges: []store.Range{read}})
			if err != nil {
				return out, err
			}
			a.Acked = upTo
			a.Unread -= min(a.Unread, uint64(len(r.Ranges[0])))
		}
		return InboxAcked{UpTo: noticeID(a.Inbox, a.Acked), Unread: a.Unread}, a.put(t, b)
	})
}
