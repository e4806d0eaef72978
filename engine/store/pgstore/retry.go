package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The PostgreSQL error codes that are treated specially; see its manual, appendix A. The first two characters of a
// code are its class.
const (
	classConnection   = "08"
	classShutdown     = "57P"
	serialization     = "40001"
	completionUnknown = "40003"
	deadlock          = "40P01"
	readOnly          = "25006"
	lockNotAvailable  = "55P03"
	queryCanceled     = "57014"
	classResources    = "53"
	diskFull          = "53100"
	tooManyConns      = "53300"
	undefinedTable    = "42P01"
	undefinedFunction = "42883"
	warning           = "01000"
	duplicateTable    = "42P07"
	duplicateObject   = "42710"
	uniqueViolation   = "23505"
	divisionByZero    = "22012"
)

// retrier schedules the attempts of one call.
type retrier struct {
	patience time.Duration
	until    time.Time
	attempts int
}

// wait waits before the next attempt. It returns false if there should be none, because ctx or the patience has
// ended. Contention is retried sooner than an unreachable database.
func (r *retrier) wait(ctx context.Context, err error) bool {
	now := time.Now()
	if r.until.IsZero() {
		r.until = now.Add(r.patience)
	}
	shortest, longest := 20*time.Millisecond, 500*time.Millisecond
	if isContention(err) {
		shortest, longest = time.Millisecond, 10*time.Millisecond
	}
	pause := rand.N(min(shortest<<min(r.attempts, 10), longest))
	r.attempts++
	if now.Add(pause).After(r.until) {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// retry calls attempt until it succeeds or fails with an error that another attempt would meet, too.
func (s *Store) retry(ctx context.Context, attempt func() error) error {
	r := retrier{patience: s.patience}
	for {
		err := attempt()
		s.notice(err)
		if err == nil || !passing(err) {
			return worded(ctx, err)
		}
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == readOnly {
			s.reset() // these connections are to the former primary
		}
		if ctx.Err() == nil {
			s.dropDead(err)
		}
		if !r.wait(ctx, err) {
			return worded(ctx, err)
		}
		s.count.retries.Add(1)
	}
}

// notice tells the operator when the database becomes unreachable and when it is back.
func (s *Store) notice(err error) {
	switch {
	case err == nil:
		if s.away.Load() && s.away.CompareAndSwap(true, false) {
			s.log.Info("the database answers again")
		}
	case passing(err) && !isContention(err) && s.away.CompareAndSwap(false, true):
		s.log.Warn("the database does not answer; calls wait for it a while", "error", err)
	}
}

// errLost is returned for a commit that did not happen and never will, because its token is burnt.
var errLost = errors.New("the connection was lost before the commit")

// passing reports whether another attempt may succeed.
func passing(err error) bool {
	if errors.Is(err, errLost) || errors.Is(err, errFormer) || errors.Is(err, errUnreplicated) ||
		errors.Is(err, errBusy) || errors.Is(err, errMoved) {
		return true
	}
	if errors.Is(err, store.ErrUnknown) || errors.As(err, new(*store.ConflictError)) {
		return false
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return isContention(err) || strings.HasPrefix(pg.Code, classConnection) ||
			strings.HasPrefix(pg.Code, classShutdown) ||
			pg.Code == readOnly || pg.Code == tooManyConns || pg.Code == completionUnknown
	}
	return isNetwork(err) && !errors.Is(err, context.Canceled)
}

// isContention reports whether an error is due to other writers, so that an immediate attempt may succeed.
func isContention(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == serialization || pg.Code == deadlock || pg.Code == lockNotAvailable) || madeTwice(err) ||
		errors.Is(err, errMoved)
}

// isNetwork reports whether an error is due to the connection and not to the request.
func isNetwork(err error) bool {
	return errors.As(err, new(*pgconn.ConnectError)) || errors.As(err, new(net.Error)) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// undone reports whether a commit that ended with err certainly did not happen. An error of the server means that the
// transaction was rolled back, unless it only says that the connection ends. pgconn.SafeToRetry does not help here: a
// batch may fail with a closed connection after it was sent.
func undone(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.SeverityUnlocalized == "ERROR" && pg.Code != completionUnknown &&
		!strings.HasPrefix(pg.Code, classConnection) && !strings.HasPrefix(pg.Code, classShutdown)
}

// worded converts an error of pgx to an error of package store.
func worded(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, store.ErrUnknown) || errors.As(err, new(*store.ConflictError)) {
		return err
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%w (%v)", ended, err)
	}
	return unavailable(err)
}

func unavailable(err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case ok && pg.Code == diskFull:
		return fmt.Errorf("%w: %w", store.ErrNoSpace, err)
	case passing(err), errors.As(err, new(*pgconn.ConnectError)),
		ok && (strings.HasPrefix(pg.Code, classResources) || pg.Code == queryCanceled):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}
