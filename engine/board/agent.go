package board

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// maxBoardAgents bounds the agents of one board: one chat may notify them all, in one commit.
const maxBoardAgents = 256

// agentRecord is an agent of a board and the head of its inbox.
type agentRecord struct {
	ID          string            `json:"id"`
	DisplayName string            `json:"display_name,omitempty"`
	Lead        bool              `json:"lead,omitempty"`
	Paused      bool              `json:"paused,omitempty"`
	Created     time.Time         `json:"created_at"`
	Inbox       ident.Incarnation `json:"inbox"`
	Last        uint64            `json:"last"`     // number of the newest notification there ever was
	Acked       uint64            `json:"acked"`    // up to here all are read
	Notices     uint64            `json:"notices"`  // there now
	Unread      uint64            `json:"unread"`   // of them
	Mentions    uint64            `json:"mentions"` // of them
}

func (a *agentRecord) shown(b *Record) Agent {
	return Agent{ID: a.ID, BoardID: b.ID, DisplayName: a.DisplayName, Lead: a.Lead, Paused: a.Paused,
		CreatedAt: a.Created}
}

func decodeAgents(items []store.Item) ([]*agentRecord, error) {
	out := make([]*agentRecord, len(items))
	for i, it := range items {
		if it.Damaged {
			return nil, records.ErrDamaged
		}
		out[i] = new(agentRecord)
		if err := json.Unmarshal(it.Value, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// agents reads all agents of a board, by id.
func (svc *Service) agents(ctx context.Context, tenant string, b *Record) ([]*agentRecord, error) {
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{records.BoardAgent.Under(b.Incarnation)}})
	if err != nil {
		return nil, err
	}
	return decodeAgents(r.Ranges[0])
}

func (svc *Service) agent(ctx context.Context, tenant string, b *Record, id string) (*agentRecord, error) {
	missing := fault.Errorf(fault.NotFound, "not_found", "no agent %q on board %q", id, b.ID)
	if !ident.ValidID(id) {
		return nil, missing
	}
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{records.BoardAgent.Key(b.Incarnation, id)}})
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
func (svc *Service) readAgent(ctx context.Context, c access.Caller, id, agent string) (*Record, *agentRecord, error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return nil, nil, err
	}
	a, err := svc.agent(ctx, c.Tenant, b, agent)
	return b, a, err
}

// PutAgent makes an agent of a board or changes what is said of it. A board has one lead: a new one takes the
// place of the last. The first agent makes the board.
func (svc *Service) PutAgent(ctx context.Context, c access.Caller, id, agent string, spec AgentSpec) (out Agent,
	created bool, err error) {
	if err := ident.CheckID("agent", agent); err != nil {
		return out, false, err
	}
	if err := checkDisplayName(spec.DisplayName); err != nil {
		return out, false, err
	}
	out, err = change(ctx, svc, c, access.Once{}, id, true, func(t *records.Tx, b *Record) (Agent, error) {
		agents, err := svc.agents(ctx, c.Tenant, b)
		if err != nil {
			return Agent{}, err
		}
		var a *agentRecord
		for _, other := range agents {
			switch {
			case other.ID == agent:
				a = other
			case spec.Lead && other.Lead:
				other.Lead = false
				if err := t.PutJSON(records.BoardAgent.Key(b.Incarnation, other.ID), other); err != nil {
					return Agent{}, err
				}
			}
		}
		if created = a == nil; created {
			if len(agents) >= maxBoardAgents {
				return Agent{}, fault.Errorf(fault.Conflict, "too_many_agents", "a board may have at most %d agents", maxBoardAgents)
			}
			a = &agentRecord{ID: agent, Created: t.Now, Inbox: svc.db.NewIncarnation()}
		}
		a.DisplayName, a.Lead = spec.DisplayName, spec.Lead
		if spec.Paused != nil {
			a.Paused = *spec.Paused
		}
		return a.shown(b), t.PutJSON(records.BoardAgent.Key(b.Incarnation, agent), a)
	})
	return out, created, err
}

// GetAgent describes an agent of a board.
func (svc *Service) GetAgent(ctx context.Context, c access.Caller, id, agent string) (Agent, error) {
	b, a, err := svc.readAgent(ctx, c, id, agent)
	if err != nil {
		return Agent{}, err
	}
	return a.shown(b), nil
}

// ListAgents pages through the agents of a board, by id.
func (svc *Service) ListAgents(ctx context.Context, c access.Caller, id string, page records.Page) (records.List[Agent], error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return records.List[Agent]{}, err
	}
	return records.ListPage(ctx, svc.db, c.Tenant, records.BoardAgent.Under(b.Incarnation), page,
		func(_ []byte, a *agentRecord) (Agent, bool) { return a.shown(b), true })
}

