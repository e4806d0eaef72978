package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// guard is what keeps two transactions from changing the same keys at the same time. It is chosen at the start, by
// what the database says it is.
type guard uint8

const (
	// locked is the guard on PostgreSQL. Transactions run at read committed and take advisory locks: exclusive for a
	// key that is written, shared for one that is only expected. The locks are kept in memory. Row locks would be
	// written to the rows, and a row that many commits share, such as a project's, would need a new multixact for each
	// commit; multixacts have 32-bit numbers and must be vacuumed. A key need not exist to be locked, so a key that
	// must be absent is locked like any other.
	locked guard = iota
	// serialized is the guard on other databases that speak PostgreSQL's protocol, whose advisory locks may not lock.
	// Transactions are serializable, those that only read as well: otherwise a reader could miss the write of a commit
	// that was checked before a change that the reader sees, such as a turn in a project that it finds deleted. The
	// database refuses a transaction that it cannot put into an order with others (40001, 40P01), and the transaction
	// is tried again.
	serialized
)

// guardOf returns the guard for a database by the answer to SELECT version(). Databases that call themselves
// PostgreSQL and are not contain their own name, too.
func guardOf(version string) guard {
	if !strings.HasPrefix(version, "PostgreSQL ") {
		return serialized
	}
	for _, relative := range []string{"-YB-", "Cockroach", "Redshift"} {
		if strings.Contains(version, relative) {
			return serialized
		}
	}
	return locked
}

// errUnguarded is returned for a database that neither guard works on.
var errUnguarded = errors.New("no database that Mneme can run on")

// choose sets the guard and checks that it works.
func (s *Store) choose(ctx context.Context) error {
	var version string
	if err := s.main.QueryRow(ctx, "SELECT version()").Scan(&version); err != nil {
		return err
	}
	s.guard = guardOf(version)
	if s.guard == locked {
		return s.tryLocks(ctx)
	}
	tx, err := s.main.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	var level string
	if err := tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&level); err != nil {
		return err
	}
	if level != "serializable" {
		return fmt.Errorf("%w: asked for a serializable transaction, it runs one that is %q", errUnguarded, level)
	}
	return nil
}

// tryLocks checks that a lock that one connection holds is refused to another.
func (s *Store) tryLocks(ctx context.Context) error {
	t := s.newToken()
	lock := lockOf(t[:], nil)
	tx, err := s.main.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, lockKeys, []int64{lock}, []bool{true}); err != nil {
		return err
	}
	var got bool
	const try = `SELECT pg_try_advisory_xact_lock_shared($1::bigint)`
	if err := s.loose.QueryRow(ctx, try, lock).Scan(&got); err != nil {
		return err
	}
	if got {
		return fmt.Errorf("%w: its advisory locks do not lock", errUnguarded)
	}
	return nil
}

// begin is the statement that begins a transaction that writes.
func (g guard) begin() string {
	if g == locked {
		return "BEGIN ISOLATION LEVEL READ COMMITTED"
	}
	return "BEGIN ISOLATION LEVEL SERIALIZABLE"
}

// query runs one statement that reads, in one round trip, and calls scan for each of its rows after their columns were
// copied to dest.
func (g guard) query(ctx context.Context, conn *pgxpool.Conn, sql string, args, dest []any, scan func() error) error {
	if g == locked {
		rows, err := conn.Query(ctx, sql, args...)
		if err == nil {
			_, err = pgx.ForEachRow(rows, dest, scan)
		}
		return err
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY")
	b.Queue(sql, args...)
	b.Queue("COMMIT")
	sent := conn.SendBatch(ctx, b)
	err := results(sent, 1)
	if err == nil {
		var rows pgx.Rows
		if rows, err = sent.Query(); err == nil {
			_, err = pgx.ForEachRow(rows, dest, scan)
		}
	}
	if err == nil {
		err = results(sent, 1)
	}
	closed := sent.Close()
	if err == nil {
		err = closed
	}
	if undone(err) {
		rollback(ctx, conn)
	}
	return err
}

// results reads the results of n statements of a batch and returns the first error.
func results(sent pgx.BatchResults, n int) error {
	for range n {
		if _, err := sent.Exec(); err != nil {
			return err
		}
	}
	return nil
}

// snapshot returns the options of a transaction that reads everything.
func (g guard) snapshot() pgx.TxOptions {
	if g == locked {
		return pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	}
	return pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable}
}
