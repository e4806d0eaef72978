package pgstore

import (
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// counters are a store's own counters.
type counters struct {
	retries, resets, turnovers, swept atomic.Int64
	happened, not, unknown            atomic.Int64 // commits whose acknowledgement was lost, by outcome
	folds, commits                    atomic.Int64 // acknowledged transactions, and the commits in them
}

func (c *counters) settled(happened bool) {
	if happened {
		c.happened.Add(1)
	} else {
		c.not.Add(1)
	}
}

// Figures returns metrics of the store and its database.
func (s *Store) Figures() []store.Figure {
	var out []store.Figure
	add := func(counter bool, name, help string, value float64, label ...string) {
		f := store.Figure{Name: "mneme_store_" + name, Help: help, Counter: counter, Value: value}
		for i := 0; i < len(label); i += 2 {
			f.Labels = append(f.Labels, [2]string{label[i], label[i+1]})
		}
		out = append(out, f)
	}
	for _, p := range []struct {
		name string
		*pgxpool.Stat
	}{{"synced", s.main.Stat()}, {"loose", s.loose.Stat()}} {
		const connections = "Connections to the database, by pool and state."
		add(false, "connections", connections, float64(p.AcquiredConns()), "pool", p.name, "state", "busy")
		add(false, "connections", connections, float64(p.IdleConns()), "pool", p.name, "state", "idle")
		add(false, "connections", connections, float64(p.ConstructingConns()), "pool", p.name, "state", "connecting")
		add(false, "connections_max", "The most connections that a pool opens.", float64(p.MaxConns()), "pool", p.name)
		add(true, "connects_total", "Connections that were made.", float64(p.NewConnsCount()), "pool", p.name)
		add(true, "waits_total", "Calls that waited for a connection, because all were busy.",
			float64(p.EmptyAcquireCount()), "pool", p.name)
		add(true, "wait_seconds_total", "How long calls waited for a connection.", p.EmptyAcquireWaitTime().Seconds(),
			"pool", p.name)
	}
	const waiting = "Commits and reads of keys that wait to share a round trip, by queue."
	add(false, "waiting", waiting, float64(s.commits.length()), "queue", "synced")
	add(false, "waiting", waiting, float64(s.looseCommits.length()), "queue", "loose")
	add(false, "waiting", waiting, float64(s.lookups.length()), "queue", "reads")
	add(true, "commits_total", "Commits that the database acknowledged.", float64(s.count.commits.Load()))
	add(true, "commit_transactions_total", "Transactions that these commits shared.", float64(s.count.folds.Load()))
	add(true, "retries_total", "Attempts at a call behind its first.", float64(s.count.retries.Load()))
	const settled = "Commits whose acknowledgement was lost, by what was found out about them."
	add(true, "commits_settled_total", settled, float64(s.count.happened.Load()), "outcome", "committed")
	add(true, "commits_settled_total", settled, float64(s.count.not.Load()), "outcome", "not_committed")
	add(true, "commits_settled_total", settled, float64(s.count.unknown.Load()), "outcome", "unknown")
	add(true, "tokens_swept_total", "Tokens of old commits that were removed.", float64(s.count.swept.Load()))
	add(true, "connection_resets_total", "Times that all connections were dropped, because one got no answer or led "+
		"to a former primary.", float64(s.count.resets.Load()))
	add(true, "timeline_changes_total", "Times that the database was found on another timeline.",
		float64(s.count.turnovers.Load()))
	if e := s.epoch.Load(); e != nil {
		add(false, "timeline", "The database's timeline.", float64(e.timeline))
	}
	add(false, "clock_ahead_seconds", "How far this machine's clock is ahead of the database's.",
		time.Duration(s.skew.Load()).Seconds())
	taken := 1.0
	if s.Failed() != nil {
		taken = 0
	}
	add(false, "takes_commits", "1 where the database acknowledges commits, as of the last look, else 0.", taken)
	return out
}
