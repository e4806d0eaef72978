// Package engine puts the rooms of Mneme's domain together: it keeps transcripts, memories and boards, and decides, by
// running policies and proving their result, what a model should see.
//
// Each package below it is a room with a Service of its own, and rules_test.go in the root of the module says which
// room may use which. What stands here names several rooms at once: New makes them, from the bottom up; tenants.go and
// sweep.go delete what lies in several of them; jobs.go puts their background work in order; portable.go and verify.go
// do so with their parts of a tenant's file and their checks.
package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/gateway"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/catalogue"
	"github.com/seed-0906e6bc/mneme/engine/insight/events"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/insight/stats"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

// Options are what an Engine is made of.
type Options struct {
	Store    store.Store // sealed: see store.Seal
	Host     policy.Host
	Tokens   transcript.Tokenizer
	Analyser index.Analyser
	BuiltIns []policy.BuiltIn

	Logger       *slog.Logger
	Alone        bool               // no other process works on the store
	Summariser   summary.Summariser // nil: no summaries are made
	Embedder     recall.Embedder    // nil: no vectors are made
	RootKey      string             // the operator's key; empty: nobody is root
	Defaults     *project.Settings  // of projects that set none; nil: those that Mneme comes with
	Upstreams    provider.Operator  // what the operator says of the providers that the proxy calls
	Policies     policy.Quota       // what each tenant may upload
	Memories     memory.Quota       // what each tenant may keep of memories; 0: no bound
	MessageBytes int64              // what the messages of each tenant may take; 0: no bound
	SpoolDir     string             // the folder for files that are being imported; empty: the system's
	HotBytes     int                // what recently used sessions may take in memory; 0: 64 MiB

	Now    func() time.Time     // the clock; nil: the system's
	Uptime func() time.Duration // how long the process runs; nil: as the clock says
	Random io.Reader            // the source of ids and keys; nil: the system's
}

// Engine serves all tenants of one store. Safe for concurrent use. Each field is a room, from the bottom up. A room
// reaches those above it only through functions that New gives it.
type Engine struct {
	db        *records.DB
	quotas    Quotas
	Jobs      *jobs.Service
	Transfer  *transfer.Service
	Tenants   *tenant.Service
	Projects  *project.Service
	Sessions  *session.Service
	Index     *index.Service
	Policies  *policy.Service
	Memories  *memory.Service
	Recall    *recall.Service
	Decisions *decision.Service
	Catalogue *catalogue.Service
	Tail      *events.Service
	Windows   *window.Service
	Trials    *lab.Service
	Summaries *summary.Service
	Dialogues *history.Service
	Tools     *tools.Service
	Outbound  *gateway.Service
	Stats     *stats.Service
	Boards    *board.Service
}

// New makes an engine over a store, loads the built-in policies and makes sure of tenant and project `default`.
// firstKey is the admin key of tenant `default` where this call made the tenant, and empty otherwise.
func New(ctx context.Context, o Options) (e *Engine, firstKey string, err error) {
	db := records.New(o.Store, o.Logger, o.Now, o.Random, o.Alone)
	if o.Uptime != nil {
		db.MeasureBy(o.Uptime)
	}
	if err := db.LoadClock(ctx); err != nil {
		return nil, "", err
	}
	e = &Engine{db: db, quotas: quotasOf(&o), Jobs: jobs.New(db, tenant.Living), Transfer: transfer.New(db, o.SpoolDir),
		Tenants: tenant.New(db, o.RootKey), Projects: project.New(db, o.Defaults)}
	e.Projects.Operator = o.Upstreams
	e.Sessions = session.New(db, e.Projects, o.Tokens, o.MessageBytes)
	e.Index = index.New(db, e.Jobs, o.Analyser)
	if e.Policies, err = policy.New(ctx, db, e.Projects, o.Host, o.Policies, o.BuiltIns); err != nil {
		return nil, "", err
	}
	e.Memories = memory.New(db, e.Projects, e.Index, o.Memories)
	e.Recall = recall.New(db, e.Jobs, e.Projects, e.Sessions, e.Index, e.Memories, o.Embedder)
	e.Decisions = decision.New(db, e.Projects)
	e.Catalogue = catalogue.New(e.Projects, e.Sessions, e.Recall, e.Decisions)
	e.Tail = events.New(db, e.Sessions, e.Decisions)
	e.Windows = window.New(db, e.Projects, e.Sessions, e.Policies, window.NewReminders(e.Recall, e.Memories), e.Decisions,
		cache.New(db, e.Sessions, o.HotBytes))
	e.Trials = lab.New(db, e.Projects, e.Sessions, e.Policies, e.Decisions, e.Windows)
	e.Summaries = summary.New(db, e.Projects, e.Sessions, e.Windows, o.Summariser)
	e.Dialogues = history.New(db, e.Projects, e.Sessions, o.HotBytes)
	e.Tools = tools.New(db, e.Projects, e.Memories, e.Recall)
	e.Outbound = gateway.New(db, e.Projects, e.Sessions, e.Windows, e.Decisions)
	e.Stats = stats.New(db, e.Projects)
	e.Boards = board.New(db, e.Jobs)

	e.Windows.Rate = func(text, query string) int { return rank.Rate(o.Analyser, text, query) }
	e.Projects.Pipelines = project.Pipelines{Check: e.Policies.CheckPipeline, BuiltIn: e.Policies.IsBuiltIn,
		Reserved: e.Policies.Reserved}
	e.Sessions.Decided = e.Decisions.Decided
	e.Policies.Prove = e.Trials.SelfTests
	e.Index.Sources = map[byte]index.Source{records.RecallMemories: e.Memories.Index,
		records.RecallTranscript: e.Recall.IndexTranscripts}
	if o.Summariser != nil {
		e.Windows.WantSummary = e.Summaries.MakeWanted
	}
	e.setCounts()
	e.setJobs()

	if o.Defaults != nil {
		if err := e.Projects.CheckDefaults(ctx); err != nil {
			return nil, "", err
		}
	}
	created, err := e.CreateTenant(ctx, ident.Once{}, tenant.Spec{ID: ident.DefaultTenant})
	if known, ok := errors.AsType[*fault.Error](err); ok && known.Kind == fault.Conflict {
		return e, "", nil
	}
	return e, created.AdminKey, err
}

// Epoch names the stretch of its history that the store reads: see store.Epoch.
func (e *Engine) Epoch() string { return store.Epoch(e.db.Store) }

// Figures are what the store tells of itself.
func (e *Engine) Figures() []store.Figure { return store.Figures(e.db.Store) }

// AsOf is the time by which things are old, where it is not the system's: see records.DB. It is nil otherwise.
func (e *Engine) AsOf() *time.Time { return e.db.AsOf() }

// readyTimeout is how long the store may take to answer before the server counts as not ready.
const readyTimeout = 2 * time.Second

// Ready returns an error if the engine cannot serve: its store has stopped writing, or does not answer. The error is
// store_damaged or too_many_open_files while only reads go on.
func (e *Engine) Ready(ctx context.Context) error {
	if f, ok := e.db.Store.(interface{ Failed() error }); ok {
		if err := f.Failed(); err != nil {
			if errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrNoDescriptors) {
				return records.Worded(err)
			}
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	_, err := e.db.ReadItem(ctx, records.SystemTenant, records.Tenant.Key(ident.DefaultTenant))
	return err
}
