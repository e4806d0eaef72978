// Package engine is Mneme's domain: it keeps transcripts and decides, by running policies and proving their result,
// what a model should see. It imports the standard library and its own pure packages only.
package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Options are what an Engine is made of.
type Options struct {
	Store    store.Store // sealed: see store.Seal
	Host     PolicyHost
	Tokens   Tokenizer
	Analyser Analyser
	BuiltIns []BuiltIn
	Logger   *slog.Logger
	// Alone says that no other process works on the store.
	Alone bool
	// Summariser makes summaries; nil: none are made.
	Summariser Summariser
	// RootKey is the operator's key; empty: nobody is root.
	RootKey string
	// HistoryMaxTokens is the default of the setting of that name; 0: 8000.
	HistoryMaxTokens int
	// Policies bounds what each tenant may upload.
	Policies PolicyQuota
	// Memories bounds what each tenant may keep of memories; 0: no bound.
	Memories MemoryQuota
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

// Engine serves all tenants of one store. Safe for concurrent use. Its fields stand by room, from the bottom.
type Engine struct {
	// records
	store     store.Store
	log       *slog.Logger
	clock     func() time.Time
	entropy   io.Reader
	alone     bool // no other process works on the store
	locks     *locks
	removed   removals
	committed func(tenant string, b store.Batch) // called after each commit

	// jobs
	background    background
	wake          chan struct{} // a job was queued
	units         []unit        // of every tenant, and of the system space
	dailies       []daily
	systemDailies []daily
	livingTenant  func(record []byte) (id string, err error)

	// transfer
	spoolDir string

	// tenant
	rootKey [32]byte
	hasRoot bool
	keys    memo[keyRecord]
	keyUses keyUses

	// project
	maxTokens int
	projects  memo[project]
	pipelines pipelines

	// session
	tokens       Tokenizer
	heads        memo[head]
	messageUse   *tallies // nil: no quota
	messageQuota int64    // bytes

	// index
	analyser Analyser
	indexed  atomic.Uint32   // memories since the last thought of putting them into blocks
	sources  map[byte]source // of the spaces of recall indexes

	// policy
	host          PolicyHost
	policies      *registry
	policyRecords memo[policyRecord]
	policyQuota   PolicyQuota
	breaker       breaker
	prove         func(ctx context.Context, tenant string, p plan.Policy) (plan.Check, error)

	// memory
	memoryUse   *tallies // nil: no quota
	memoryQuota MemoryQuota

	// window
	hot          *hotSessions
	scratch      sync.Pool // of *scratch
	readied      readied
	writtenToday writtenToday
	wantSummary  func(ctx context.Context, w summaryWish) (changed bool)

	// summary
	summariser Summariser
	summaries  summaryQueue

	// board
	boards    memo[board]
	followers broadcast // of boards and inboxes
}

// New makes an engine over a store, loads the built-in policies and sees to it that tenant and project `default` exist.
// FirstKey is the admin key of tenant `default` where this call made the tenant, else empty.
func New(ctx context.Context, o Options) (e *Engine, firstKey string, err error) {
	e = &Engine{spoolDir: o.SpoolDir, analyser: o.Analyser}
	e.openRecords(o.Store, o.Logger, o.Now, o.Random, o.Alone)
	e.openJobs()
	e.committed = e.queueWork
	e.openTenants(o.RootKey)
	e.openProjects(o.HistoryMaxTokens, pipelines{check: e.checkPipeline, builtIn: e.isBuiltIn})
	e.openSessions(o.Tokens, o.MessageBytes)
	e.sources = map[byte]source{recallMemories: e.indexMemories, recallTranscript: e.indexTranscripts}
	e.openMemories(o.Memories)
	if err := e.openPolicies(ctx, o.Host, o.Policies, o.BuiltIns); err != nil {
		return nil, "", err
	}
	e.prove = e.selfTests
	e.openWindows(o.HotBytes)
	e.openSummaries(o.Summariser)
	if o.Summariser != nil {
		e.wantSummary = e.makeWanted
	}
	created, err := e.CreateTenant(ctx, Once{}, TenantSpec{ID: DefaultTenant})
	if conflict := (*Error)(nil); errors.As(err, &conflict) && conflict.Kind == Conflict {
		return e, "", nil
	}
	return e, created.AdminKey, err
}

// readyTimeout is how long the store may take to answer before the server counts as not ready.
const readyTimeout = 2 * time.Second

// Ready tells why the engine cannot serve, or nil.
func (e *Engine) Ready(ctx context.Context) error {
	if f, ok := e.store.(interface{ Failed() error }); ok {
		if err := f.Failed(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	_, err := e.store.Read(ctx, systemTenant, store.Query{Keys: [][]byte{kindTenant.Key(DefaultTenant)}})
	return err
}
