package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// schemaVersion is the version of the tables that this program reads and writes.
const schemaVersion = 3

// ErrNewerSchema is returned by Open if a newer version of Mneme has changed the tables.
var ErrNewerSchema = errors.New("the database was set up by a newer version of Mneme")

// schema returns the statements that create the tables. Each may be repeated, and may run concurrently on another
// server. The version is written last: if it exists, so do all tables.
func schema() []string {
	return []string{
		`CREATE TABLE IF NOT EXISTS mneme_schema (version int PRIMARY KEY)`,
		`CREATE TABLE IF NOT EXISTS mneme_records (
			tenant bytea NOT NULL, key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (tenant, key))`,
		`CREATE TABLE IF NOT EXISTS mneme_commits (
			token bytea PRIMARY KEY, burnt boolean NOT NULL)`,
		fmt.Sprintf(`INSERT INTO mneme_schema (version) VALUES (%d) ON CONFLICT DO NOTHING`, schemaVersion),
	}
}

// prepare creates missing tables, and refuses those of a newer program. If the tables exist, it only reads, so a role
// without the right to create tables suffices for all but the first start.
func (s *Store) prepare(ctx context.Context) error {
	r := retrier{patience: starting * s.patience}
	for {
		err := s.prepareOnce(ctx)
		switch {
		case err == nil || errors.Is(err, ErrNewerSchema) || errors.Is(err, errUnguarded):
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
	if err := s.lookAtClock(ctx); err != nil { // tokens contain the database's time
		return err
	}
	if err := s.choose(ctx); err != nil || version == schemaVersion {
		return err
	}
	if version > 0 {
		return s.migrate(ctx)
	}
	for _, sql := range schema() {
		if _, err := s.main.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// version returns the version of the tables, or 0 if there are none.
func (s *Store) version(ctx context.Context) (version int, err error) {
	err = s.main.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM mneme_schema`).Scan(&version)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == undefinedTable {
		return 0, nil
	}
	return version, err
}

// madeTwice reports whether an error says that another server created the same table at the same time.
func madeTwice(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == uniqueViolation || pg.Code == duplicateTable || pg.Code == duplicateObject)
}

// migrate changes the tables of an older program. Versions 1 and 2 had other columns in mneme_commits. Its rows are
// only used by the server that made them, within a minute, so they are dropped. A server of the older program that
// still runs cannot commit from then on.
func (s *Store) migrate(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.main, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE mneme_schema IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		var version int
		err := tx.QueryRow(ctx, "SELECT max(version) FROM mneme_schema").Scan(&version)
		if err != nil || version >= schemaVersion { // another server was first
			return err
		}
		s.log.Info("changing the tables of an older version", "from", version, "to", schemaVersion)
		for _, sql := range append([]string{"DROP TABLE mneme_commits"}, schema()...) {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}
