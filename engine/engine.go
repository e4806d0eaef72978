// Package engine combines the packages of Mneme's domain. It stores transcripts, memories and boards, and decides, by
// running policies and checking their result, what a model should see.
//
// Each package below it has a Service; rules_test.go at the root of the module lists which package may import which.
// Code is in this package only if it concerns several of them: New creates them, from the bottom up; tenants.go and
// sweep.go delete data that is spread over several; jobs.go orders their background work; portable.go and verify.go
// combine their parts of a tenant's export file and their checks.
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
	"github.com/seed-0906e6bc/mneme/engine/memory/likeness"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/memory/snowball"
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
	"github.com/seed-0906e6bc/mneme/engine/window/admit"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

// Options configures an Engine.
type Options struct {
	Store    store.Store // sealed: see store.Seal
	Host     policy.Host
	Tokens   transcript.Tokenizer
	Analyser *snowball.Analyser
	BuiltIns []policy.BuiltIn

	Logger       *slog.Logger
	Alone        bool               // no other process uses the store
	Summariser   summary.Summariser // nil: no summaries are made
	Embedder     recall.Embedder    // nil: no vectors are made by a provider
	Static       recall.Static      // the static embedding model
	RootKey      string             // the operator's key; empty if there is no root key
	Defaults     *project.Settings  // for projects that set none; nil: the built-in defaults
	Upstreams    provider.Operator  // the operator's configuration of the proxy's providers
	Policies     policy.Quota       // limits each tenant's uploads
	Memories     memory.Quota       // limits each tenant's memories; 0: no limit
	MessageBytes int64              // limits each tenant's messages, in bytes; 0: no limit
	SpoolDir     string             // the folder for files during an import; empty for the system's
	HotBytes     int                // the memory for recently used sessions, in bytes; 0: 64 MiB

	Now    func() time.Time     // the clock; nil: the system's
	Uptime func() time.Duration // the running time of the process; nil: derived from Now
	Random io.Reader            // the source of ids and keys; nil: the system's
}

// Engine serves all tenants of one store. It is safe for concurrent use. The fields are the services, from the bottom
// up. A service calls those above it only through functions that New passes to it.
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

// New returns an engine for a store. It loads the built-in policies and ensures that tenant and project `default`
// exist. firstKey is the admin key of tenant `default` if this call created the tenant, and empty otherwise.
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
	e.Projects.Operator, e.Projects.HasStatic = o.Upstreams, o.Static.Model != nil
	e.Sessions = session.New(db, e.Projects, o.Tokens, o.MessageBytes)
	e.Index = index.New(db, e.Jobs, o.Analyser)
	if e.Policies, err = policy.New(ctx, db, e.Projects, o.Host, o.Policies, o.BuiltIns); err != nil {
		return nil, "", err
	}
	e.Memories = memory.New(db, e.Projects, e.Sessions, e.Index, o.Memories)
	e.Recall = recall.New(db, e.Jobs, e.Projects, e.Sessions, e.Index, e.Memories, o.Embedder,
		recall.Static{Model: o.Static.Model, Adopt: o.Static.Adopt || o.Alone})
	e.Decisions = decision.New(db, e.Projects)
	e.Catalogue = catalogue.New(e.Projects, e.Sessions, e.Recall, e.Decisions)
	e.Tail = events.New(db, e.Sessions, e.Decisions)
	e.Windows = window.New(db, e.Projects, e.Sessions, e.Policies, window.NewReminders(e.Recall, e.Memories), e.Decisions,
		cache.New(db, e.Sessions, o.HotBytes))
	e.Trials = lab.New(db, e.Projects, e.Sessions, e.Policies, e.Decisions, e.Windows)
	e.Trials.Comparer = likeness.New(o.Analyser)
	e.Summaries = summary.New(db, e.Projects, e.Sessions, e.Windows, o.Summariser)
	e.Dialogues = history.New(db, e.Projects, e.Sessions, o.HotBytes)
	e.Tools = tools.New(db, e.Projects, e.Sessions, e.Memories, e.Recall)
	e.Outbound = gateway.New(db, e.Projects, e.Sessions, e.Windows, e.Decisions)
	e.Stats = stats.New(db, e.Projects)
	e.Boards = board.New(db, e.Jobs)

	admitting := admit.New(db, e.Projects, e.Memories, e.Recall, e.Policies, likeness.New(o.Analyser))
	admitting.Count = e.Sessions.CountUntil
	admitting.Rate = func(text, query string) int { return rank.Rate(o.Analyser, text, query) }
	e.Memories.Admission = admitting

	e.Windows.Rate = func(text, query string) int { return rank.Rate(o.Analyser, text, query) }
	e.Projects.Pipelines = project.Pipelines{Check: e.Policies.CheckPipeline, BuiltIn: e.Policies.IsBuiltIn,
		Reserved: e.Policies.Reserved}
	e.Sessions.Decided, e.Sessions.PurgeDecisions = e.Decisions.Decided, e.Decisions.PurgeOf
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

// Epoch returns the timeline of the store's history: see store.Epoch.
func (e *Engine) Epoch() string { return store.Epoch(e.db.Store) }

// Figures returns the store's own metrics.
func (e *Engine) Figures() []store.Figure { return store.Figures(e.db.Store) }

// Tables returns the number of table files that the store keeps open, or false if it keeps none in this process.
func (e *Engine) Tables() (int, bool) { return store.Tables(e.db.Store) }

// AsOf returns the time by which ages are computed if it differs from the system's time, and nil otherwise: see
// records.DB.
func (e *Engine) AsOf() *time.Time { return e.db.AsOf() }

// readyTimeout is the response time after which a store counts as not ready.
const readyTimeout = 2 * time.Second

// Ready returns an error if the engine cannot serve because its store has stopped writing or does not respond. The
// error is store_damaged or too_many_open_files if the store can still be read.
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
