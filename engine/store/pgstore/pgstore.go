// Package pgstore is the shared backend of the store port: one table in PostgreSQL, or in a relative that speaks its
// protocol, keyed by tenant and key. Several servers may stand on one database: nothing is kept in this process that
// the database does not have.
//
// A read is one statement and so sees one state. A commit is one transaction and one round trip, which locks the keys
// that it names before it looks at them, see commit.go. Every commit leaves a token, by which one whose acknowledgement
// was lost is found, or made impossible, see token.go. Each connection knows which timeline of the database it reads,
// so that nothing is taken from a former primary, see epoch.go; a look at the database every two seconds finds what is
// wrong while nobody asks, see watch.go.
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
	// DefaultConns is how many connections serve reads and synced commits where the URL has no pool_max_conns. Loose
	// commits have a quarter of that number for themselves, at least two.
	DefaultConns = 16
	// DefaultPatience is how long a call waits for a database that is away or contended.
	DefaultPatience = 5 * time.Second
)

const (
	// connecting bounds the attempt to reach one host where the URL has no connect_timeout.
	connecting = 3 * time.Second
	// acquiring bounds the wait for a connection.
	acquiring = 5 * time.Second
	// reading bounds one attempt at a read.
	reading = 10 * time.Second
	// running bounds one attempt at a commit, which a caller's context no longer can.
	running = 15 * time.Second
	// starting is how many times the patience of a call Open has, because servers and database often start together.
	starting = 6
	// settling is how many times the patience of a call goes into finding out how a commit ended.
	settling = 6
)

// Options say where a store is. Only URL is required.
type Options struct {
	// URL is a connection string of PostgreSQL's: postgres://user:password@host1,host2/database?sslmode=verify-full…
	URL string
	// Patience bounds how long a call waits for a database that is away or contended; 0 means DefaultPatience.
	Patience time.Duration
	// Logger takes the store's log; nil discards it.
	Logger *slog.Logger
}

// Store implements store.Store. Make one with Open.
type Store struct {
	main, loose *pgxpool.Pool
	patience    time.Duration
	// reading and running are as the constants.
	reading, running time.Duration
	log              *slog.Logger
	now              func() time.Time
	stop             context.CancelFunc // Of the background.
	background       sync.WaitGroup

	// commits has a place for each synced commit that may run. Reads have the connections beside those, so that they go
	// on where commits wait for a standby.
	commits chan struct{}

	// What was last found out about the database.
	epoch   atomic.Pointer[epoch]
	away    atomic.Bool               // As of the last attempt: said once, not by every call.
	failure atomic.Pointer[error]     // Why it takes no commits, as of the last look.
	synced  atomic.Pointer[time.Time] // When a synced commit was acknowledged last. A clock set back does not move it.
	skew    atomic.Int64              // How far this machine's clock is ahead, in ns.
	far     atomic.Bool               // It was said that this is far.
	count   counters

	// life is held by every running call, so that Close waits for it.
	life   sync.RWMutex
	closed bool
}

var _ store.Store = (*Store)(nil)

// Check tells what is wrong with a connection string, without its password.
func Check(url string) error {
	_, err := pgxpool.ParseConfig(url)
	return err // which pgx has rid of the password
}

// Open connects to a database and makes or checks the tables in it. It waits for a database that is starting.
func Open(ctx context.Context, o Options) (*Store, error) {
	return open(ctx, o, func(*pgxpool.Config) {})
}

// open is Open with a function that lets tests change the configuration.
func open(ctx context.Context, o Options, adjust func(*pgxpool.Config)) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{patience: cmp.Or(o.Patience, DefaultPatience), reading: reading, running: running,
		log: o.Logger, now: time.Now}
	var err error
	if s.main, err = s.pool(ctx, o.URL, false, adjust); err != nil {
		return nil, err
	}
	s.commits = make(chan struct{}, max(1, s.main.Config().MaxConns*3/4))
	if s.loose, err = s.pool(ctx, o.URL, true, adjust); err != nil {
		s.main.Close()
		return nil, err
	}
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

// enter begins a call, which must call leave at its end. It answers ErrClosed after Close.
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
