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
//   - a row that it expects is locked, or deleted, which fails where the row has changed since the snapshot. An upsert
//     alone would not: it makes a row anew that was deleted since, and says nothing;
//   - a key that must be absent and is written: making a row where one was made since fails;
//   - a key that must be absent at the end (only expected absent, or deleted where nothing stands): there is no row to
//     lock, so one is put there, a pin, and taken away in the same transaction. Whoever writes that key meanwhile
//     waits for it, or makes it fail.
//
// So what the commit saw at its snapshot still stands when it ends, and it counts as done at either moment.
//
// Rows are looked up one by one by their whole key (LATERAL … LIMIT 1), so that no plan made while the table was
// small, and kept, reads much of it when it has grown.

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

// commit is a batch as its statement takes it.
type commit struct {
	tenant        []byte
	expect        []store.Expect
	share, change [][]byte // Keys that hold what is expected: those only expected, and those put as well.
	keys, values  [][]byte // To be put; a pin's value is nil.
	delete        [][]byte
	pins          bool // Some keys must be absent at the end.
}

func newCommit(tenant string, b store.Batch) *commit {
	c := &commit{tenant: []byte(tenant), expect: b.Expect}
	rows := make([]store.Pair, len(b.Put), len(b.Put)+len(b.Expect))
	put, deleted := make(map[string]bool, len(b.Put)), make(map[string]bool, len(b.Delete))
	for i, p := range b.Put {
		rows[i] = store.Pair{Key: orEmpty(p.Key), Value: orEmpty(p.Value)}
		put[string(p.Key)] = true
	}
	for _, key := range b.Delete {
		c.delete = append(c.delete, orEmpty(key))
		deleted[string(key)] = true
	}
	c.pins = len(c.delete) > 0
	for _, e := range b.Expect {
		switch key := orEmpty(e.Key); {
		case len(rows)+len(c.delete) == 0, deleted[string(key)]:
		case e.Value != nil && put[string(key)]:
			c.change = append(c.change, key)
		case e.Value != nil:
			c.share = append(c.share, key)
		case !put[string(key)]:
			rows, c.pins = append(rows, store.Pair{Key: key}), true
			put[string(key)] = true // pinned once
		}
	}
	// Rows are locked in the order of their keys, so that two commits rarely wait for each other in a circle.
	slices.SortFunc(c.change, bytes.Compare)
	slices.SortFunc(c.share, bytes.Compare)
	slices.SortFunc(rows, func(p, q store.Pair) int { return bytes.Compare(p.Key, q.Key) })
	for _, p := range rows {
		c.keys, c.values = append(c.keys, p.Key), append(c.values, p.Value)
	}
	return c
}

func (c *commit) writes() bool { return len(c.keys)+len(c.delete) > 0 }

// run answers 0 where the commit was made, the number from 1 of the first precondition that did not hold, or
// isolationBroken.
func (c *commit) run(ctx context.Context, conn *pgxpool.Conn, t token) (broken int, err error) {
	s := c.statement(t)
	if !c.pins {
		err = conn.QueryRow(ctx, s.text.String(), s.args...).Scan(&broken)
		return broken, err
	}
	// All is sent at once. It begins and ends the transaction explicitly, because not every relative of PostgreSQL
	// takes statements that are sent together for one transaction.
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
	for i, value := range c.values {
		if value == nil {
			keys = append(keys, c.keys[i])
		}
	}
	return keys
}

// rollback makes the connection usable again. Where that fails, the pool closes it.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}

// statement checks and writes. Its text depends only on which parts there are.
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
		gone := s.arg("bytea[]", c.delete)
		s.add(",\ngone AS (DELETE FROM mneme_records WHERE tenant = ", of, " AND key = ANY(", gone,
			") AND (SELECT i FROM verdict) = 0),\npin AS (INSERT INTO mneme_records (tenant, key, value) SELECT ", of,
			", k.key, NULL FROM verdict, unnest(", gone, ") AS k (key) LEFT JOIN ", lookUp(of, "1 AS found"),
			" AS r ON true WHERE i = 0 AND r.found IS NULL ON CONFLICT (tenant, key) DO NOTHING)")
	}
	s.add("\nSELECT i FROM verdict")
	return s
}

// check adds the parts that lock what must not change and find the first precondition that does not hold. An absent
// row's value is NULL there, as is the one expected of it.
func (c *commit) check(s *statement, of string) {
	s.add("WITH ")
	locks := ""
	for _, l := range []struct {
		name, mode string
		keys       [][]byte
	}{{"shared", " FOR SHARE", c.share}, {"changed", " FOR UPDATE", c.change}} {
		if len(l.keys) > 0 {
			s.add(l.name, " AS MATERIALIZED (SELECT r.found FROM unnest(", s.arg("bytea[]", l.keys), ") AS k (key), ",
				lookUp(of, "1 AS found", l.mode), " AS r),\n")
			locks += " AND (SELECT count(*) FROM " + l.name + ") >= 0" // or it would not run
		}
	}
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
	s.add("verdict AS MATERIALIZED (SELECT CASE WHEN current_setting('transaction_isolation') IN ",
		"('repeatable read', 'serializable')", locks, " THEN ", first, " ELSE -1 END AS i)")
}
