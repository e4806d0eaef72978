// Package window decides what a model should see now. A request for a window goes through it in this order: consider
// picks the messages that are looked at, tabulate makes a table of them, run has the pipeline's policies change the
// table and proves the result against the law, render writes it in the format asked for, and the decision behind it is
// kept before the window is answered.
//
// The hard idea is that a window follows from its inputs alone. All inputs are fields of one struct, clock and
// randomness among them, so a replay fills in the inputs of a stored decision and runs the same code. What was made of
// a session's messages before is remembered (see package view), but a window is the same, byte for byte, without it.
package window

import (
	"context"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"

	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
)

// Service makes windows, and makes those of stored decisions again.
type Service struct {
	db        *records.DB
	projects  *project.Service
	sessions  *session.Service
	policies  *policy.Service
	recollect *Reminders
	decisions *decision.Service
	views     *cache.Service

	// Counts are of the windows that were kept.
	Counts prompt.Counts

	scratch sync.Pool // of *scratch
	readied policy.Readied
	tools   tokens.Memo

	// Rate says how well a text answers a query, from 0 to plan.MaxScore, by the two alone.
	Rate func(text, query string) int
	// WantSummary is told of the summary that a window would like to have, and may wait for it. It tells whether the
	// session has another summary by then. Nil: no summaries are made.
	WantSummary func(ctx context.Context, w SummaryWish) (changed bool)
	// Answered is told of each window that was answered and kept, and of how long it took.
	Answered func(tenant string, pinc ident.Incarnation, r *decision.Record, left decision.LeftOut, took time.Duration)
}

// New makes the room. Whoever makes the rooms sets Rate, WantSummary and Answered.
func New(db *records.DB, projects *project.Service, sessions *session.Service, policies *policy.Service,
	memories *Reminders, decisions *decision.Service, views *cache.Service) *Service {
	svc := &Service{db: db, projects: projects, sessions: sessions, policies: policies, recollect: memories,
		decisions: decisions, views: views}
	svc.scratch.New = func() any { return new(scratch) }
	return svc
}
