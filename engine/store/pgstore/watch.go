package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// watchEvery is the interval at which a store checks its database in the background.
	watchEvery = 2 * time.Second
	// watching is the timeout of each of the two queries of a check.
	watching = 3 * time.Second
	// proven is how long an acknowledged commit proves that the database accepts commits.
	proven = 5 * time.Second
	// mostSkew is the maximum difference between this machine's clock and the database's. Records contain times of
	// the servers' clocks.
	mostSkew = time.Second
)

// watch checks the database until ctx ends.
func (s *Store) watch(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.look(ctx)
	}
}

// look checks whether the database responds, on which timeline, with which clock, and whether it accepts commits. So
// dead connections are found and Failed is accurate even without reads or writes.
func (s *Store) look(ctx context.Context) {
	err := s.lookAtClock(ctx)
	if err == nil {
		err = s.proveCommits(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	s.dropDead(err)
	before := s.failure.Swap(&err)
	switch failed := before != nil && *before != nil; {
	case err != nil && !failed:
		s.log.Error("the database does not take commits", "error", err)
	case err == nil && failed:
		s.log.Info("the database takes commits again")
	}
}

// Failed returns the reason why commits are not acknowledged, as of the last check, or nil.
func (s *Store) Failed() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// lookAtClock reads the database's clock and timeline. A pooler may have routed the connection to another database.
func (s *Store) lookAtClock(ctx context.Context) error {
	conn, err := s.acquire(ctx, s.loose)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(ctx, watching)
	defer cancel()
	e, err := s.askEpoch(ctx, conn.Conn().PgConn())
	if err != nil {
		return err
	}
	if err := s.learn(e); err != nil {
		return err
	}
	var micros int64
	const clock = `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	sent := s.now()
	if err := conn.QueryRow(ctx, clock, pgx.QueryExecModeExec).Scan(&micros); err != nil {
		return err
	}
	received := s.now()
	s.skewed(received.Sub(time.UnixMicro(micros)), received.Sub(sent))
	return nil
}

// skewed records how far this machine's clock is ahead of the database's. The precision is the duration of the query.
func (s *Store) skewed(ahead, took time.Duration) {
	ahead -= took / 2
	s.skew.Store(int64(ahead))
	far := time.Duration(math.Abs(float64(ahead))) > mostSkew+took/2
	switch before := s.far.Swap(far); {
	case far && !before:
		s.log.Warn("this machine's clock and the database's differ: is a time service running on both?",
			"ahead", ahead.Round(time.Millisecond).String())
	case !far && before:
		s.log.Info("this machine's clock and the database's agree again")
	}
}

// acknowledged records that a synced commit was acknowledged.
func (s *Store) acknowledged() {
	now := s.now()
	s.synced.Store(&now)
}

// proveCommits makes a commit if none was acknowledged for a while. Like every commit, it waits for the synchronous
// standby.
func (s *Store) proveCommits(ctx context.Context) error {
	if last := s.synced.Load(); last != nil && s.now().Sub(*last) < proven {
		return nil
	}
	_, err := s.burn(ctx, watching, s.newToken())
	switch {
	case err == nil:
		s.acknowledged()
	case timedOut(err) || errors.Is(err, errUnreplicated):
		err = fmt.Errorf("a commit was not acknowledged within %v: is a synchronous standby away? %w", watching, err)
	}
	return err
}
