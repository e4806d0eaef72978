package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxRetentionDays bounds every retention in days.
const maxRetentionDays = 36_500

// board is a board's own record. Whatever changes on the board writes it again with a higher Revision and expects it
// unchanged: all changes of one board are in one order, and what they read beside it needs no precondition.
type board struct {
	ID            string      `json:"id"`
	Incarnation   incarnation `json:"incarnation"`
	Revision      uint64      `json:"revision"`
	Name          string      `json:"name,omitempty"`
	RetentionDays *int        `json:"retention_days,omitempty"`
	Projects      []string    `json:"projects,omitempty"`
	Created       time.Time   `json:"created_at"`
	Last          uint64      `json:"last"`          // number of the newest entry there ever was
	LastAt        time.Time   `json:"last_at"`       // its time: the times of a board never go back
	Entries       uint64      `json:"entries"`       // there now
	Chat          uint64      `json:"chat"`          // of them
	Due           *time.Time  `json:"due,omitempty"` // when retention looks again
}

func (b *board) shown() Board {
	out := Board{ID: b.ID, Name: b.title(), RetentionDays: b.RetentionDays, Projects: b.Projects, Entries: b.Entries,
		CreatedAt: b.Created}
	if out.Projects == nil {
		out.Projects = []string{}
	}
	return out
}

// title is what people call the board.
func (b *board) title() string {
	if b.Name != "" {
		return b.Name
	}
	return b.ID
}

// reaches tells whether a caller's key reaches a board: one narrowed to projects reaches the boards that name one of them.
func reaches(c Caller, b *board) bool {
	return c.Projects == nil || slices.ContainsFunc(b.Projects, c.MaySee)
}

func noBoard(id string) *Error { return errorf(NotFound, "not_found", "no board %q", id) }

// readBoard reads a board, which must not be changed; one that is absent or outside the caller's key is not_found
// either way.
func (e *Engine) readBoard(ctx context.Context, c Caller, id string) (*board, error) {
	if !validID(id) {
		return nil, errorf(NotFound, "not_found", "no such board")
	}
	r, err := e.store.Read(ctx, c.Tenant, store.Query{Keys: [][]byte{kindBoard.Key(id)}})
	if err != nil {
		return nil, err
	}
	return e.parseBoard(c, id, r.Keys[0])
}

func (e *Engine) parseBoard(c Caller, id string, it store.Item) (*board, error) {
	if it.Damaged {
		return nil, errDamaged
	}
	if it.Value == nil {
		return nil, noBoard(id)
	}
	b, err := e.boards.decode(c.Tenant+"/"+id, it.Value)
	if err != nil {
		return nil, err
	}
	if !reaches(c, b) {
		return nil, noBoard(id)
	}
	return b, nil
}

// board reads a board and expects it unchanged. With made, one that is absent comes new, for the caller's projects.
func (t *tx) board(c Caller, id string, made bool) (*board, error) {
	got, err := t.get(kindBoard.Key(id))
	if err != nil {
		return nil, err
	}
	if got[0].Value == nil && made {
		return &board{ID: id, Incarnation: t.e.newIncarnation(), Projects: c.Projects, Created: t.now}, nil
	}
	b, err := t.e.parseBoard(c, id, got[0])
	if err != nil {
		return nil, err
	}
	own := *b
	return &own, nil
}

// changeBoard runs fn over a board's record in one commit and tells those who follow the board. With made, the board
// need not exist.
func changeBoard[T any](ctx context.Context, e *Engine, c Caller, once Once, id string, made bool,
	fn func(t *tx, b *board) (T, error)) (T, error) {
	var zero T
	if made {
		if err := checkID("board", id); err != nil {
			return zero, err
		}
	} else if !validID(id) {
		return zero, errorf(NotFound, "not_found", "no such board")
	}
	unlock, err := e.lockBoard(ctx, c.Tenant, id)
	if err != nil {
		return zero, err
	}
	defer unlock()
	out, err := update(ctx, e, c, once, func(t *tx) (T, error) {
		b, err := t.board(c, id, made)
		if err != nil {
			return zero, err
		}
		b.Revision++
		out, err := fn(t, b)
		if err != nil {
			return zero, err
		}
		return out, t.putJSON(kindBoard.Key(id), b)
	})
	if err == nil {
		e.followers.wake(topicOf(c.Tenant, id))
	}
	return out, err
}

