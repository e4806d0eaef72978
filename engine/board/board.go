// Package board keeps boards: memory that several agents share. A board has entries, which are found by tags, words and
// time, and agents, which are notified of chat in inboxes. Both can be followed as streams. Beside them it keeps values
// under keys.
//
// The one hard idea is the board's own record. Every change of a board writes that record again in the same commit and
// expects it unchanged, so all changes of one board have one order. What a change reads beside the record therefore
// needs no precondition, numbers and times of entries never go back, and the counts in the record are exact.
//
// Every method that names a board answers not_found where the board is absent or the caller's key does not reach it.
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

// Service keeps the boards of all tenants. It is safe for concurrent use.
type Service struct {
	db        *records.DB
	jobs      *jobs.Service
	memo      records.Memo[boardRecord]
	followers broadcast // feeds of boards and inboxes
}

// New makes the room. The background work of boards is done by work, which Units is given to.
func New(db *records.DB, work *jobs.Service) *Service { return &Service{db: db, jobs: work} }

// Spec is what a client may say of a board. A field that is left out is emptied, but Projects then stay as they are.
type Spec struct {
	Name string `json:"name,omitempty"` // at most 256 bytes
	// RetentionDays is how many days entries are kept; nil keeps them for good.
	RetentionDays *int `json:"retention_days,omitempty"`
	// Projects are those whose keys reach the board, at most 64. Without any, only keys of the whole tenant reach it.
	Projects []string `json:"projects,omitempty"`
	// Commanders are agents, at most 64, that may post commands such as /pause. The lead and keys without an agent always
	// may. Nil leaves them as they are.
	Commanders []string `json:"commanders,omitempty"`
}

// maxRetentionDays bounds every number of days that a client may give.
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
	Name          string    `json:"name"` // the id, where the board was given no name
	RetentionDays *int      `json:"retention_days"`
	Projects      []string  `json:"projects"`
	Commanders    []string  `json:"commanders"`
	Entries       uint64    `json:"entries"`
	CreatedAt     time.Time `json:"created_at"`
}

// boardRecord is a board as it is stored.
type boardRecord struct {
	Series                   // its entries; all that is on the board lies under its incarnation
	ID            string     `json:"id"`
	Revision      uint64     `json:"revision"`         // how often the record was written
	Closed        bool       `json:"closed,omitempty"` // as session.Head.Closed
	Name          string     `json:"name,omitempty"`
	RetentionDays *int       `json:"retention_days,omitempty"`
	Projects      []string   `json:"projects,omitempty"`
	Commanders    []string   `json:"commanders,omitempty"`
	Created       time.Time  `json:"created_at"`
	Due           *time.Time `json:"due,omitempty"`    // when retention looks at the board again
	Values        int        `json:"values,omitempty"` // how many values it keeps
}

func (b *boardRecord) shown() Board {
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

// title is what people call the board.
func (b *boardRecord) title() string {
	if b.Name != "" {
		return b.Name
	}
	return b.ID
}

// reaches tells whether a caller's key reaches a board. A key that is narrowed to projects reaches the boards that name
// one of them.
func reaches(c ident.Caller, b *boardRecord) bool {
	return c.Projects == nil || slices.ContainsFunc(b.Projects, c.MaySee)
}

// noBoard is the answer for a board that is absent or that the caller's key does not reach. It repeats only valid ids.
func noBoard(id string) *fault.Error {
	if !ident.ValidID(id) {
		return fault.Errorf(fault.NotFound, "not_found", "no such board")
	}
	return fault.Errorf(fault.NotFound, "not_found", "no board %q", id)
}

// read reads a board's record. Callers must not change it, because the memo gives it to others too.
func (svc *Service) read(ctx context.Context, c ident.Caller, id string) (*boardRecord, error) {
	if !ident.ValidID(id) {
		return nil, noBoard(id)
	}
	b, err := svc.memo.Get(ctx, svc.db, c.Tenant, c.Tenant+"/"+id, records.Board.Key(id))
	if err != nil {
		return nil, err
	}
	if b == nil || !reaches(c, b) {
		return nil, noBoard(id)
	}
	return b, nil
}

// readSteadily runs fn over a board's record, and again where fn meets an entry that was deleted while it read. Lost
// says that the board has not changed since: what is not there then was lost by the store, and must not be waited for.
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

// Whether a change needs the board to be there, or makes it.
const (
	existing = false
	orNew    = true
)

// readTx reads a board's record and makes it a precondition of the commit. With orNew, a board that is absent comes as
// a new one, for the caller's projects.
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

// lock makes the changes that this process makes to one board queue up, so that they rarely have to be tried again. No
// project is called "!boards", so the name is none of a session.
func (svc *Service) lock(ctx context.Context, tenant, id string) (unlock func(), err error) {
	return svc.db.Lock(ctx, tenant+"\x00!boards\x00"+id)
}

// change runs fn over a board's record in one commit and wakes those who follow the board.
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

// Put makes a board or changes what is said of it. Created tells which. It answers invalid_id, too_long, too_many or
// out_of_range where the spec cannot be, and not_found for a project that the caller's key does not reach.
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
				return Board{}, fault.Errorf(fault.Forbidden, "command_refused", "an agent's key may not say who may command")
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
		return b.shown(), nil
	})
	svc.jobs.Poke(c.Tenant)
	return out, created, err
}

func equalDays(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

// Get describes a board.
func (svc *Service) Get(ctx context.Context, c ident.Caller, id string) (Board, error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return Board{}, err
	}
	return b.shown(), nil
}

// List pages through the boards that the caller's key reaches, by id. It answers out_of_range for a limit and
// invalid_cursor for a cursor that cannot be.
func (svc *Service) List(ctx context.Context, c ident.Caller, page records.Page) (records.List[Board], error) {
	return records.ListPage(ctx, svc.db, c.Tenant, records.Board.All(), page,
		func(_ []byte, b *boardRecord) (Board, bool) { return b.shown(), reaches(c, b) })
}

// Delete makes a board with all that is on it unreachable at once. A job removes the records later.
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
