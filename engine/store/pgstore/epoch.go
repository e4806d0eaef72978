package pgstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// epoch names a stretch of a database's history in which nothing committed is lost: its system, and the timeline, which
// is another one after each promotion of a standby and each recovery to a point in time. It is zero for relatives of
// PostgreSQL that have no timelines.
type epoch struct {
	system   string
	timeline uint32
	name     string // how clients see it; it does not show the system's number, because anybody may see it
}

func newEpoch(system string, timeline uint32) epoch {
	sum := sha256.Sum256([]byte(system))
	return epoch{system, timeline, fmt.Sprintf("%x-%d", sum[:4], timeline)}
}

// The first eight digits of the name of the log file are the timeline that is being written. pg_control_checkpoint
// tells that of the last checkpoint, which a promotion does not wait for.
const askEpoch = `SELECT system_identifier, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
	FROM pg_control_system()`

func (s *Store) askEpoch(ctx context.Context, conn *pgconn.PgConn) (epoch, error) {
	res, err := conn.Exec(ctx, askEpoch).ReadAll()
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == undefinedFunction {
		return epoch{}, nil
	}
	if err != nil {
		return epoch{}, err
	}
	row := res[0].Rows[0]
	return parseEpoch(string(row[0]), string(row[1]))
}

func parseEpoch(system, timeline string) (epoch, error) {
	n, err := strconv.ParseUint(timeline, 16, 32)
	return newEpoch(system, uint32(n)), err
}

// errFormer is answered on a connection to a former primary: what it said may never have been, or may be no more.
var errFormer = errors.New("the connection is to a former primary")

// learn takes note of the epoch that a connection found. It answers errFormer for an earlier one than is known: a
// former primary that does not know yet that another took its place.
func (s *Store) learn(e epoch) error {
	for {
		known := s.epoch.Load()
		switch {
		case known != nil && *known == e:
			return nil
		case known != nil && known.system == e.system && known.timeline > e.timeline:
			return fmt.Errorf("%w: it is on timeline %d, the database went on to %d", errFormer, e.timeline,
				known.timeline)
		}
		if !s.epoch.CompareAndSwap(known, &e) {
			continue
		}
		if known != nil {
			s.count.turnovers.Add(1)
			s.log.Warn("the database went to another timeline: what the former primary had not replicated is gone",
				"before", known.name, "now", e.name)
			s.reset()
		}
		return nil
	}
}

// former tells whether a connection is to a primary that another has taken the place of.
func (s *Store) former(l *link) bool { return l.epoch != *s.epoch.Load() }

// Epoch names the stretch of the database's history that this store reads. Where it is another one than before, what
// was read before may be gone.
func (s *Store) Epoch() string {
	if e := s.epoch.Load(); e != nil {
		return e.name
	}
	return ""
}