// lockBoard makes the changes of this process to one board queue up. No project is called "!boards".
func (e *Engine) lockBoard(ctx context.Context, tenant, id string) (unlock func(), err error) {
	return e.lock(ctx, tenant+"\x00!boards\x00"+id)
}

func (s *BoardSpec) check(c Caller) error {
	if len(s.Name) > 256 {
		return invalidField("name", "too_long", "must be at most 256 bytes")
	}
	if d := s.RetentionDays; d != nil && (*d < 1 || *d > maxRetentionDays) {
		return invalidField("retention_days", "out_of_range", "must be from 1 to %d, or null to keep entries for good",
			maxRetentionDays)
	}
	if len(s.Projects) > 64 {
		return invalidField("projects", "too_many", "must be at most 64")
	}
	for i, p := range s.Projects {
		if err := checkID(fmt.Sprintf("projects[%d]", i), p); err != nil {
			return err
		}
		if !c.MaySee(p) {
			return errorf(NotFound, "not_found", "no project %q", p)
		}
	}
	return nil
}

// PutBoard makes a board or changes what is said of it.
func (e *Engine) PutBoard(ctx context.Context, c Caller, id string, spec BoardSpec) (out Board, created bool, err error) {
	if err := spec.check(c); err != nil {
		return Board{}, false, err
	}
	out, err = changeBoard(ctx, e, c, Once{}, id, true, func(t *tx, b *board) (Board, error) {
		created = b.Revision == 1
		b.Name = spec.Name
		if spec.Projects != nil {
			b.Projects = spec.Projects
		}
		if !equalDays(b.RetentionDays, spec.RetentionDays) {
			b.RetentionDays = spec.RetentionDays
			var due *time.Time
			if b.RetentionDays != nil {
				due = &t.now
			}
			t.schedule(b, due)
		}
		return b.shown(), nil
	})
	e.poke(c.Tenant)
	return out, created, err
}

func equalDays(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

// GetBoard describes a board.
func (e *Engine) GetBoard(ctx context.Context, c Caller, id string) (Board, error) {
	b, err := e.readBoard(ctx, c, id)
	if err != nil {
		return Board{}, err
	}
	return b.shown(), nil
}

// ListBoards pages through the boards that the key reaches, by id.
func (e *Engine) ListBoards(ctx context.Context, c Caller, page Page) (List[Board], error) {
	return listPage(ctx, e, c.Tenant, kindBoard.All(), page, func(_ []byte, b *board) (Board, bool) {
		return b.shown(), reaches(c, b)
	})
}

// DeleteBoard makes a board with all that is on it unreachable at once; a sweep removes it.
func (e *Engine) DeleteBoard(ctx context.Context, c Caller, id string) error {
	if !validID(id) {
		return errorf(NotFound, "not_found", "no such board")
	}
	_, err := update(ctx, e, c, Once{}, func(t *tx) (struct{}, error) {
		b, err := t.board(c, id, false)
		if err != nil {
			return struct{}{}, err
		}
		t.schedule(b, nil)
		t.delete(kindBoard.Key(id))
		t.put(kindBoardJob.Key(b.Incarnation), []byte{0})
		return struct{}{}, t.audit(c, "board.delete", id, fmt.Sprintf("%d entries", b.Entries))
	})
	if err == nil {
		e.followers.wake(topicOf(c.Tenant, id))
		e.poke(c.Tenant)
	}
	return err
}
