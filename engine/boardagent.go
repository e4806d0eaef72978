package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxBoardAgents bounds the agents of one board: one chat may notify them all, in one commit.
const maxBoardAgents = 256

// agentRecord is an agent of a board and the head of its inbox.
type agentRecord struct {
	ID          string      `json:"id"`
	DisplayName string      `json:"display_name,omitempty"`
	Lead        bool        `json:"lead,omitempty"`
	Paused      bool        `json:"paused,omitempty"`
	Created     time.Time   `json:"created_at"`
	Inbox       incarnation `json:"inbox"`
	Last        uint64      `json:"last"`     // number of the newest notification there ever was
	Acked       uint64      `json:"acked"`    // up to here all are read
	Notices     uint64      `json:"notices"`  // there now
	Unread      uint64      `json:"unread"`   // of them
	Mentions    uint64      `json:"mentions"` // of them
}

func (a *agentRecord) shown(b *board) BoardAgent {
	return BoardAgent{ID: a.ID, BoardID: b.ID, DisplayName: a.DisplayName, Lead: a.Lead, Paused: a.Paused,
		CreatedAt: a.Created}
}

func decodeAgents(items []store.Item) ([]*agentRecord, error) {
	out := make([]*agentRecord, len(items))
	for i, it := range items {
		if it.Damaged {
			return nil, errDamaged
		}
		out[i] = new(agentRecord)
		if err := json.Unmarshal(it.Value, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// boardAgents reads all agents of a board, by id.
func (e *Engine) boardAgents(ctx context.Context, tenant string, b *board) ([]*agentRecord, error) {
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{kindBoardAgent.Under(b.Incarnation)}})
	if err != nil {
		return nil, err
	}
	return decodeAgents(r.Ranges[0])
}

func (e *Engine) boardAgent(ctx context.Context, tenant string, b *board, id string) (*agentRecord, error) {
	missing := errorf(NotFound, "not_found", "no agent %q on board %q", id, b.ID)
	if !validID(id) {
		return nil, missing
	}
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: [][]byte{kindBoardAgent.Key(b.Incarnation, id)}})
	if err != nil {
		return nil, err
	}
	if r.Keys[0].Value == nil && !r.Keys[0].Damaged {
		return nil, missing
	}
	agents, err := decodeAgents(r.Keys)
	if err != nil {
		return nil, err
	}
	return agents[0], nil
}

// readAgent reads a board and one of its agents.
func (e *Engine) readAgent(ctx context.Context, c Caller, id, agent string) (*board, *agentRecord, error) {
	b, err := e.readBoard(ctx, c, id)
	if err != nil {
		return nil, nil, err
	}
	a, err := e.boardAgent(ctx, c.Tenant, b, agent)
	return b, a, err
}

// PutBoardAgent makes an agent of a board or changes what is said of it. A board has one lead: a new one takes the
// place of the last. The first agent makes the board.
func (e *Engine) PutBoardAgent(ctx context.Context, c Caller, id, agent string, spec BoardAgentSpec) (out BoardAgent,
	created bool, err error) {
	if err := checkID("agent", agent); err != nil {
		return out, false, err
	}
	if err := checkDisplayName(spec.DisplayName); err != nil {
		return out, false, err
	}
	out, err = changeBoard(ctx, e, c, Once{}, id, true, func(t *tx, b *board) (BoardAgent, error) {
		agents, err := e.boardAgents(ctx, c.Tenant, b)
		if err != nil {
			return BoardAgent{}, err
		}
		var a *agentRecord
		for _, other := range agents {
			switch {
			case other.ID == agent:
				a = other
			case spec.Lead && other.Lead:
				other.Lead = false
				if err := t.putJSON(kindBoardAgent.Key(b.Incarnation, other.ID), other); err != nil {
					return BoardAgent{}, err
				}
			}
		}
		if created = a == nil; created {
			if len(agents) >= maxBoardAgents {
				return BoardAgent{}, errorf(Conflict, "too_many_agents", "a board may have at most %d agents", maxBoardAgents)
			}
			a = &agentRecord{ID: agent, Created: t.now, Inbox: e.newIncarnation()}
		}
		a.DisplayName, a.Lead = spec.DisplayName, spec.Lead
		if spec.Paused != nil {
			a.Paused = *spec.Paused
		}
		return a.shown(b), t.putJSON(kindBoardAgent.Key(b.Incarnation, agent), a)
	})
	return out, created, err
}

// GetBoardAgent describes an agent of a board.
func (e *Engine) GetBoardAgent(ctx context.Context, c Caller, id, agent string) (BoardAgent, error) {
	b, a, err := e.readAgent(ctx, c, id, agent)
	if err != nil {
		return BoardAgent{}, err
	}
	return a.shown(b), nil
}

// ListBoardAgents pages through the agents of a board, by id.
func (e *Engine) ListBoardAgents(ctx context.Context, c Caller, id string, page Page) (List[BoardAgent], error) {
	b, err := e.readBoard(ctx, c, id)
	if err != nil {
		return List[BoardAgent]{}, err
	}
	return listPage(ctx, e, c.Tenant, kindBoardAgent.Under(b.Incarnation), page,
		func(_ []byte, a *agentRecord) (BoardAgent, bool) { return a.shown(b), true })
}

