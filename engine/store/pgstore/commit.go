package pgstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// A commit is one transaction of two statements, sent in one round trip. The first locks the keys that the commit
// names, the second checks and writes. It runs at read committed, so that the second statement sees the writes of the
// previous holders of the locks.
//
// The locks are PostgreSQL's advisory locks: exclusive for a key that is written, shared for one that is only
// expected. They are kept in memory. Row locks would be written to the rows, and a row that many commits share, such
// as a project's, would need a new multixact for each commit; multixacts have 32-bit numbers and must be vacuumed. A
// key need not exist to be locked, so a key that must be absent is locked like any other.
//
// Locks are taken in the order of their numbers, so that two commits cannot deadlock. A number is a hash of tenant
// and key: two keys with the same number only wait unnecessarily.
//
// Rows are looked up one by one by their whole key (LATERAL … LIMIT 1), so that a plan that was made and cached while
// the table was small does not read much of it after it has grown.

// mostLocks limits the locks of one commit, because PostgreSQL's default is 64 per connection. A commit with more
// keys locks its whole tenant exclusively instead. All other commits take a shared lock on their tenant.
const mostLocks = 48

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if err := b.Check(tenant); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	c := newCommit(tenant, b)
	if !c.writes() && len(c.expect) == 0 {
		return nil
	}
	if b.IsLoose() {
		return s.retry(ctx, func() error { return s.attempt(ctx, s.loose, c) })
	}
	return s.retry(ctx, s.inTurn(ctx, func() error { return s.attempt(ctx, s.main, c) }))
}

// inTurn makes an attempt wait for one of the places for synced commits.
func (s *Store) inTurn(ctx context.Context, attempt func() error) func() error {
	return func() error {
		waiting := time.NewTimer(acquiring)
		defer waiting.Stop()
		select {
		case s.commits <- struct{}{}:
			defer func() { <-s.commits }()
			return attempt()
		case <-ctx.Done():
			return ctx.Err()
		case <-waiting.C:
			return errBusy
		}
	}
}

// Confirm returns once a synchronous standby has all data that was read before: it makes a commit after all others
// and waits for it. It returns store.ErrUnknown if that is not acknowledged in time.
func (s *Store) Confirm(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	err := s.retry(ctx, s.inTurn(ctx, func() error {
		_, err := s.burn(ctx, s.reading, nil, newToken())
		return err
	}))
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return err
}

// errBusy is returned for a commit that was not started because too many others are running.
var errBusy = errors.New("all connections for commits are busy")

// attempt tries to commit once. Once it has a connection, it ends with a known outcome or store.ErrUnknown. If the
// database acknowledged with a warning, or turns out to be a former primary, the commit may be lost after a failover,
// so its outcome is queried as if the acknowledgement were lost.
func (s *Store) attempt(ctx context.Context, pool *pgxpool.Pool, c *commit) error {
	conn, err := acquire(ctx, pool)
	if err != nil {
		return err
	}
	t := newToken()
	link := linkOf(conn)
	link.warned = false
	run, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.running)
	broken, err := c.run(run, conn, t)
	cancel()
	sure := err == nil && !link.warned && !s.former(link)
	conn.Release() // closes the connection if it is not in its initial state
	switch {
	case sure && broken > 0:
		return &store.ConflictError{Index: broken - 1}
	case sure:
		if c.writes() && pool == s.main {
			s.acknowledged()
		}
		return nil
	case err == nil && (broken > 0 || !c.writes()):
		return errFormer
	case err != nil && (undone(err) || !c.writes()):
		return err
	}
	s.dropDead(err)
	happened, err := s.settle(ctx, c.tenant, t)
	if err == nil && !happened {
		err = errLost
	}
	return err
}

// commit is a batch in the form of its statements' arguments.
type commit struct {
	tenant       []byte
	expect       []store.Expect
	keys, values [][]byte // to be put
	delete       [][]byte
	locks        []int64 // in ascending order
	alone        []bool  // which of the locks are exclusive
}

func newCommit(tenant string, b store.Batch) *commit {
	c := &commit{tenant: []byte(tenant), expect: b.Expect}
	rows := make([]store.Pair, len(b.Put))
	for i, p := range b.Put {
		rows[i] = store.Pair{Key: orEmpty(p.Key), Value: orEmpty(p.Value)}
	}
	slices.SortFunc(rows, func(p, q store.Pair) int { return bytes.Compare(p.Key, q.Key) })
	for _, p := range rows {
		c.keys, c.values = append(c.keys, p.Key), append(c.values, p.Value)
	}
	for _, key := range b.Delete {
		c.delete = append(c.delete, orEmpty(key))
	}
	c.lock()
	return c
}

