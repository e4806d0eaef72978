package board

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Stats are the counts of a board.
type Stats struct {
	BoardID     string       `json:"board_id"`
	Entries     uint64       `json:"entries"`
	ChatEntries uint64       `json:"chat_entries"`
	Values      int          `json:"values"`
	OldestAt    *time.Time   `json:"oldest_at"` // nil if the board has no entries, like NewestAt
	NewestAt    *time.Time   `json:"newest_at"`
	Agents      []AgentStats `json:"agents"` // by id
}

// AgentStats are the counts of an agent's notifications.
type AgentStats struct {
	Agent         string `json:"agent"`
	DisplayName   string `json:"display_name"`
	Mentions      uint64 `json:"mentions"`
	Notifications uint64 `json:"notifications"`
	Unread        uint64 `json:"unread"`
}

// Stats returns the counts of a board and of the current notifications of each of its agents.
func (svc *Service) Stats(ctx context.Context, c ident.Caller, id string) (Stats, error) {
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
	out := Stats{BoardID: id, Entries: b.Entries, ChatEntries: b.Chat, Values: b.Values, Agents: []AgentStats{}}
	if b.Entries > 0 && len(r.Ranges[0]) > 0 {
		_, first, _, _ := records.EntryTime.Split(r.Ranges[0][0].Key)
		_, last, _, _ := records.EntryTime.Split(r.Ranges[1][0].Key)
		out.OldestAt, out.NewestAt = &first, &last
	}
	agents, err := decodeAgents(r.Ranges[2])
	for _, a := range agents {
		out.Agents = append(out.Agents, AgentStats{Agent: a.ID, DisplayName: a.DisplayName, Mentions: a.Mentions,
			Notifications: a.Notices, Unread: a.Unread})
	}
	return out, err
}
