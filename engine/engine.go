// Package engine is Mneme's domain: it keeps transcripts and decides, by running policies and proving their result,
// what a model should see. It imports the standard library and its own pure packages only.
package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/decision"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/index"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/summary"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tools"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
	"github.com/seed-0906e6bc/mneme/engine/trial"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// Options are what an Engine is made of.
type Options struct {
	Store    store.Store // sealed: see store.Seal
	Host     policy.Host
	Tokens   transcript.Tokenizer
	Analyser index.Analyser
	BuiltIns []policy.BuiltIn
	Logger   *slog.Logger
	// Alone says that no other process works on the store.
	Alone bool
	// Summariser makes summaries; nil: none are made.
	Summariser summary.Summariser
	// RootKey is the operator's key; empty: nobody is root.
	RootKey string
	// HistoryMaxTokens is the default of the setting of that name; 0: 8000.
	HistoryMaxTokens int
	// Policies bounds what each tenant may upload.
	Policies policy.Quota
	// Memories bounds what each tenant may keep of memories; 0: no bound.
	Memories memory.Quota
	// SpoolDir takes the files that imports keep for their time; empty: the system's.
	SpoolDir string
	// MessageBytes bounds what the messages of each tenant may take, in bytes; 0: no bound.
	MessageBytes int64
	// HotBytes bounds the memory for recently used sessions; 0: 64 MiB.
	HotBytes int
	// Now and Random are the clock and the source of ids; nil: the system's.
	Now    func() time.Time
	Random io.Reader
}

// Engine serves all tenants of one store. Safe for concurrent use. It only puts the rooms together: each field is a room,
// from the bottom up, and a room reaches those above it through what New gives it.
type Engine struct {
	db        *records.DB
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
	Windows   *window.Service
	Trials    *trial.Service
	Summaries *summary.Service
	Tools     *tools.Service
	Boards    *board.Service
}

// New makes an engine over a store, loads the built-in policies and sees to it that tenant and project `default` exist.
// FirstKey is the admin key of tenant `default` where this call made the tenant, else empty.
func New(ctx context.Context, o Options) (e *Engine, firstKey string, err error) {
	db := records.New(o.Store, o.Logger, o.Now, o.Random, o.Alone)
	e = &Engine{db: db, Jobs: jobs.New(db, tenant.Living), Transfer: transfer.New(db, o.SpoolDir),
		Tenants: tenant.New(db, o.RootKey), Projects: project.New(db, o.HistoryMaxTokens)}
	e.Sessions = session.New(db, e.Projects, o.Tokens, o.MessageBytes)
	e.Index = index.New(db, e.Jobs, o.Analyser)
	if e.Policies, err = policy.New(ctx, db, e.Projects, o.Host, o.Policies, o.BuiltIns); err != nil {
		return nil, "", err
	}
	e.Memories = memory.New(db, e.Projects, e.Index, o.Memories)
	e.Recall = recall.New(db, e.Jobs, e.Projects, e.Sessions, e.Index, e.Memories)
	e.Decisions = decision.New(db, e.Projects)
	e.Windows = window.New(db, e.Projects, e.Sessions, e.Policies, e.Memories, e.Recall, e.Decisions, o.HotBytes)
	e.Trials = trial.New(db, e.Projects, e.Sessions, e.Policies, e.Windows)
	e.Summaries = summary.New(db, e.Projects, e.Sessions, e.Windows, o.Summariser)
	e.Tools = tools.New(db, e.Projects, e.Memories, e.Recall)
	e.Boards = board.New(db, e.Jobs)

	e.Projects.Pipelines = project.Pipelines{Check: e.Policies.CheckPipeline, BuiltIn: e.Policies.IsBuiltIn}
	e.Policies.Prove = e.Trials.SelfTests
	e.Index.Sources = map[byte]index.Source{records.RecallMemories: e.Memories.Index,
		records.RecallTranscript: e.Recall.IndexTranscripts}
	if o.Summariser != nil {
		e.Windows.WantSummary = e.Summaries.MakeWanted
	}
	e.setJobs()

	created, err := e.CreateTenant(ctx, access.Once{}, tenant.Spec{ID: ident.DefaultTenant})
	if conflict := (*fault.Error)(nil); errors.As(err, &conflict) && conflict.Kind == fault.Conflict {
		return e, "", nil
	}
	return e, created.AdminKey, err
}

// readyTimeout is how long the store may take to answer before the server counts as not ready.
const readyTimeout = 2 * time.Second

// Ready tells why the engine cannot serve, or nil.
func (e *Engine) Ready(ctx context.Context) error {
	if f, ok := e.db.Store.(interface{ Failed() error }); ok {
		if err := f.Failed(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	_, err := e.db.Store.Read(ctx, records.SystemTenant, store.Query{Keys: [][]byte{records.Tenant.Key(ident.DefaultTenant)}})
	return err
}
