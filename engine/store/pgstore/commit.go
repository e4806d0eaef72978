package pgstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// A commit runs at repeatable read and holds, from its snapshot to its end, everything it rests on:
//   - a key that it writes: updating, deleting or making what changed since the snapshot fails. That holds only for the
//     very statement that fits what was expected: an upsert makes a row anew that was deleted since, and says nothing;
//   - a key that it only expects, with a value: the row is locked, which fails likewise, and waits for no reader;
//   - a key that must be absent at the end (only expected absent, or deleted where nothing stands): there is no row to
//     lock, so one is put there, a pin, and taken away in the same transaction. Whoever writes that key meanwhile
//     waits for it, or makes it fail.
//
// So what the commit saw at its snapshot still stands when it ends, and it counts as done at either moment.

// Commit implements store.Store: one statement, or where keys must be pinned one transaction, and one round trip.
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
	pool := s.pool(b.IsLoose())
	return s.retry(ctx, func() error { return s.attempt(ctx, pool, c) })
}

// attempt is one try at a commit. Once it has a connection it ends with a known outcome or store.ErrUnknown.
func (s *Store) attempt(ctx context.Context, pool *pgxpool.Pool, c *commit) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	t := newToken()
	run, cancel := context.WithTimeout(context.WithoutCancel(ctx), running)
	broken, err := c.run(run, conn, t)
	cancel()
	conn.Release() // which closes it where it is not as it was
	switch {
	case err == nil && broken == isolationBroken:
		return errIsolation
	case err == nil && broken > 0:
		return &store.ConflictError{Index: broken - 1}
	case err == nil || undone(err) || !c.writes():
		return err
	}
	happened, err := s.settle(ctx, c.tenant, t)
	if err == nil && !happened {
		err = errLost
	}
	return err
}

// isolationBroken is answered in place of a precondition's number where the transaction is not of the kind asked for.
const isolationBroken = -1

// commit is a batch laid out for its statement.
type commit struct {
	tenant         []byte
	expect         []store.Expect
	share, compare [][]byte // Expected keys: those only expected, to be locked; those written as well.
	change, put    pairs    // To be written where a value is expected, and elsewhere. A pin's value is nil.
	delete         [][]byte
	pins           bool // Some keys must be absent at the end.
}

// pairs are keys and their values, in the order of the keys, so that two commits rarely wait for each other in a
// circle.
type pairs struct{ keys, values [][]byte }

func (p *pairs) add(key, value []byte) {
	p.keys, p.values = append(p.keys, key), append(p.values, value)
}

func newCommit(tenant string, b store.Batch) *commit {
	c := &commit{tenant: []byte(tenant), expect: b.Expect}
	put := make([]store.Pair, len(b.Put), len(b.Put)+len(b.Expect))
	written := make(map[string]bool, len(b.Put)+len(b.Delete))
	present := make(map[string]bool, len(b.Expect))
	for i, p := range b.Put {
		put[i] = store.Pair{Key: orEmpty(p.Key), Value: orEmpty(p.Value)}
		written[string(p.Key)] = true
	}
	for _, key := range b.Delete {
		c.delete = append(c.delete, orEmpty(key))
		written[string(key)] = true
	}
	writes := len(written) > 0
	c.pins = len(c.delete) > 0
	for _, e := range b.Expect {
		key := orEmpty(e.Key)
		if e.Value != nil {
			present[string(key)] = true
		}
		if e.Value != nil && writes && !written[string(key)] {
			c.share = append(c.share, key)
			continue
		}
		c.compare = append(c.compare, key)
		if writes && !written[string(key)] {
			put, c.pins = append(put, store.Pair{Key: key}), true
			written[string(key)] = true // pinned once
		}
	}
	slices.SortFunc(put, func(p, q store.Pair) int { return bytes.Compare(p.Key, q.Key) })
	for _, p := range put {
		if present[string(p.Key)] {
			c.change.add(p.Key, p.Value)
		} else {
			c.put.add(p.Key, p.Value)
		}
	}
	return c
}

func (c *commit) writes() bool { return len(c.change.keys)+len(c.put.keys)+len(c.delete) > 0 }

// run answers 0 where the commit was made, the number from 1 of the first precondition that did not hold, or
// isolationBroken.
func (c *commit) run(ctx context.Context, conn *pgxpool.Conn, t token) (broken int, err error) {
	s := c.statement(t)
	if !c.pins {
		err = conn.QueryRow(ctx, s.text.String(), s.args...).Scan(&broken)
		return broken, err
	}
	// Sent all at once. Explicit, because not every relative takes statements sent together for one transaction.
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ")
	b.Queue(s.text.String(), s.args...).QueryRow(func(row pgx.Row) error { return row.Scan(&broken) })
	b.Queue("DELETE FROM mneme_records WHERE tenant = $1::bytea AND key = ANY($2::bytea[]) AND value IS NULL",
		c.tenant, c.absent())
	b.Queue("COMMIT")
	if err = conn.SendBatch(ctx, b).Close(); err != nil && undone(err) {
		rollback(ctx, conn)
	}
	return broken, err
}

