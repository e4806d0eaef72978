package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// snapshotPageSize is how many records are asked for at once. They are read from the connection one by one.
const snapshotPageSize = 1000

const (
	snapshotFirst = `SELECT tenant, key, value FROM mneme_records ORDER BY tenant, key LIMIT $1::bigint`
	snapshotNext  = `SELECT tenant, key, value FROM mneme_records
		WHERE (tenant, key) > ($2::bytea, $3::bytea) ORDER BY tenant, key LIMIT $1::bigint`
)

// Snapshot hands every record to fn, by tenant and key, as all were at one instant. What fn gets is its own. An error
// of fn's ends it.
func (s *Store) Snapshot(ctx context.Context, fn func(tenant string, key, value []byte) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	tx, err := s.main.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return worded(ctx, err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	var tenant, key, value []byte
	each := []any{&tenant, &key, &value}
	for sql, args := snapshotFirst, []any{snapshotPageSize}; ; sql, args = snapshotNext, []any{snapshotPageSize, tenant, key} {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return worded(ctx, err)
		}
		var stopped error
		page, err := pgx.ForEachRow(rows, each, func() error {
			stopped = fn(string(tenant), key, value)
			return stopped
		})
		switch {
		case stopped != nil:
			return stopped
		case err != nil:
			return worded(ctx, err)
		case page.RowsAffected() < snapshotPageSize:
			return nil
		}
	}
}
