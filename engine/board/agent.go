package board

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// AgentSpec holds the fields of an agent that clients can set. A missing Paused leaves it unchanged.
type AgentSpec struct {
	DisplayName string `json:"display_name,omitempty"` // at most 256 bytes
	Lead        bool   `json:"lead,omitempty"`
	Paused      *bool  `json:"paused,omitempty"`
}

// Agent is an agent that a board notifies, as clients see it.
type Agent struct {
	ID          string    `json:"id"`
	BoardID     string    `json:"board_id"`
	DisplayName string    `json:"display_name"`
	Lead        bool      `json:"lead"`
	Paused      bool      `json:"paused"`
	CreatedAt   time.Time `json:"created_at"`
}

// maxAgents is the maximum number of agents of one board. One chat may notify all of them in one commit.
const maxAgents = 256

// agentRecord is an agent as it is stored, with the counts of its inbox.
type agentRecord struct {
	ID          string            `json:"id"`
	DisplayName string            `json:"display_name,omitempty"`
	Lead        bool              `json:"lead,omitempty"`
	Paused      bool              `json:"paused,omitempty"`
	Created     time.Time         `json:"created_at"`
	Inbox       ident.Incarnation `json:"inbox"`
	Last        uint64            `json:"last"`     // number of the newest notification ever
	Acked       uint64            `json:"acked"`    // all notifications up to this number are read
	Notices     uint64            `json:"notices"`  // current number of notifications
	Unread      uint64            `json:"unread"`   // how many of them are unread
	Mentions    uint64            `json:"mentions"` // how many of them are mentions
}

func (a *agentRecord) public(b *boardRecord) Agent {
	return Agent{ID: a.ID, BoardID: b.ID, DisplayName: a.DisplayName, Lead: a.Lead, Paused: a.Paused,
		CreatedAt: a.Created}
}

func (a *agentRecord) put(t *records.Tx, b *boardRecord) error {
	return t.PutJSON(records.BoardAgent.Key(b.Incarnation, a.ID), a)
}

func decodeAgents(items []store.Item) ([]*agentRecord, error) {
	out := make([]*agentRecord, len(items))
	for i, it := range items {
		if it.Damaged {
			return nil, records.ErrDamaged
		}
		if err := json.Unmarshal(it.Value, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// agents reads all agents of a board, by id.
func (svc *Service) agents(ctx context.Context, tenant string, b *boardRecord) ([]*agentRecord, error) {
	all := records.BoardAgent.Under(b.Incarnation)
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{all}})
	if err != nil {
		return nil, err
	}
	return decodeAgents(r.Ranges[0])
}

func noAgent(b *boardRecord, id string) *fault.Error {
	return fault.Errorf(fault.NotFound, "not_found", "no agent %q on board %q", id, b.ID)
}

func (svc *Service) agent(ctx context.Context, tenant string, b *boardRecord, id string) (*agentRecord, error) {
	if !ident.ValidID(id) {
		return nil, noAgent(b, id)
	}
	a, err := records.Get[agentRecord](ctx, svc.db, tenant, records.BoardAgent.Key(b.Incarnation, id))
	if err == nil && a == nil {
		return nil, noAgent(b, id)
	}
	return a, err
}

// readAgent reads a board and one of its agents.
func (svc *Service) readAgent(ctx context.Context, c ident.Caller, id, agent string) (*boardRecord, *agentRecord,
	error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return nil, nil, err
	}
	a, err := svc.agent(ctx, c.Tenant, b, agent)
	return b, a, err
}

// PutAgent creates or changes an agent of a board; created reports which. The first agent creates the board. A board
// has one lead: a new lead replaces the previous one. It returns invalid_id or too_long if the spec is invalid, and
// too_many_agents if the board has 256 of them.
func (svc *Service) PutAgent(ctx context.Context, c ident.Caller, id, agent string, spec AgentSpec) (out Agent,
	created bool, err error) {
	if err := ident.CheckID("agent", agent); err != nil {
		return out, false, err
	}
	if err := checkDisplayName(spec.DisplayName); err != nil {
		return out, false, err
	}
	put := func(t *records.Tx, b *boardRecord) (out Agent, err error) {
		agents, err := svc.agents(ctx, c.Tenant, b)
		if err != nil {
			return out, err
		}
		otherLead := func(one *agentRecord) bool { return one.ID != agent && one.Lead }
		if spec.Lead && c.Agent != "" && slices.ContainsFunc(agents, otherLead) {
			return out, fault.Errorf(fault.Forbidden, "command_refused", "an agent's key may not take the lead from another")
		}
		var a *agentRecord
		for _, other := range agents {
			if other.ID == agent {
				a = other
			} else if spec.Lead && other.Lead {
				other.Lead = false
				if err := other.put(t, b); err != nil {
					return out, err
				}
			}
		}
		if created = a == nil; created {
			if len(agents) >= maxAgents {
				return out, fault.Errorf(fault.Conflict, "too_many_agents", "a board may have at most %d agents",
					maxAgents)
			}
			a = &agentRecord{ID: agent, Created: t.Now, Inbox: svc.db.NewIncarnation()}
		}
		a.DisplayName, a.Lead = spec.DisplayName, spec.Lead
		if spec.Paused != nil {
			a.Paused = *spec.Paused
		}
		return a.public(b), a.put(t, b)
	}
	out, err = change(ctx, svc, c, ident.Once{}, id, orNew, put)
	return out, created, err
}

func checkDisplayName(name string) error {
	if len(name) > 256 {
		return fault.InvalidField("display_name", "too_long", "must be at most 256 bytes")
	}
	return nil
}

// GetAgent returns an agent of a board. It returns not_found if the board has no such agent.
func (svc *Service) GetAgent(ctx context.Context, c ident.Caller, id, agent string) (Agent, error) {
	b, a, err := svc.readAgent(ctx, c, id, agent)
	if err != nil {
		return Agent{}, err
	}
	return a.public(b), nil
}

// ListAgents pages through the agents of a board, by id. It returns out_of_range for the limit and invalid_cursor for
// the cursor.
func (svc *Service) ListAgents(ctx context.Context, c ident.Caller, id string, page records.Page) (records.List[Agent],
	error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return records.List[Agent]{}, err
	}
	return records.ListPage(ctx, svc.db, c.Tenant, records.BoardAgent.Under(b.Incarnation), page,
		func(_ []byte, a *agentRecord) (Agent, bool) { return a.public(b), true })
}

// DeleteAgent removes an agent and its inbox from a board. A job removes the notifications later. It returns not_found
// if the board has no such agent.
func (svc *Service) DeleteAgent(ctx context.Context, c ident.Caller, id, agent string) error {
	_, err := change(ctx, svc, c, ident.Once{}, id, existing, func(t *records.Tx, b *boardRecord) (struct{}, error) {
		a, err := svc.agent(ctx, c.Tenant, b, agent)
		if err != nil {
			return struct{}{}, err
		}
		t.Delete(records.BoardAgent.Key(b.Incarnation, agent))
		t.Put(records.InboxJob.Key(b.Incarnation, a.Inbox), []byte{0})
		detail := fmt.Sprintf("%d notifications", a.Notices)
		return struct{}{}, tenant.Audit(t, c, "board.agent_delete", url.PathEscape(id)+"/"+url.PathEscape(agent), detail)
	})
	svc.jobs.Poke(c.Tenant)
	return err
}
