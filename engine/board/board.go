package board

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// maxRetentionDays bounds every retention in days.
const maxRetentionDays = 36_500

// Record is a board's own record. Whatever changes on the board writes it again with a higher Revision and expects it
// unchanged: all changes of one board are in one order, and what they read beside it needs no precondition.
type Record struct {
	ID            string            `json:"id"`
	Incarnation   ident.Incarnation `json:"incarnation"`
	Revision      uint64            `json:"revision"`
	Name          string            `json:"name,omitempty"`
	RetentionDays *int              `json:"retention_days,omitempty"`
	Projects      []string          `json:"projects,omitempty"`
	Created       time.Time         `json:"created_at"`
	Last          uint64            `json:"last"`          // number of the newest entry there ever was
	LastAt        time.Time         `json:"last_at"`       // its time: the times of a board never go back
	Entries       uint64            `json:"entries"`       // there now
	Chat          uint64            `json:"chat"`          // of them
	Due           *time.Time        `json:"due,omitempty"` // when retention looks again
}

func (b *Record) shown() Board {
	out := Board{ID: b.ID, Name: b.title(), RetentionDays: b.RetentionDays, Projects: b.Projects, Entries: b.Entries,
		CreatedAt: b.Created}
	if out.Projects == nil {
		out.Projects = []string{}
	}
	return out
}

// title is what people call the board.
func (b *Record) title() string {
	if b.Name != "" {
		return b.Name
	}
	return b.ID
}

// reaches tells whether a caller's key reaches a board: one narrowed to projects reaches the boards that name one of them.
func reaches(c access.Caller, b *Record) bool {
	return c.Projects == nil || slices.ContainsFunc(b.Projects, c.MaySee)
}

func no(id string) *fault.Error { return fault.Errorf(fault.NotFound, "not_found", "no board %q", id) }

// read reads a board, which must not be changed; one that is absent or outside the caller's key is not_found
// either way.
func (svc *Service) read(ctx context.Context, c access.Caller, id string) (*Record, error) {
	if !ident.ValidID(id) {
		return nil, fault.Errorf(fault.NotFound, "not_found", "no such board")
	}
	r, err := svc.db.Store.Read(ctx, c.Tenant, store.Query{Keys: [][]byte{records.Board.Key(id)}})
	if err != nil {
		return nil, err
	}
	return svc.parse(c, id, r.Keys[0])
}

func (svc *Service) parse(c access.Caller, id string, it store.Item) (*Record, error) {
	if it.Damaged {
		return nil, records.ErrDamaged
	}
	if it.Value == nil {
		return nil, no(id)
	}
	b, err := svc.memo.Decode(c.Tenant+"/"+id, it.Value)
	if err != nil {
		return nil, err
	}
	if !reaches(c, b) {
		return nil, no(id)
	}
	return b, nil
}

// board reads a board and expects it unchanged. With made, one that is absent comes new, for the caller's projects.
func (svc *Service) board(t *records.Tx, c access.Caller, id string, made bool) (*Record, error) {
	got, err := t.Get(records.Board.Key(id))
	if err != nil {
		return nil, err
	}
	if got[0].Value == nil && made {
		return &Record{ID: id, Incarnation: svc.db.NewIncarnation(), Projects: c.Projects, Created: t.Now}, nil
	}
	b, err := svc.parse(c, id, got[0])
	if err != nil {
		return nil, err
	}
	own := *b
	return &own, nil
}

// change runs fn over a board's record in one commit and tells those who follow the board. With made, the board
// need not exist.
func change[T any](ctx context.Context, svc *Service, c access.Caller, once access.Once, id string, made bool,
	fn func(t *records.Tx, b *Record) (T, error)) (T, error) {
	var zero T
	if made {
		if err := ident.CheckID("board", id); err != nil {
			return zero, err
		}
	} else if !ident.ValidID(id) {
		return zero, fault.Errorf(fault.NotFound, "not_found", "no such board")
	}
	unlock, err := svc.lock(ctx, c.Tenant, id)
	if err != nil {
		return zero, err
	}
	defer unlock()
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (T, error) {
		b, err := svc.board(t, c, id, made)
		if err != nil {
			return zero, err
		}
		b.Revision++
		out, err := fn(t, b)
		if err != nil {
			return zero, err
		}
		return out, t.PutJSON(records.Board.Key(id), b)
	})
	if err == nil {
		svc.followers.wake(topicOf(c.Tenant, id))
	}
	return out, err
}

// lock makes the changes of this process to one board queue up. No project is called "!boards".
func (svc *Service) lock(ctx context.Context, tenant, id string) (unlock func(), err error) {
	return svc.db.Lock(ctx, tenant+"\x00!boards\x00"+id)
}

func (s *Spec) check(c access.Caller) error {
	if len(s.Name) > 256 {
		return fault.InvalidField("name", "too_long", "must be at most 256 bytes")
	}
	if d := s.RetentionDays; d != nil && (*d < 1 || *d > maxRetentionDays) {
		return fault.InvalidField("retention_days", "out_of_range", "must be from 1 to %d, or null to keep entries for good",
			maxRetentionDays)
	}
	if len(s.Projects) > 64 {
		return fault.InvalidField("projects", "too_many", "must be at most 64")
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

// Put makes a board or changes what is said of it.
func (svc *Service) Put(ctx context.Context, c access.Caller, id string, spec Spec) (out Board, created bool, err error) {
	if err := spec.check(c); err != nil {
		return Board{}, false, err
	}
	out, err = change(ctx, svc, c, access.Once{}, id, true, func(t *records.Tx, b *Record) (Board, error) {
		created = b.Revision == 1
		b.Name = spec.Name
		if spec.Projects != nil {
			b.Projects = spec.Projects
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
func (svc *Service) Get(ctx context.Context, c access.Caller, id string) (Board, error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return Board{}, err
	}
	return b.shown(), nil
}

// List pages through the boards that the key reaches, by id.
func (svc *Service) List(ctx context.Context, c access.Caller, page records.Page) (records.List[Board], error) {
	return records.ListPage(ctx, svc.db, c.Tenant, records.Board.All(), page, func(_ []byte, b *Record) (Board, bool) {
		return b.shown(), reaches(c, b)
	})
}

// Delete makes a board with all that is on it unreachable at once; a sweep removes it.
func (svc *Service) Delete(ctx context.Context, c access.Caller, id string) error {
	if !ident.ValidID(id) {
		return fault.Errorf(fault.NotFound, "not_found", "no such board")
	}
	_, err := records.Update(ctx, svc.db, c, access.Once{}, func(t *records.Tx) (struct{}, error) {
		b, err := svc.board(t, c, id, false)
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
