package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

var _ store.Snapshotter = (*Store)(nil)

// snapshotPageSize is the number of records that one query fetches. They are read from the connection one by one.
const snapshotPageSize = 1000

const (
	snapshotFirst = `SELECT tenant, key, value FROM mneme_records ORDER BY tenant, key LIMIT $1::bigint`
	snapshotNext  = `SELECT tenant, key, value FROM mneme_records
		WHERE (tenant, key) > ($2::bytea, $3::bytea) ORDER BY tenant, key LIMIT $1::bigint`
)

// Snapshot implements store.Snapshotter. It uses one transaction, which sees both classes of keys as of its first
// statement. The database keeps the old data until it ends; writers continue; Close waits for it.
func (s *Store) Snapshot(ctx context.Context, fn func(tenant string, it store.Item) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	var tx pgx.Tx
	err := s.retry(ctx, func() (err error) {
		tx, err = beginSnapshot(ctx, s.main, s.guard.snapshot())
		return err
	})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	var stopped error
	err = walk(ctx, tx, func(tenant string, it store.Item) error {
		stopped = fn(tenant, it)
		return stopped
	})
	if stopped != nil {
		return stopped
	}
	return worded(ctx, err)
}

// beginSnapshot starts a transaction that may be idle for as long as its reader takes.
func beginSnapshot(ctx context.Context, pool *pgxpool.Pool, o pgx.TxOptions) (pgx.Tx, error) {
	tx, err := pool.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx)) // closes the connection if it fails
		return nil, err
	}
	return tx, nil
}

// walk reads one page after another, each starting after the last key of the previous one.
func walk(ctx context.Context, tx pgx.Tx, fn func(tenant string, it store.Item) error) error {
	var tenant, key, value []byte
	name := ""
	sql, args := snapshotFirst, []any{snapshotPageSize}
	for {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		page, err := pgx.ForEachRow(rows, []any{&tenant, &key, &value}, func() error {
			if string(tenant) != name {
				name = string(tenant)
			}
			return fn(name, store.Item{Key: key, Value: value})
		})
		if err != nil || page.RowsAffected() < snapshotPageSize {
			return err
		}
		sql, args = snapshotNext, []any{snapshotPageSize, tenant, key}
	}
}
