// Package board manages boards: memory that several agents share. A board has entries, which are found by tags, words
// and time, and agents, which are notified of chat in inboxes. Both can be followed as streams. A board also stores
// values under keys.
//
// Every change of a board also writes the board's own record, and expects it unchanged. All changes of one board
// therefore have one order: what a change reads besides the record needs no precondition, numbers and times of entries
// never decrease, and the counts in the record are exact.
//
// Every method that names a board returns not_found if the board does not exist or the caller's key does not reach it.
package board

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// Service manages the boards of all tenants. It is safe for concurrent use.
type Service struct {
	db        *records.DB
	jobs      *jobs.Service
	memo      records.Memo[boardRecord]
	followers broadcast // streams of boards and inboxes
}

// New returns a Service. work runs the background work of boards and must be passed the result of Units.
func New(db *records.DB, work *jobs.Service) *Service { return &Service{db: db, jobs: work} }

// Spec holds the fields of a board that clients can set. A missing field becomes empty, except Projects, which then
// keep their value.
type Spec struct {
	Name string `json:"name,omitempty"` // at most 256 bytes
	// RetentionDays is how many days entries are kept; nil means forever.
	RetentionDays *int `json:"retention_days,omitempty"`
	// Projects are the projects whose keys reach the board, at most 64. If there are none, only keys for the whole
	// tenant reach it.
	Projects []string `json:"projects,omitempty"`
	// Commanders are agents, at most 64, that may post commands such as /pause. The lead and keys without an agent always
	// may. Nil leaves them as they are.
	Commanders []string `json:"commanders,omitempty"`
}

// maxRetentionDays is the largest number of days that a client may set.
const maxRetentionDays = 36_500

func (s *Spec) check(c ident.Caller) error {
	if len(s.Name) > 256 {
		return fault.InvalidField("name", "too_long", "must be at most 256 bytes")
	}
	if d := s.RetentionDays; d != nil && (*d < 1 || *d > maxRetentionDays) {
		return fault.InvalidField("retention_days", "out_of_range",
			"must be from 1 to %d, or null to keep entries for good", maxRetentionDays)
	}
	if len(s.Projects) > 64 {
		return fault.InvalidField("projects", "too_many", "must be at most 64")
	}
	if len(s.Commanders) > 64 {
		return fault.InvalidField("commanders", "too_many", "must be at most 64")
	}
	for i, agent := range s.Commanders {
		if err := ident.CheckID(fmt.Sprintf("commanders[%d]", i), agent); err != nil {
			return err
		}
	}
	for i, p := range s.Projects {
		if err := ident.CheckID(fmt.Sprintf("projects[%d]", i), p); err != nil {
			return err
		}
		if !c.MaySee(p) {
			return fault.Errorf(fault.NotFound, "not_found", "no project %q", p)
		}
	}
	return nil
}

// Board is a board as clients see it.
type Board struct {
	ID            string    `json:"id"`
	Name          string    `json:"name"` // the id if the board has no name
	RetentionDays *int      `json:"retention_days"`
	Projects      []string  `json:"projects"`
	Commanders    []string  `json:"commanders"`
	Entries       uint64    `json:"entries"`
	CreatedAt     time.Time `json:"created_at"`
}

// boardRecord is a board as it is stored.
type boardRecord struct {
	Series                   // its entries; all records of the board have its incarnation in their keys
	ID            string     `json:"id"`
	Revision      uint64     `json:"revision"`         // how often the record was written
	Closed        bool       `json:"closed,omitempty"` // like session.Head.Closed
	Name          string     `json:"name,omitempty"`
	RetentionDays *int       `json:"retention_days,omitempty"`
	Projects      []string   `json:"projects,omitempty"`
	Commanders    []string   `json:"commanders,omitempty"`
	Created       time.Time  `json:"created_at"`
	Due           *time.Time `json:"due,omitempty"`    // when retention checks the board again
	Values        int        `json:"values,omitempty"` // how many values it keeps
}

func (b *boardRecord) public() Board {
	out := Board{ID: b.ID, Name: b.title(), RetentionDays: b.RetentionDays, Projects: b.Projects, Commanders: b.Commanders, Entries: b.Entries,
		CreatedAt: b.Created}
	if out.Projects == nil {
		out.Projects = []string{}
	}
	if out.Commanders == nil {
		out.Commanders = []string{}
	}
	return out
}

// title returns the name of the board for people.
func (b *boardRecord) title() string {
	if b.Name != "" {
		return b.Name
	}
	return b.ID
}

// reaches reports whether a caller's key reaches a board. A key that is restricted to projects reaches the boards that
// name one of them, and one that is narrowed to namespaces reaches none.
func reaches(c ident.Caller, b *boardRecord) bool {
	return c.Confined() == nil && (c.Projects == nil || slices.ContainsFunc(b.Projects, c.MaySee))
}

// noBoard returns the error for a board that does not exist or that the caller's key does not reach. It repeats only
// valid ids.
func noBoard(id string) *fault.Error {
	if !ident.ValidID(id) {
		return fault.Errorf(fault.NotFound, "not_found", "no such board")
	}
	return fault.Errorf(fault.NotFound, "not_found", "no board %q", id)
}

// read reads a board's record. Callers must not change it, because the memo shares it.
func (svc *Service) read(ctx context.Context, c ident.Caller, id string) (*boardRecord, error) {
	if !ident.ValidID(id) {
		return nil, noBoard(id)
	}
	b, err := svc.memo.Get(ctx, svc.db, c.Tenant, ident.Join(c.Tenant, id), records.Board.Key(id))
	if err != nil {
		return nil, err
	}
	if b == nil || !reaches(c, b) {
		return nil, noBoard(id)
	}
	return b, nil
}

