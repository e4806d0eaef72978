package pgstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// epoch identifies a stretch of a database's history in which no commit is lost: its system, and the timeline, which
// changes with each promotion of a standby and each recovery to a point in time. It is zero for compatible databases
// without timelines.
type epoch struct {
	system   string
	timeline uint32
	name     string // the public name; it hides the system's number
}

func newEpoch(system string, timeline uint32) epoch {
	sum := sha256.Sum256([]byte(system))
	return epoch{system, timeline, fmt.Sprintf("%x-%d", sum[:4], timeline)}
}

// The first eight digits of the current WAL file's name are the timeline that is being written. pg_control_checkpoint
// returns that of the last checkpoint, which a promotion does not wait for.
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

// errFormer is returned for a connection to a former primary. Its answers may never have been committed, or may be
// lost.
var errFormer = errors.New("the connection is to a former primary")

// learn records the epoch of a connection. It returns errFormer if a later one is known: the connection is to a
// former primary that does not know yet that it was replaced.
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

// former reports whether a connection is to a former primary.
func (s *Store) former(l *link) bool { return l.epoch != *s.epoch.Load() }

// Epoch returns the name of the stretch of the database's history that this store reads. If it changes, data that was
// read before may be lost.
func (s *Store) Epoch() string {
	if e := s.epoch.Load(); e != nil {
		return e.name
	}
	return ""
}
