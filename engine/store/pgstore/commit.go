package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// mostKeys is the maximum number of locks of a commit that shares its transaction with others. A commit with more keys
// takes one exclusive lock on its whole tenant instead, in a transaction of its own. All other commits take a shared
// lock on their tenant.
const mostKeys = 48

// Commit implements store.Store. A batch that writes nothing is one statement that reads.
func (s *Store) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if err := b.Check(tenant); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	c := newCommit(tenant, b)
	switch {
	case len(c.put)+len(c.delete) > 0 && c.loose:
		return s.commitLoose(ctx, c)
	case len(c.put)+len(c.delete) > 0:
		return s.retry(ctx, func() error { return s.attempt(ctx, c) })
	case len(c.expect) > 0:
		return s.retry(ctx, func() error { return s.check(ctx, c) })
	}
	return nil
}

// attempt tries once to make a synced commit. A commit whose outcome is not known is settled with its own token.
func (s *Store) attempt(ctx context.Context, c *commit) error {
	a := &attempt{entry: newEntry(), commit: c, token: s.newToken()}
	err := s.commits.do(ctx, a, false)
	if !errors.Is(err, errUnsure) {
		return err
	}
	happened, err := s.settle(ctx, a.token)
	if err == nil && !happened {
		err = errLost
	}
	return err
}

// commitLoose makes a loose commit. It has no token: if the outcome of an attempt is unknown, it is simply repeated,
// since writing the same values again changes nothing. If the repetition finds a precondition broken because the first
// attempt wrote the key, the commit has happened.
func (s *Store) commitLoose(ctx context.Context, c *commit) error {
	unsure := false
	err := s.retry(ctx, func() error {
		err := s.looseCommits.do(ctx, &attempt{entry: newEntry(), commit: c}, false)
		switch {
		case errors.Is(err, errUnsure):
			unsure = true
			return fmt.Errorf("%w: %w", errLost, err)
		case unsure && errors.As(err, new(*store.ConflictError)):
			if e := s.check(ctx, c.result()); e == nil || !errors.As(e, new(*store.ConflictError)) {
				return e
			}
		}
		return err
	})
	if unsure && err != nil && !errors.As(err, new(*store.ConflictError)) {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return err
}

// check looks once whether the preconditions of a commit hold.
func (s *Store) check(ctx context.Context, c *commit) error {
	conn, err := s.acquire(ctx, s.main)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(ctx, s.reading)
	defer cancel()
	broken, err := s.broken(ctx, conn, c)
	if err == nil && s.former(linkOf(conn)) {
		err = errFormer
	}
	if err == nil && broken[0] > 0 {
		err = &store.ConflictError{Index: broken[0] - 1}
	}
	return err
}

// Confirm returns once a synchronous standby has all data that was read before: it makes a commit after all others
// and waits for it. It returns store.ErrUnknown if that is not acknowledged in time.
func (s *Store) Confirm(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	err := s.retry(ctx, func() error {
		_, err := s.burn(ctx, s.reading, s.newToken())
		return err
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return err
}

// attempt is one attempt at a commit, in a queue.
type attempt struct {
	entry
	*commit
	token token // zero for a loose commit
	alone bool  // it gets its own transaction, because a fold with others was refused
}

// single reports whether an attempt does not share its transaction.
func (a *attempt) single() bool { return a.alone || a.whole }

// commit is a batch and the locks that it needs.
type commit struct {
	tenant []byte
	loose  bool
	expect []store.Expect
	put    []store.Pair
	delete [][]byte
	size   int // bytes of keys and values
	locks  []lock
	whole  bool // it locks its whole tenant
}

// lock is an advisory lock. Its number is a hash of tenant and key: two keys with the same number only wait
// unnecessarily. The numbers also tell which commits name the same key.
type lock struct {
	n     int64
	alone bool // exclusive, because the key is written
}

func newCommit(tenant string, b store.Batch) *commit {
	c := &commit{tenant: []byte(tenant), loose: b.IsLoose(), expect: b.Expect, put: b.Put, delete: b.Delete, size: b.Bytes()}
	c.lock()
	return c
}

// lock computes the locks of the commit.
func (c *commit) lock() {
	alone := make(map[int64]bool, 1+len(c.expect)+len(c.put)+len(c.delete))
	for _, e := range c.expect {
		alone[lockOf(c.tenant, e.Key)] = false
	}
	for _, p := range c.put {
		alone[lockOf(c.tenant, p.Key)] = true
	}
	for _, key := range c.delete {
		alone[lockOf(c.tenant, key)] = true
	}
	tenant := lockOf(c.tenant, nil)
	if c.whole = len(alone) > mostKeys; c.whole {
		alone = map[int64]bool{tenant: true}
	} else if !alone[tenant] { // the empty key shares it
		alone[tenant] = false
	}
	c.locks = make([]lock, 0, len(alone))
	for n, exclusive := range alone {
		c.locks = append(c.locks, lock{n, exclusive})
	}
}

// lockOf returns the number of a key's lock, or that of its tenant's lock if the key is empty.
func lockOf(tenant, key []byte) int64 {
	b := make([]byte, 0, 256)
	b = append(b, byte(len(tenant))) // separates tenant and key; one byte suffices for MaxTenant
	sum := sha256.Sum256(append(append(b, tenant...), key...))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// result returns a commit without writes whose preconditions are the state that c leaves.
func (c *commit) result() *commit {
	r := &commit{tenant: c.tenant}
	for _, p := range c.put {
		r.expect = append(r.expect, store.Expect{Key: p.Key, Value: orEmpty(p.Value)})
	}
	for _, key := range c.delete {
		r.expect = append(r.expect, store.Expect{Key: key})
	}
	return r
}

// commitQueue returns the queue of one pool's commits.
func (s *Store) commitQueue(pool *pgxpool.Pool, usual, most int) *queue[*attempt] {
	q := &queue[*attempt]{usual: usual, most: most, patience: s.acquiring, together: foldable}
	q.work = func(all []*attempt) { s.fold(q, pool, all) }
	return q
}
