package pgstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// A fold is one or several commits in one transaction, which is sent in one round trip. Most of what a small commit
// costs a database is spent on the transaction and its statements, so commits that wait share them. The statements are
// plain ones: lock the keys, check the preconditions, delete, put, write the tokens.
//
// A fold with a broken precondition is undone: the commits that have one end with a conflict, and the others are
// committed again. If the database refuses a fold of several commits for another reason, each is committed alone.

// The limits of a fold.
const (
	mostFolded = 16      // commits
	mostLocks  = 128     // PostgreSQL has room for 64 per connection by default
	mostBytes  = 4 << 20 // of keys and values
)

const lockKeys = `SELECT CASE WHEN l.alone THEN pg_advisory_xact_lock(l.n) ELSE pg_advisory_xact_lock_shared(l.n) END
	FROM unnest($1::bigint[], $2::boolean[]) AS l (n, alone)`

// An absent row has the value NULL, as does the expectation of an absent row.
const expected = ` FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) WITH ORDINALITY AS k (tenant, key, value, i)
	LEFT JOIN ` + lookUp + ` AS r ON true WHERE r.value IS DISTINCT FROM k.value`

const (
	// checkExpected fails with divisionByZero if a precondition does not hold.
	checkExpected = `SELECT 1 / (count(*) = 0)::int` + expected
	// findBroken returns the numbers, from 1, of the preconditions that do not hold.
	findBroken = `SELECT k.i` + expected + ` ORDER BY k.i`

	// deleteRecords finds the rows like expected, and not by a join with the keys or a list of them: such plans read
	// all of a tenant if they were made while it was small. Nothing moves a row that the guard keeps for the fold.
	deleteRecords = `DELETE FROM mneme_records WHERE ctid = ANY (ARRAY(
	SELECT r.ctid FROM unnest($1::bytea[], $2::bytea[]) AS k (tenant, key), ` + lookUpRow + ` AS r))`
	putRecords = `INSERT INTO mneme_records (tenant, key, value)
	SELECT p.tenant, p.key, p.value FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) AS p (tenant, key, value)
	ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value`
	writeTokens = `INSERT INTO mneme_commits (token, burnt) SELECT t, false FROM unnest($1::bytea[]) AS u (t)`
)

// foldable returns how many of the first attempts fit into one fold. Two that name the same key do not if one of them
// writes it, so that each checks the state that the one before it left.
func foldable(waiting []*attempt) int {
	if waiting[0].single() {
		return 1
	}
	held := map[int64]bool{}
	size := 0
	for i, a := range waiting {
		if i == mostFolded || a.single() || i > 0 && size+a.size > mostBytes || !share(held, a.locks) {
			return i
		}
		size += a.size
	}
	return len(waiting)
}

// share adds the locks of a commit to those of a fold. It returns false, with held unchanged, if they do not fit.
func share(held map[int64]bool, locks []lock) bool {
	more := 0
	for _, l := range locks {
		alone, ok := held[l.n]
		if alone || ok && l.alone {
			return false
		}
		if !ok {
			more++
		}
	}
	if len(held)+more > mostLocks {
		return false
	}
	for _, l := range locks {
		held[l.n] = l.alone
	}
	return true
}

// fold commits attempts in one transaction and answers each of them.
func (s *Store) fold(q *queue[*attempt], pool *pgxpool.Pool, all []*attempt) {
	outcomes, err := s.commit(pool, all)
	if outcomes != nil { // of the commits that have one
		left := all[:0:0]
		for i, a := range all {
			if outcomes[i] == nil {
				left = append(left, a)
			} else {
				a.done <- outcomes[i]
			}
		}
		q.again(left)
		return
	}
	if len(all) > 1 && undone(err) {
		for _, a := range all {
			a.alone = true
		}
		q.again(all)
		return
	}
	s.dropDead(err)
	for _, a := range all {
		a.done <- err
	}
}

// errUnsure is returned for a fold that was sent and whose outcome is not known.
var errUnsure = errors.New("the outcome of a commit is not known")

// commit returns no error if all commits of the fold happened. Else none did, unless the error is errUnsure. The
// database may acknowledge a fold with a warning, or turn out to be a former primary: then the fold may be lost after a
// failover, and its outcome is unsure as if the acknowledgement were lost. If preconditions did not hold, the result is
// a conflict for each commit that has one, and nil for the others.
func (s *Store) commit(pool *pgxpool.Pool, all []*attempt) ([]error, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.running)
	defer cancel()
	conn, err := s.acquire(ctx, pool)
	if err != nil {
		return nil, err
	}
	defer conn.Release() // closes the connection if it is not in its initial state
	link := linkOf(conn)
	link.warned = false
	err = s.run(ctx, conn, all)
	var conflicts []error
	if isBroken(err) {
		conflicts, err = s.conflicts(ctx, conn, all)
	}
	sure := !link.warned && !s.former(link)
	switch {
	case conflicts != nil && sure, undone(err):
		return conflicts, err
	case conflicts != nil:
		return nil, errFormer
	case err == nil && sure:
		s.count.folds.Add(1)
		s.count.commits.Add(int64(len(all)))
		if pool == s.main {
			s.acknowledged()
		}
		return nil, nil
	case err == nil:
		return nil, errUnsure
	}
	return nil, fmt.Errorf("%w: %w", errUnsure, err)
}