func (c *commit) writes() bool { return len(c.keys)+len(c.delete) > 0 }

// lock computes the locks of the commit.
func (c *commit) lock() {
	alone := map[int64]bool{}
	for _, e := range c.expect {
		alone[lockOf(c.tenant, e.Key)] = false
	}
	for _, keys := range [][][]byte{c.keys, c.delete} {
		for _, key := range keys {
			alone[lockOf(c.tenant, key)] = true
		}
	}
	whole := lockOf(c.tenant, nil)
	if len(alone) > mostLocks {
		alone = map[int64]bool{whole: true}
	} else if !alone[whole] { // the empty key shares it
		alone[whole] = false
	}
	c.locks = slices.Sorted(maps.Keys(alone))
	for _, n := range c.locks {
		c.alone = append(c.alone, alone[n])
	}
}

// lockOf returns the number of a key's lock, or that of its tenant's lock if the key is empty.
func lockOf(tenant, key []byte) int64 {
	h := sha256.New()
	_, _ = h.Write([]byte{byte(len(tenant))}) // separates tenant and key; one byte suffices for MaxTenant
	_, _ = h.Write(tenant)
	_, _ = h.Write(key)
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}

const lockKeys = `SELECT CASE WHEN l.alone THEN pg_advisory_xact_lock(l.n) ELSE pg_advisory_xact_lock_shared(l.n) END
	FROM unnest($1::bigint[], $2::boolean[]) AS l (n, alone)`

// run returns 0 if the commit succeeded, or the number, from 1, of the first precondition that did not hold.
func (c *commit) run(ctx context.Context, conn *pgxpool.Conn, t token) (broken int, err error) {
	s := c.statement(t)
	// The transaction is begun and ended explicitly, because not every database that is compatible with PostgreSQL
	// runs statements that are sent together in one transaction.
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	b.Queue(lockKeys, c.locks, c.alone)
	b.Queue(s.text.String(), s.args...)
	b.Queue("COMMIT")
	if broken, err = results(conn.SendBatch(ctx, b)); err != nil && undone(err) {
		rollback(ctx, conn)
	}
	return broken, err
}

// results reads the results of a commit's statements and returns the first error. Later errors say nothing about the
// outcome of the commit.
func results(sent pgx.BatchResults) (broken int, err error) {
	_, err = sent.Exec()
	if err == nil {
		_, err = sent.Exec()
	}
	if err == nil {
		err = sent.QueryRow().Scan(&broken)
	}
	if err == nil {
		_, err = sent.Exec()
	}
	closed := sent.Close()
	if err == nil {
		err = closed
	}
	return broken, err
}

// rollback makes the connection usable again. If that fails, the pool closes it.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}

// statement checks and writes. Its text only depends on which parts it has.
func (c *commit) statement(t token) *statement {
	s := &statement{}
	of := s.arg("bytea", c.tenant)
	c.check(s, of)
	if c.writes() {
		s.add(",\ntoken AS (INSERT INTO mneme_commits (tenant, token, burnt) SELECT ", of, ", ", s.arg("bytea", t[:]),
			", false FROM verdict WHERE i = 0)")
	}
	if len(c.keys) > 0 {
		s.add(",\nput AS (INSERT INTO mneme_records (tenant, key, value) SELECT ", of,
			", p.key, p.value FROM verdict, unnest(",
			s.arg("bytea[]", c.keys), ", ", s.arg("bytea[]", c.values), ") AS p (key, value) WHERE i = 0",
			" ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value)")
	}
	if len(c.delete) > 0 {
		s.add(",\ngone AS (DELETE FROM mneme_records WHERE tenant = ", of, " AND key = ANY(",
			s.arg("bytea[]", c.delete), ") AND (SELECT i FROM verdict) = 0)")
	}
	s.add("\nSELECT i FROM verdict")
	return s
}

// check adds the part that finds the first precondition that does not hold. In it, an absent row has the value NULL,
// as does the expectation of an absent row.
func (c *commit) check(s *statement, of string) {
	first := "0"
	if len(c.expect) > 0 {
		keys, values := make([][]byte, len(c.expect)), make([][]byte, len(c.expect))
		for i, e := range c.expect {
			keys[i], values[i] = orEmpty(e.Key), e.Value
		}
		first = "coalesce((SELECT min(k.i) FROM unnest(" + s.arg("bytea[]", keys) + ", " + s.arg("bytea[]", values) +
			") WITH ORDINALITY AS k (key, value, i) LEFT JOIN " + lookUp(of, "value") +
			" AS r ON true WHERE r.value IS DISTINCT FROM k.value), 0)"
	}
	s.add("WITH verdict AS MATERIALIZED (SELECT ", first, " AS i)")
}
