// Package engine is Mneme's domain: it keeps transcripts and decides, by running policies and proving their result,
// what a model should see. It imports the standard library and its own pure packages only.
package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"hash/crc32"
	"hash/maphash"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// PolicyHost runs policy modules. It is the only door by which a policy takes part.
type PolicyHost interface {
	// Load admits a module for a tenant, "" for one that comes with Mneme, and makes it ready to run. The error of a
	// module that may not run is a *plan.Refusal. Loading the same bytes again costs nothing.
	Load(ctx context.Context, tenant string, wasm []byte) (plan.Policy, error)
	// Loaded reports whether a module is ready to run: what was not used for long may have been unloaded.
	Loaded(digest plan.Digest) bool
	// Run makes one call. It never panics and never fails: what goes wrong is the outcome's status.
	Run(ctx context.Context, call plan.Call) plan.Outcome
}

// Tokenizer counts tokens, safe for concurrent use.
type Tokenizer interface {
	// Count counts in one encoding, by its name; CountBoth in all of Encodings, in that order.
	Count(encoding, text string) int
	CountBoth(text string) [2]uint32
}

// Analyser turns texts into the terms of the recall index, safe for concurrent use. Terms are at most 512 bytes and hold
// no zero byte.
type Analyser interface {
	// Document gives a text's terms in order, and the language that its Latin words were stemmed in, "" without any.
	Document(text string) (terms []string, latin string)
	// Query gives the words of a query that say something, with their terms in any of the languages named.
	Query(text string, languages []string) []recall.Word
}

// Encodings are the tokenizers that every stored message is counted with.
var Encodings = [2]string{"o200k_base", "cl100k_base"}

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

// BuiltIn is a policy that comes with Mneme, as bytes like any other.
type BuiltIn struct {
	Name string
	Wasm []byte
}

// Engine serves all tenants of one store. Safe for concurrent use.
type Engine struct {
	store     store.Store
	host      PolicyHost
	tokens    Tokenizer
	analyser  Analyser
	log       *slog.Logger
	clock     func() time.Time
	entropy   io.Reader
	rootKey   [32]byte
	hasRoot   bool
	maxTokens int
	spoolDir  string

	policies      *registry
	policyRecords memo[policyRecord]
	policyQuota   PolicyQuota
	memoryUse     *tallies // nil: no quota
	memoryQuota   MemoryQuota
	breaker       breaker
	alone         bool
	summariser    Summariser
	summaries     summaryQueue
	projects      memo[project]
	keys          memo[keyRecord]
	heads         memo[head]
	boards        memo[board]
	kept          known // effective records that are in the store
	hot           *hotSessions
	appends       [256]chan struct{} // striped locks: one writer per session, so that appends queue rather than retry
	seed          maphash.Seed
	scratch       sync.Pool // of *scratch
	castagnoli    *crc32.Table
	background    background
	removed       removals
	keyUses       keyUses
	messageUse    *tallies      // nil: no quota
	messageQuota  int64         // bytes
	wake          chan struct{} // a job was queued
	indexed       atomic.Uint32 // memories since the last thought of putting them into blocks
	followers     broadcast     // of boards and inboxes
	mending       sync.Mutex    // of records of recall indexes: one at a time
}

// New makes an engine over a store, loads the built-in policies and sees to it that tenant and project `default` exist.
// FirstKey is the admin key of tenant `default` where this call made the tenant, else empty.
func New(ctx context.Context, o Options) (e *Engine, firstKey string, err error) {
	e = &Engine{store: longValues(o.Store), host: o.Host, tokens: o.Tokens, analyser: o.Analyser, log: o.Logger, clock: o.Now,
		entropy: o.Random, maxTokens: o.HistoryMaxTokens, spoolDir: o.SpoolDir, wake: make(chan struct{}, 1)}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.clock == nil {
		e.clock = time.Now
	}
	if e.entropy == nil {
		e.entropy = rand.Reader
	}
	if o.RootKey != "" {
		e.rootKey, e.hasRoot = sha256.Sum256([]byte(o.RootKey)), true
	}
	if e.maxTokens == 0 {
		e.maxTokens = defaultHistoryMaxTokens
	}
	if o.HotBytes == 0 {
		o.HotBytes = 64 << 20
	}
	e.alone, e.summariser = o.Alone, o.Summariser
	e.summaries.open()
	e.policyQuota = o.Policies.orDefault()
	e.memoryUse, e.memoryQuota = e.newMemoryTallies(o.Memories), o.Memories
	e.messageUse, e.messageQuota = e.newMessageTallies(o.MessageBytes), o.MessageBytes
	e.removed.main.Store(true)
	e.removed.loose.Store(true)
	e.hot = newHotSessions(o.HotBytes)
	e.seed, e.castagnoli = maphash.MakeSeed(), crc32.MakeTable(crc32.Castagnoli)
	e.scratch.New = func() any { return new(scratch) }
	for i := range e.appends {
		e.appends[i] = make(chan struct{}, 1)
	}
	if e.policies, err = e.installBuiltIns(ctx, o.BuiltIns); err != nil {
		return nil, "", err
	}
	created, err := e.CreateTenant(ctx, Once{}, TenantSpec{ID: DefaultTenant})
	if conflict := (*Error)(nil); errors.As(err, &conflict) && conflict.Kind == Conflict {
		return e, "", nil
	}
	return e, created.AdminKey, err
}

// DefaultTenant and DefaultProject exist from the first start on.
const (
	DefaultTenant  = "default"
	DefaultProject = "default"
	DefaultSession = "dashboard"
)

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
	_, err := e.store.Read(ctx, systemTenant, store.Query{Keys: [][]byte{tenantKey(DefaultTenant)}})
	return err
}

// now is the clock in UTC at the millisecond, the precision that records keep.
func (e *Engine) now() time.Time { return e.clock().UTC().Truncate(time.Millisecond) }

// random fills b from the source of ids. That source failing leaves nothing safe to do.
func (e *Engine) random(b []byte) {
	if _, err := io.ReadFull(e.entropy, b); err != nil {
		panic("reading random bytes: " + err.Error())
	}
}

var idAlphabet = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newID makes an id of n random bytes.
func (e *Engine) newID(prefix string, n int) string {
	b := make([]byte, n)
	e.random(b)
	return prefix + idAlphabet.EncodeToString(b)
}

func (e *Engine) newIncarnation() (i incarnation) {
	e.random(i[:])
	return i
}

// validID tells whether a client may call something by this id: [A-Za-z0-9._:@-]{1,128}.
func validID(s string) bool {
	if len(s) == 0 || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("._:@-", c) >= 0:
		default:
			return false
		}
	}
	return true
}

func checkID(field, id string) error {
	if !validID(id) {
		return invalidField(field, "invalid_id", "must be 1 to 128 characters of A-Z a-z 0-9 . _ : @ -")
	}
	return nil
}