// isBroken reports whether an error is that of checkExpected.
func isBroken(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == divisionByZero
}

// errMoved is returned for commits one of which had a precondition that did not hold when it was checked, and held
// right afterwards.
var errMoved = errors.New("a precondition changed twice during the commit")

// conflicts returns the conflicts of the commits of a fold that was undone.
func (s *Store) conflicts(ctx context.Context, conn *pgxpool.Conn, all []*attempt) ([]error, error) {
	commits := make([]*commit, len(all))
	for i, a := range all {
		commits[i] = a.commit
	}
	broken, err := s.broken(ctx, conn, commits...)
	if err != nil {
		return nil, err
	}
	found := make([]error, len(all))
	none := true
	for i, n := range broken {
		if n > 0 {
			found[i], none = &store.ConflictError{Index: n - 1}, false
		}
	}
	if none {
		for i := range found {
			found[i] = errMoved
		}
	}
	return found, nil
}

// run sends a fold.
func (s *Store) run(ctx context.Context, conn *pgxpool.Conn, all []*attempt) error {
	b := s.statements(all)
	sent := conn.SendBatch(ctx, b)
	err := results(sent, b.Len())
	closed := sent.Close()
	if err == nil {
		err = closed
	}
	if undone(err) {
		rollback(ctx, conn)
	}
	return err
}

// statements returns the statements of a fold. The transaction is begun and ended explicitly, because not every
// database that is compatible with PostgreSQL runs statements that are sent together in one transaction.
func (s *Store) statements(all []*attempt) *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue(s.guard.begin())
	if s.guard == locked {
		b.Queue(lockKeys, locksOf(all)...)
	}
	var expect, put, gone columns
	var tokens [][]byte
	for _, a := range all {
		for _, e := range a.expect {
			expect.add(a.tenant, orEmpty(e.Key), e.Value)
		}
		for _, p := range a.put {
			put.add(a.tenant, orEmpty(p.Key), orEmpty(p.Value))
		}
		for _, key := range a.delete {
			gone.add(a.tenant, orEmpty(key), nil)
		}
		if !a.loose {
			tokens = append(tokens, a.token[:])
		}
	}
	if len(expect.tenants) > 0 {
		b.Queue(checkExpected, expect.args()...)
	}
	if len(gone.tenants) > 0 {
		b.Queue(deleteRecords, gone.tenants, gone.keys)
	}
	if len(put.tenants) > 0 {
		put.sort()
		b.Queue(putRecords, put.args()...)
	}
	if len(tokens) > 0 {
		b.Queue(writeTokens, tokens)
	}
	b.Queue("COMMIT")
	return b
}

// columns are rows in the form of a statement's arguments.
type columns struct{ tenants, keys, values [][]byte }

func (c *columns) add(tenant, key, value []byte) {
	c.tenants, c.keys, c.values = append(c.tenants, tenant), append(c.keys, key), append(c.values, value)
}

func (c *columns) args() []any { return []any{c.tenants, c.keys, c.values} }

// sort puts the rows in the order of tenants and keys, in which two folds write rows without a deadlock.
func (c *columns) sort() {
	order := make([]int, len(c.keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(bytes.Compare(c.tenants[i], c.tenants[j]), bytes.Compare(c.keys[i], c.keys[j]))
	})
	var sorted columns
	for _, i := range order {
		sorted.add(c.tenants[i], c.keys[i], c.values[i])
	}
	*c = sorted
}

// locksOf returns the arguments of lockKeys: the locks of all commits of a fold, in the order of their numbers, in
// which two folds cannot deadlock.
func locksOf(all []*attempt) []any {
	held := map[int64]bool{}
	for _, a := range all {
		for _, l := range a.locks {
			held[l.n] = l.alone
		}
	}
	numbers := slices.Sorted(maps.Keys(held))
	alone := make([]bool, len(numbers))
	for i, n := range numbers {
		alone[i] = held[n]
	}
	return []any{numbers, alone}
}

// broken returns, for each commit, the number, from 1, of its first precondition that does not hold, or 0.
func (s *Store) broken(ctx context.Context, conn *pgxpool.Conn, commits ...*commit) ([]int, error) {
	first := make([]int, len(commits))
	var expect columns
	var of [][2]int // for each expectation: its commit, and its number there
	for i, c := range commits {
		for n, e := range c.expect {
			expect.add(c.tenant, orEmpty(e.Key), e.Value)
			of = append(of, [2]int{i, n + 1})
		}
	}
	var n int
	err := s.guard.query(ctx, conn, findBroken, expect.args(), []any{&n}, func() error {
		if at := of[n-1]; first[at[0]] == 0 {
			first[at[0]] = at[1]
		}
		return nil
	})
	return first, err
}

// rollback makes the connection usable again. If that fails, the pool closes it.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}
