// Package pgstore is the shared backend of the store port: one table in PostgreSQL, or in a relative that speaks its
// protocol, keyed by tenant and key. Several servers may stand on one database: nothing is kept in this process that
// the database does not have.
//
// A read is one statement and so sees one state. A commit is one statement too, at repeatable read, that locks or
// writes everything it rests on: a row that changed since the statement's snapshot fails it, and it is run again. A
// key that must be absent and is not written is pinned, see commit.go. Every commit leaves a token, by which one
// whose acknowledgement was lost is found, or made impossible, see token.go.
package pgstore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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
	// running bounds one attempt at a commit, which a caller's context no longer can.
	running = 30 * time.Second
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
	log         *slog.Logger
	away        atomic.Bool        // As of the last attempt: said once, not by every call.
	stop        context.CancelFunc // Of the background.
	background  sync.WaitGroup

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
	s := &Store{patience: cmp.Or(o.Patience, DefaultPatience), log: o.Logger}
	var err error
	if s.main, err = pool(ctx, o.URL, false, adjust); err != nil {
		return nil, err
	}
	if s.loose, err = pool(ctx, o.URL, true, adjust); err != nil {
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
	return s, nil
}

// pool makes the pool of one sort of keys. It connects when first used.
func pool(ctx context.Context, url string, loose bool, adjust func(*pgxpool.Config)) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(url, "pool_max_conns") {
		c.MaxConns = DefaultConns
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connecting
	}
	// A standby answers too, late and without writes: never take one by mistake.
	if c.ConnConfig.ValidateConnect == nil {
		c.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	params := c.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(params["application_name"], "mneme")
	params["default_transaction_isolation"] = "repeatable read" // commit statements look whether it came through
	// A plan made while the table was small reads all of it, and is kept when the table has grown.
	params["enable_seqscan"] = "off"
	if loose {
		c.MaxConns = max(2, c.MaxConns/4)
		params["synchronous_commit"] = "off"
	}
	adjust(c)
	return pgxpool.NewWithConfig(ctx, c)
}

func (s *Store) pool(loose bool) *pgxpool.Pool {
	if loose {
		return s.loose
	}
	return s.main
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

var errIsolation = errors.New("the database does not run commits at repeatable read: a pooler drops " +
	"default_transaction_isolation; set it for the role " +
	"(ALTER ROLE … SET default_transaction_isolation = 'repeatable read')")
