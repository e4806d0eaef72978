package pgstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Every synced commit that writes inserts a row with its own token, also when it shares its transaction. If the
// acknowledgement is lost, settle inserts a burnt row with the same token. If that succeeds, the commit did not happen
// and never can, because its row would violate uniqueness. If the commit's row is already there, the commit happened.

const (
	// tokenLife is how long tokens are kept, by the database's clock. Each is asked for within a minute or not at
	// all.
	tokenLife = 15 * time.Minute
	// tokenSweep is the interval at which old tokens are removed.
	tokenSweep = time.Minute
	// sweeping is the timeout of one removal, so that a hanging primary does not end the sweep for good. It is long
	// enough for the tokens of an hour of load that piled up while no server ran.
	sweeping = 10 * time.Minute
)

// token identifies one attempt at a commit. It begins with the time by the database's clock, in microseconds, so that
// new tokens are adjacent in the index and old ones can be removed by their value.
type token [16]byte

func (s *Store) newToken() (t token) {
	binary.BigEndian.PutUint64(t[:], uint64(s.now().Add(-time.Duration(s.skew.Load())).UnixMicro()))
	_, _ = rand.Read(t[8:]) // never fails
	return t
}

// settle finds out whether a commit happened. If it did not, settle ensures that it never will. It continues after
// the end of ctx, and returns store.ErrUnknown if the database cannot be reached.
func (s *Store) settle(ctx context.Context, t token) (happened bool, err error) {
	limit := settling * s.patience
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	r := retrier{patience: limit}
	for {
		happened, err := s.burn(ctx, s.reading, t)
		if err == nil {
			s.count.settled(happened)
			return happened, nil
		}
		s.dropDead(err)
		if !passing(err) && !timedOut(err) || !r.wait(ctx, err) {
			s.count.unknown.Add(1)
			s.log.Error("a commit's outcome is unknown", "cause", err)
			return false, fmt.Errorf("%w: %w", store.ErrUnknown, err)
		}
	}
}

// errUnreplicated is returned if the database answered before its standby had the data of the answer.
var errUnreplicated = errors.New("the database stopped waiting for its synchronous standby")

// burn inserts the burnt row of a token, or writes the existing row again. So it always ends with a commit that waits
// for a synchronous standby, and that standby then has the row that burn reports.
//
// Only a few run at a time, so that reads find free connections while a standby is away.
func (s *Store) burn(ctx context.Context, limit time.Duration, t token) (happened bool, err error) {
	const write = `INSERT INTO mneme_commits (token, burnt) VALUES ($1::bytea, true)
		ON CONFLICT (token) DO UPDATE SET burnt = mneme_commits.burnt RETURNING burnt`
	waiting := time.NewTimer(s.acquiring)
	defer waiting.Stop()
	select {
	case s.burns <- struct{}{}:
		defer func() { <-s.burns }()
	case <-ctx.Done():
		return false, ctx.Err()
	case <-waiting.C:
		return false, errBusy
	}
	conn, err := s.acquire(ctx, s.main)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	link := linkOf(conn)
	link.warned = false
	var burnt bool
	err = conn.QueryRow(ctx, write, t[:]).Scan(&burnt)
	switch {
	case err != nil:
		return false, err
	case link.warned:
		return false, errUnreplicated
	case s.former(link):
		return false, errFormer
	}
	return !burnt, nil
}

// forgetTokens removes old tokens until ctx ends.
func (s *Store) forgetTokens(ctx context.Context) {
	ticker := time.NewTicker(tokenSweep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.forgetTokensOver(ctx, tokenLife); err != nil && ctx.Err() == nil && !passing(err) {
			s.log.Error("removing old commit tokens failed; it is tried again later", "error", err)
		}
	}
}

func (s *Store) forgetTokensOver(ctx context.Context, age time.Duration) error {
	const clock = `SELECT ((extract(epoch FROM now()) - $1::float8) * 1000000)::bigint`
	const remove = `DELETE FROM mneme_commits WHERE token < $1::bytea`
	ctx, cancel := context.WithTimeout(ctx, sweeping)
	defer cancel()
	var micros int64
	if err := s.loose.QueryRow(ctx, clock, age.Seconds()).Scan(&micros); err != nil {
		return err
	}
	gone, err := s.loose.Exec(ctx, remove, binary.BigEndian.AppendUint64(nil, uint64(micros)))
	s.count.swept.Add(gone.RowsAffected())
	return err
}
