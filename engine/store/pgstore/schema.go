package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// schemaVersion is the layout that this program reads and writes.
const schemaVersion = 2

// ErrNewerSchema is answered by Open where a newer Mneme has changed the tables.
var ErrNewerSchema = errors.New("the database was set up by a newer version of Mneme")

// schema makes the tables. Each statement may run again, and beside itself on another server. The version comes last:
// where it stands, all does.
func schema() []string {
	return []string{
		`CREATE TABLE IF NOT EXISTS mneme_schema (version int PRIMARY KEY)`,
		`CREATE TABLE IF NOT EXISTS mneme_records (
			tenant bytea NOT NULL, key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (tenant, key))`,
		`CREATE TABLE IF NOT EXISTS mneme_commits (
			tenant bytea NOT NULL, token bytea NOT NULL, burnt boolean NOT NULL,
			made timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (tenant, token))`,
		`CREATE INDEX IF NOT EXISTS mneme_commits_made ON mneme_commits (made)`, // by which old tokens are found
		fmt.Sprintf(`INSERT INTO mneme_schema (version) VALUES (%d) ON CONFLICT DO NOTHING`, schemaVersion),
	}
}

// prepare makes the tables where they are missing, and refuses those of a newer program. Where they stand it only
// reads, so a role that may not make tables can run all but the first start.
func (s *Store) prepare(ctx context.Context) error {
	r := retrier{patience: starting * s.patience}
	for {
		err := s.prepareOnce(ctx)
		switch {
		case err == nil || errors.Is(err, ErrNewerSchema) || errors.Is(err, errNoLocks):
			return err
		case hopeless(err):
			return fmt.Errorf("no host of the database's URL can be used: %w", err)
		case !passing(err) && !madeTwice(err):
			return fmt.Errorf("setting up the database: %w", err)
		}
		if !isContention(err) {
			s.log.Warn("waiting for the database", "error", err)
		}
		if !r.wait(ctx, err) {
			return fmt.Errorf("setting up the database: %w", err)
		}
	}
}

func (s *Store) prepareOnce(ctx context.Context) error {
	version, err := s.version(ctx)
	switch {
	case err != nil:
		return err
	case version > schemaVersion:
		return fmt.Errorf("%w: its tables are of version %d, this program knows %d", ErrNewerSchema, version,
			schemaVersion)
	}
	if err := s.tryLocks(ctx); err != nil || version == schemaVersion {
		return err
	}
	for _, sql := range schema() {
		if _, err := s.main.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// version is that of the tables; 0 where there are none.
func (s *Store) version(ctx context.Context) (version int, err error) {
	err = s.main.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM mneme_schema`).Scan(&version)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == undefinedTable {
		return 0, nil
	}
	return version, err
}

// madeTwice tells whether an error says that another server made the same table at the same time.
func madeTwice(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == uniqueViolation || pg.Code == duplicateTable || pg.Code == duplicateObject)
}

// errNoLocks refuses a relative of PostgreSQL that has advisory locks in name only, because commits rest on them.
var errNoLocks = errors.New("the database's advisory locks do not lock; Mneme cannot run on it")

// tryLocks finds out whether a lock that one connection holds is refused to another.
func (s *Store) tryLocks(ctx context.Context) error {
	t := newToken()
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
		return errNoLocks
	}
	return nil
}