// DeleteBoardAgent removes an agent from a board, with its inbox.
func (e *Engine) DeleteBoardAgent(ctx context.Context, c Caller, id, agent string) error {
	_, err := changeBoard(ctx, e, c, Once{}, id, false, func(t *tx, b *board) (struct{}, error) {
		a, err := e.boardAgent(ctx, c.Tenant, b, agent)
		if err != nil {
			return struct{}{}, err
		}
		t.delete(kindBoardAgent.Key(b.Incarnation, agent))
		t.put(kindInboxJob.Key(b.Incarnation, a.Inbox), []byte{0})
		return struct{}{}, t.audit(c, "board.agent_delete", id+"/"+agent, fmt.Sprintf("%d notifications", a.Notices))
	})
	e.poke(c.Tenant)
	return err
}

// notices reads notifications behind a number, oldest first.
func (e *Engine) notices(ctx context.Context, tenant string, b *board, a *agentRecord, after uint64, limit int,
	base string) ([]Notification, []uint64, error) {
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{{
		From:  kindNotice.Key(b.Incarnation, a.Inbox, after+1),
		To:    kindNotice.Key(b.Incarnation, a.Inbox, a.Last+1),
		Limit: limit,
	}}})
	if err != nil {
		return nil, nil, err
	}
	out, seqs := make([]Notification, len(r.Ranges[0])), make([]uint64, len(r.Ranges[0]))
	for i, it := range r.Ranges[0] {
		if it.Damaged {
			return nil, nil, errDamaged
		}
		var n noticeRecord
		if err := json.Unmarshal(it.Value, &n); err != nil {
			return nil, nil, err
		}
		seqs[i] = noticeSeq(it.Key)
		out[i] = n.shown(b, a, seqs[i], base)
	}
	return out, seqs, nil
}

// Inbox gives a page of an agent's notifications, oldest first.
func (e *Engine) Inbox(ctx context.Context, c Caller, id, agent string, q InboxQuery) (InboxPage, error) {
	b, a, err := e.readAgent(ctx, c, id, agent)
	if err != nil {
		return InboxPage{}, err
	}
	limit, _, err := Page{Limit: q.Limit}.decode()
	if err != nil {
		return InboxPage{}, err
	}
	after := uint64(0)
	if q.After != "" {
		if after, err = parseNumberedID(noticeIDPrefix, "after", q.After, a.Inbox); err != nil {
			return InboxPage{}, err
		}
	}
	if q.Unread {
		after = max(after, a.Acked)
	}
	items, _, err := e.notices(ctx, c.Tenant, b, a, after, limit+1, q.Base)
	if err != nil {
		return InboxPage{}, err
	}
	out := InboxPage{Items: items, Unread: a.Unread}
	if len(items) > limit {
		out.Items, out.HasMore = items[:limit], true
	}
	return out, nil
}

// AckInbox marks an agent's notifications up to one as read. One that is read already changes nothing.
func (e *Engine) AckInbox(ctx context.Context, c Caller, once Once, id, agent string, ack InboxAck) (InboxAcked, error) {
	if ack.UpTo == "" {
		return InboxAcked{}, invalidField("up_to", "required", "must be the id of a notification")
	}
	return changeBoard(ctx, e, c, once, id, false, func(t *tx, b *board) (InboxAcked, error) {
		a, err := e.boardAgent(ctx, c.Tenant, b, agent)
		if err != nil {
			return InboxAcked{}, err
		}
		upTo, err := parseNumberedID(noticeIDPrefix, "up_to", ack.UpTo, a.Inbox)
		if err != nil {
			return InboxAcked{}, err
		}
		if upTo > a.Last {
			return InboxAcked{}, invalidField("up_to", "out_of_range", "no notification of this inbox has that id yet")
		}
		if upTo > a.Acked {
			// Counted, because a purge may have left gaps.
			r, err := e.store.Read(ctx, c.Tenant, store.Query{Ranges: []store.Range{{
				From: kindNotice.Key(b.Incarnation, a.Inbox, a.Acked+1), To: kindNotice.Key(b.Incarnation, a.Inbox, upTo+1),
				KeysOnly: true}}})
			if err != nil {
				return InboxAcked{}, err
			}
			a.Acked = upTo
			a.Unread -= min(a.Unread, uint64(len(r.Ranges[0])))
		}
		return InboxAcked{UpTo: noticeID(a.Inbox, a.Acked), Unread: a.Unread},
			t.putJSON(kindBoardAgent.Key(b.Incarnation, agent), a)
	})
}

// BoardStats counts what is on a board.
func (e *Engine) BoardStats(ctx context.Context, c Caller, id string) (BoardStats, error) {
	b, err := e.readBoard(ctx, c, id)
	if err != nil {
		return BoardStats{}, err
	}
	oldest := kindEntryTime.Under(b.Incarnation)
	oldest.Limit, oldest.KeysOnly = 1, true
	newest := oldest
	newest.Reverse = true
	r, err := e.store.Read(ctx, c.Tenant, store.Query{
		Ranges: []store.Range{oldest, newest, kindBoardAgent.Under(b.Incarnation)}})
	if err != nil {
		return BoardStats{}, err
	}
	out := BoardStats{BoardID: id, Entries: b.Entries, ChatEntries: b.Chat, Agents: []BoardAgentStats{}}
	if b.Entries > 0 && len(r.Ranges[0]) > 0 && len(r.Ranges[1]) > 0 {
		first, last := entryTimeAt(r.Ranges[0][0].Key), entryTimeAt(r.Ranges[1][0].Key)
		out.OldestAt, out.NewestAt = &first, &last
	}
	agents, err := decodeAgents(r.Ranges[2])
	for _, a := range agents {
		out.Agents = append(out.Agents, BoardAgentStats{Agent: a.ID, DisplayName: a.DisplayName, Mentions: a.Mentions,
			Notifications: a.Notices, Unread: a.Unread})
	}
	return out, err
}