// readSteadily calls fn with a board's record, and calls it again if fn finds that an entry was deleted while it was
// reading. lost reports that the board has not changed since: an entry that is missing then was lost by the store.
func (svc *Service) readSteadily(ctx context.Context, c ident.Caller, id string,
	fn func(b *boardRecord, lost bool) error) error {
	for before := uint64(0); ; {
		b, err := svc.read(ctx, c, id)
		if err != nil {
			return err
		}
		if err = fn(b, b.Revision == before); !errors.Is(err, ErrGone) {
			return err
		}
		before = b.Revision
	}
}

// Whether a change requires the board to exist or creates it.
const (
	existing = false
	orNew    = true
)

// readTx reads a board's record and makes it a precondition of the commit. With makes, it returns a new board, for the
// caller's projects, if there is none.
func (svc *Service) readTx(t *records.Tx, c ident.Caller, id string, makes bool) (*boardRecord, error) {
	b, err := records.GetTx[boardRecord](t, records.Board.Key(id))
	switch {
	case err != nil:
		return nil, err
	case b == nil && makes:
		return &boardRecord{ID: id, Series: Series{Incarnation: svc.db.NewIncarnation()}, Projects: c.Projects,
			Created: t.Now}, nil
	case b == nil || !reaches(c, b):
		return nil, noBoard(id)
	}
	return b, nil
}

// lock serializes this process's changes of one board, so that they rarely have to be retried. No project can be called
// "!boards", so the name cannot collide with that of a session.
func (svc *Service) lock(ctx context.Context, tenant, id string) (unlock func(), err error) {
	return svc.db.Lock(ctx, tenant+"\x00!boards\x00"+id)
}

// change runs fn with a board's record in one commit and wakes the board's followers.
func change[T any](ctx context.Context, svc *Service, c ident.Caller, once ident.Once, id string, makes bool,
	fn func(t *records.Tx, b *boardRecord) (T, error)) (out T, err error) {
	if makes {
		err = ident.CheckID("board", id)
	} else if !ident.ValidID(id) {
		err = noBoard(id)
	}
	if err != nil {
		return out, err
	}
	unlock, err := svc.lock(ctx, c.Tenant, id)
	if err != nil {
		return out, err
	}
	defer unlock()
	out, err = records.Update(ctx, svc.db, c, once, func(t *records.Tx) (out T, err error) {
		b, err := svc.readTx(t, c, id, makes)
		if err != nil {
			return out, err
		}
		b.Revision++
		if out, err = fn(t, b); err != nil {
			return out, err
		}
		return out, t.PutJSON(records.Board.Key(id), b)
	})
	if err == nil {
		svc.followers.wake(topicOf(c.Tenant, id))
	}
	return out, err
}

// Put creates or changes a board; created reports which. It returns invalid_id, too_long, too_many or out_of_range if
// the spec is invalid, and not_found for a project that the caller's key does not reach.
func (svc *Service) Put(ctx context.Context, c ident.Caller, id string, spec Spec) (out Board, created bool,
	err error) {
	if err := spec.check(c); err != nil {
		return out, false, err
	}
	out, err = change(ctx, svc, c, ident.Once{}, id, orNew, func(t *records.Tx, b *boardRecord) (Board, error) {
		created = b.Revision == 1
		b.Name = spec.Name
		if spec.Projects != nil {
			b.Projects = spec.Projects
		}
		if spec.Commanders != nil && !slices.Equal(spec.Commanders, b.Commanders) {
			if c.Agent != "" {
				return Board{}, fault.Errorf(fault.Forbidden, "command_refused", "an agent's key may not change who may command")
			}
			b.Commanders = spec.Commanders
		}
		if !equalDays(b.RetentionDays, spec.RetentionDays) {
			b.RetentionDays = spec.RetentionDays
			var due *time.Time
			if b.RetentionDays != nil {
				due = &t.Now
			}
			schedule(t, b, due)
		}
		return b.public(), nil
	})
	svc.jobs.Poke(c.Tenant)
	return out, created, err
}

func equalDays(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

// Get returns a board.
func (svc *Service) Get(ctx context.Context, c ident.Caller, id string) (Board, error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return Board{}, err
	}
	return b.public(), nil
}

// List pages through the boards that the caller's key reaches, by id. It returns out_of_range for the limit and
// invalid_cursor for the cursor.
func (svc *Service) List(ctx context.Context, c ident.Caller, page records.Page) (records.List[Board], error) {
	return records.ListPage(ctx, svc.db, c.Tenant, records.Board.All(), page,
		func(_ []byte, b *boardRecord) (Board, bool) { return b.public(), reaches(c, b) })
}

// Delete makes a board and its contents unreachable at once. A job removes the records later.
func (svc *Service) Delete(ctx context.Context, c ident.Caller, id string) error {
	if !ident.ValidID(id) {
		return noBoard(id)
	}
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (struct{}, error) {
		b, err := svc.readTx(t, c, id, existing)
		if err != nil {
			return struct{}{}, err
		}
		schedule(t, b, nil)
		t.Delete(records.Board.Key(id))
		t.Put(records.BoardJob.Key(b.Incarnation), []byte{0})
		return struct{}{}, tenant.Audit(t, c, "board.delete", id, fmt.Sprintf("%d entries", b.Entries))
	})
	if err == nil {
		svc.followers.wake(topicOf(c.Tenant, id))
		svc.jobs.Poke(c.Tenant)
	}
	return err
}