// DeleteAgent removes an agent from a board, with its inbox.
func (svc *Service) DeleteAgent(ctx context.Context, c access.Caller, id, agent string) error {
	_, err := change(ctx, svc, c, access.Once{}, id, false, func(t *records.Tx, b *Record) (struct{}, error) {
		a, err := svc.agent(ctx, c.Tenant, b, agent)
		if err != nil {
			return struct{}{}, err
		}
		t.Delete(records.BoardAgent.Key(b.Incarnation, agent))
		t.Put(records.InboxJob.Key(b.Incarnation, a.Inbox), []byte{0})
		return struct{}{}, tenant.Audit(t, c, "board.agent_delete", id+"/"+agent, fmt.Sprintf("%d notifications", a.Notices))
	})
	svc.jobs.Poke(c.Tenant)
	return err
}

// notices reads notifications behind a number, oldest first.
func (svc *Service) notices(ctx context.Context, tenant string, b *Record, a *agentRecord, after uint64, limit int,
	base string) ([]Notification, []uint64, error) {
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{{
		From:  records.Notice.Key(b.Incarnation, a.Inbox, after+1),
		To:    records.Notice.Key(b.Incarnation, a.Inbox, a.Last+1),
		Limit: limit,
	}}})
	if err != nil {
		return nil, nil, err
	}
	out, seqs := make([]Notification, len(r.Ranges[0])), make([]uint64, len(r.Ranges[0]))
	for i, it := range r.Ranges[0] {
		if it.Damaged {
			return nil, nil, records.ErrDamaged
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
func (svc *Service) Inbox(ctx context.Context, c access.Caller, id, agent string, q InboxQuery) (InboxPage, error) {
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
		if after, err = parseNumberedID(noticeIDPrefix, "after", q.After, a.Inbox); err != nil {
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

// AckInbox marks an agent's notifications up to one as read. One that is read already changes nothing.
func (svc *Service) AckInbox(ctx context.Context, c access.Caller, once access.Once, id, agent string, ack InboxAck) (InboxAcked, error) {
	if ack.UpTo == "" {
		return InboxAcked{}, fault.InvalidField("up_to", "required", "must be the id of a notification")
	}
	return change(ctx, svc, c, once, id, false, func(t *records.Tx, b *Record) (InboxAcked, error) {
		a, err := svc.agent(ctx, c.Tenant, b, agent)
		if err != nil {
			return InboxAcked{}, err
		}
		upTo, err := parseNumberedID(noticeIDPrefix, "up_to", ack.UpTo, a.Inbox)
		if err != nil {
			return InboxAcked{}, err
		}
		if upTo > a.Last {
			return InboxAcked{}, fault.InvalidField("up_to", "out_of_range", "no notification of this inbox has that id yet")
		}
		if upTo > a.Acked {
			// Counted, because a purge may have left gaps.
			r, err := svc.db.Store.Read(ctx, c.Tenant, store.Query{Ranges: []store.Range{{
				From: records.Notice.Key(b.Incarnation, a.Inbox, a.Acked+1), To: records.Notice.Key(b.Incarnation, a.Inbox, upTo+1),
				KeysOnly: true}}})
			if err != nil {
				return InboxAcked{}, err
			}
			a.Acked = upTo
			a.Unread -= min(a.Unread, uint64(len(r.Ranges[0])))
		}
		return InboxAcked{UpTo: noticeID(a.Inbox, a.Acked), Unread: a.Unread},
			t.PutJSON(records.BoardAgent.Key(b.Incarnation, agent), a)
	})
}

// Stats counts what is on a board.
func (svc *Service) Stats(ctx context.Context, c access.Caller, id string) (Stats, error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return Stats{}, err
	}
	oldest := records.EntryTime.Under(b.Incarnation)
	oldest.Limit, oldest.KeysOnly = 1, true
	newest := oldest
	newest.Reverse = true
	r, err := svc.db.Store.Read(ctx, c.Tenant, store.Query{
		Ranges: []store.Range{oldest, newest, records.BoardAgent.Under(b.Incarnation)}})
	if err != nil {
		return Stats{}, err
	}
	out := Stats{BoardID: id, Entries: b.Entries, ChatEntries: b.Chat, Agents: []AgentStats{}}
	if b.Entries > 0 && len(r.Ranges[0]) > 0 && len(r.Ranges[1]) > 0 {
		first, last := entryTimeAt(r.Ranges[0][0].Key), entryTimeAt(r.Ranges[1][0].Key)
		out.OldestAt, out.NewestAt = &first, &last
	}
	agents, err := decodeAgents(r.Ranges[2])
	for _, a := range agents {
		out.Agents = append(out.Agents, AgentStats{Agent: a.ID, DisplayName: a.DisplayName, Mentions: a.Mentions,
			Notifications: a.Notices, Unread: a.Unread})
	}
	return out, err
}
