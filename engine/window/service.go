// Package window decides what a model should see next. For each request, consider selects candidate messages, tabulate
// makes a table of them, decide runs the pipeline's policies on the table and checks the result, and render writes the
// window in the requested format. The decision is stored before the window is returned.
//
// A window depends only on its inputs. All inputs are fields of one struct, including the time and the random seed, so
// a replay fills in the inputs from a stored decision and runs the same code. Renderings and token counts of a
// session's messages are cached (see package cache), but the window is the same, byte for byte, without the cache.
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

// Service makes windows, and recomputes those of stored decisions.
type Service struct {
	db        *records.DB
	projects  *project.Service
	sessions  *session.Service
	policies  *policy.Service
	reminders *Reminders
	decisions *decision.Service
	views     *cache.Service

	// Counts counts the windows that were stored as decisions.
	Counts prompt.Counts

	scratch sync.Pool // of *scratch
	readied policy.Readied
	tools   tokens.Memo

	// Rate returns how well a text answers a query, from 0 to plan.MaxScore. It must depend on nothing else.
	Rate func(text, query string) int
	// WantSummary requests a summary for a window, and may wait for it. It reports whether the session has a new
	// summary afterwards. If it is nil, no summaries are made.
	WantSummary func(ctx context.Context, w SummaryWish) (changed bool)
	// Answered is called for each window that was returned and stored, with the time it took.
	Answered func(tenant string, pinc ident.Incarnation, r *decision.Record, left decision.LeftOut, took time.Duration)
}

// New returns a Service. The caller must set Rate, and may set WantSummary and Answered.
func New(db *records.DB, projects *project.Service, sessions *session.Service, policies *policy.Service,
	memories *Reminders, decisions *decision.Service, views *cache.Service) *Service {
	svc := &Service{db: db, projects: projects, sessions: sessions, policies: policies, reminders: memories,
		decisions: decisions, views: views}
	svc.scratch.New = func() any { return new(scratch) }
	return svc
}
