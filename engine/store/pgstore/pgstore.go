// Package pgstore implements store.Store for several servers: one table in PostgreSQL, or in a database that speaks
// its protocol, keyed by tenant and key. Several servers may use one database, because this process keeps no state
// that the database does not have.
//
// A read is one statement and so sees one state. A commit is one transaction and one round trip; commits that wait
// share one, as do reads of keys: see fold.go and lookup.go. What keeps transactions from interfering depends on the
// database: see guard.go. Every synced commit leaves a token. With it, a commit whose acknowledgement was lost is
// found, or prevented: see token.go. Each connection knows which timeline of the database it reads, so that no answer
// of a former primary is used: see epoch.go. A check of the database every two seconds finds problems while there are
// no calls: see watch.go.
package pgstore

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// DefaultConns is the number of connections for reads and synced commits if the URL has no pool_max_conns. Loose
	// commits have a separate pool with a quarter of that number, at least two.
	DefaultConns = 16
	// DefaultPatience is how long a call waits for a database that is unreachable or contended.
	DefaultPatience = 5 * time.Second
)

const (
	// connecting is the timeout for connecting to one host if the URL has no connect_timeout.
	connecting = 3 * time.Second
	// acquiring is the timeout for getting a connection, and before that for being taken out of a queue.
	acquiring = 5 * time.Second
	// reading is the timeout of one attempt at a read.
	reading = 10 * time.Second
	// running is the timeout of one attempt at a commit, which no longer depends on the caller's context.
	running = 15 * time.Second
	// starting is how many times the patience of a call Open has, because servers and database often start together.
	starting = 6
	// settling is how many times the patience of a call is spent on finding out how a commit ended.
	settling = 6
)

// Options configures a store. Only URL is required.
type Options struct {
	// URL is a PostgreSQL connection string: postgres://user:password@host1,host2/database?sslmode=verify-full…
	URL string
	// Patience is how long a call waits for a database that is unreachable or contended; 0 means DefaultPatience.
	Patience time.Duration
	// Logger is the store's log; nil discards it.
	Logger *slog.Logger
}

// Store implements store.Store. Use Open to create one.
type Store struct {
	main, loose *pgxpool.Pool
	patience    time.Duration
	// These default to the constants of their names.
	acquiring, reading, running time.Duration

	log        *slog.Logger
	now        func() time.Time
	stop       context.CancelFunc // ends the background work
	background sync.WaitGroup

	guard                 guard
	commits, looseCommits *queue[*attempt]
	lookups               *queue[*lookup]
	// burns has a place for each token that may be written to settle a commit. Reads use connections that neither
	// these nor commits use, so that they continue while both wait for a standby.
	burns chan struct{}

	// The last known state of the database.
	epoch   atomic.Pointer[epoch]
	away    atomic.Bool               // as of the last attempt; logged once, not by every call
	failure atomic.Pointer[error]     // why it accepts no commits, as of the last check
	synced  atomic.Pointer[time.Time] // when a synced commit was last acknowledged, independent of clock changes
	skew    atomic.Int64              // how far this machine's clock is ahead, in ns
	far     atomic.Bool               // a large skew was logged
	count   counters

	// life is held by every running call, so that Close waits for it.
	life   sync.RWMutex
	closed bool
}

var _ store.Store = (*Store)(nil)

// Check returns an error for an invalid connection string. The error does not contain its password.
func Check(url string) error {
	_, err := pgxpool.ParseConfig(url)
	return err // pgx has removed the password
}

// Open connects to a database and creates or checks its tables. It waits for a database that is starting.
func Open(ctx context.Context, o Options) (*Store, error) {
	return open(ctx, o, func(*pgxpool.Config) {})
}

// open is Open with a function that lets tests change the configuration.
func open(ctx context.Context, o Options, adjust func(*pgxpool.Config)) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{patience: cmp.Or(o.Patience, DefaultPatience), acquiring: acquiring, reading: reading, running: running,
		log: o.Logger, now: time.Now}
	var err error
	if s.main, err = s.pool(ctx, o.URL, false, adjust); err != nil {
		return nil, err
	}
	if s.loose, err = s.pool(ctx, o.URL, true, adjust); err != nil {
		s.main.Close()
		return nil, err
	}
	s.startQueues()
	if err := s.prepare(ctx); err != nil {
		s.main.Close()
		s.loose.Close()
		return nil, err
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.background.Go(func() { s.forgetTokens(background) })
	s.background.Go(func() { s.watch(background) })
	return s, nil
}

// The usual and the maximum numbers of workers, if there are connections for them. More would share less.
const (
	usualWorkers = 2
	mostWorkers  = 4
)

// startQueues makes the queues. Synced commits use at most half of the connections, and a quarter settles commits.
func (s *Store) startQueues() {
	conns := int(s.main.Config().MaxConns)
	most := max(1, min(mostWorkers, conns/2))
	usual := min(usualWorkers, most)
	s.burns = make(chan struct{}, max(1, conns/4))
	s.commits = s.commitQueue(s.main, usual, most)
	s.looseCommits = s.commitQueue(s.loose, 1, 1)
	s.lookups = &queue[*lookup]{usual: usual, most: most, patience: s.acquiring, together: joinable, work: s.lookUp}
}

// enter starts a call, which must call leave at its end. It returns ErrClosed after Close.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return store.ErrClosed
	}
	return nil
}

func (s *Store) leave() { s.life.RUnlock() }

// Close implements store.Store.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.stop()
	s.background.Wait()
	s.main.Close()
	s.loose.Close()
	return nil
}