// absent are the keys that may have been pinned.
func (c *commit) absent() [][]byte {
	keys := slices.Clone(c.delete)
	for i, value := range c.put.values {
		if value == nil {
			keys = append(keys, c.put.keys[i])
		}
	}
	return keys
}

// rollback makes the connection usable again. Where it cannot, the pool closes it.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}

// statement checks and writes. Its text depends only on which parts there are.
func (c *commit) statement(t token) *statement {
	s := &statement{}
	of := s.arg("bytea", c.tenant)
	failed := "0"
	if len(c.expect) > 0 {
		c.check(s, of)
		failed = "coalesce((SELECT i FROM broken), 0)"
	}
	s.add(with(s), "verdict AS MATERIALIZED (SELECT CASE WHEN current_setting('transaction_isolation') IN ",
		"('repeatable read', 'serializable') THEN ", failed, " ELSE -1 END AS i)")
	if c.writes() {
		s.add(",\ntoken AS (INSERT INTO mneme_commits (tenant, token, burnt) SELECT ", of, ", ", s.arg("bytea", t[:]),
			", false FROM verdict WHERE i = 0)")
	}
	if len(c.change.keys) > 0 {
		keys := s.arg("bytea[]", c.change.keys)
		s.add(",\nchange AS (UPDATE mneme_records AS r SET value = p.value FROM verdict, unnest(", keys, ", ",
			s.arg("bytea[]", c.change.values), ") AS p (key, value) WHERE i = 0 AND r.tenant = ", of, " AND r.key = ANY(", keys,
			") AND r.key = p.key)")
	}
	if len(c.put.keys) > 0 {
		s.add(",\nput AS (INSERT INTO mneme_records (tenant, key, value) SELECT ", of, ", p.key, p.value FROM verdict, unnest(",
			s.arg("bytea[]", c.put.keys), ", ", s.arg("bytea[]", c.put.values), ") AS p (key, value) WHERE i = 0",
			" ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value)")
	}
	if len(c.delete) > 0 {
		gone := s.arg("bytea[]", c.delete)
		s.add(",\ngone AS (DELETE FROM mneme_records WHERE tenant = ", of, " AND key = ANY(", gone,
			") AND (SELECT i FROM verdict) = 0),\npin AS (INSERT INTO mneme_records (tenant, key, value) SELECT ", of,
			", p.key, NULL FROM verdict, unnest(", gone, ") AS p (key) WHERE i = 0 AND NOT EXISTS (SELECT 1 FROM mneme_records r",
			" WHERE r.tenant = ", of, " AND r.key = p.key) ON CONFLICT (tenant, key) DO NOTHING)")
	}
	s.add("\nSELECT i FROM verdict")
	return s
}

// check adds the parts that find the first precondition that does not hold. An absent row's value is NULL there, as
// is the one expected of it.
func (c *commit) check(s *statement, of string) {
	keys, values := make([][]byte, len(c.expect)), make([][]byte, len(c.expect))
	for i, e := range c.expect {
		keys[i], values[i] = orEmpty(e.Key), e.Value
	}
	var seen, union string
	if len(c.share) > 0 {
		s.add(with(s), "stable AS MATERIALIZED (SELECT key, value FROM mneme_records WHERE tenant = ", of, " AND key = ANY(",
			s.arg("bytea[]", c.share), ") ORDER BY key FOR SHARE),\n")
		seen, union = "SELECT key, value FROM stable", " UNION ALL "
	}
	if len(c.compare) > 0 {
		seen += union + "SELECT key, value FROM mneme_records WHERE tenant = " + of + " AND key = ANY(" +
			s.arg("bytea[]", c.compare) + ")"
	}
	s.add(with(s), "broken AS MATERIALIZED (SELECT min(e.i) AS i FROM unnest(", s.arg("bytea[]", keys), ", ",
		s.arg("bytea[]", values), ") WITH ORDINALITY AS e (key, value, i) LEFT JOIN (", seen,
		") AS s ON s.key = e.key WHERE s.value IS DISTINCT FROM e.value),\n")
}

// with opens the list of parts where none is there yet.
func with(s *statement) string {
	if s.text.Len() == 0 {
		return "WITH "
	}
	return ""
}
