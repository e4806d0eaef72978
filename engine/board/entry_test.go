package board_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// fixture is a series of entries in a store.
type fixture struct {
	t  *testing.T
	db *records.DB
	board.Series
}

func newFixture(t *testing.T) *fixture {
	db := records.New(store.Seal(memstore.New()), nil, nil, nil, true)
	return &fixture{t: t, db: db, Series: board.Series{Incarnation: db.NewIncarnation()}}
}

// commit calls do in a commit to the system space, which needs no tenant.
func (s *fixture) commit(do func(t *records.Tx) error) {
	s.t.Helper()
	c := ident.Caller{Tenant: records.SystemTenant}
	_, err := records.Update(s.t.Context(), s.db, c, ident.Once{}, func(t *records.Tx) (struct{}, error) {
		return struct{}{}, do(t)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *fixture) change(t *records.Tx, e *board.Stored, do func(board.Places, *records.Tx, []store.Item) error) error {
	places := board.Places{}
	places.Add(s.Incarnation, e.Seq, e.Terms())
	r, err := s.db.Store.Read(t.Ctx, t.Tenant, store.Query{Keys: places.Keys()})
	if err != nil {
		return err
	}
	return do(places, t, r.Keys)
}

func (s *fixture) add(e *board.Stored, at time.Time) {
	s.commit(func(t *records.Tx) error {
		e.Size = len(e.Content)
		s.Add(e, at)
		if err := s.change(t, e, board.Places.Set); err != nil {
			return err
		}
		return e.Put(t, s.Incarnation)
	})
}

func (s *fixture) remove(e *board.Stored) {
	s.commit(func(t *records.Tx) error {
		e.Delete(t, &s.Series)
		return s.change(t, e, board.Places.Clear)
	})
}

// TestSelectionsAreFilters compares pages of selections with a loop over all entries, for several blocks and with
// deleted entries.
func TestSelectionsAreFilters(t *testing.T) {
	const n = 1100
	s, r := newFixture(t), rand.New(rand.NewPCG(1, 1))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []*board.Stored
	for i := range n {
		e := &board.Stored{Content: fmt.Sprintf("Word%d word%d", r.IntN(4), r.IntN(4))}
		if r.IntN(3) == 0 {
			e.Tags = append(e.Tags, board.ChatTag)
		}
		s.add(e, start.Add(time.Duration(i/3)*time.Second))
		all = append(all, e)
	}
	all = slices.DeleteFunc(all, func(e *board.Stored) bool {
		gone := r.IntN(10) == 0
		if gone {
			s.remove(e)
		}
		return gone
	})
	if s.Last != n || s.Entries != uint64(len(all)) {
		t.Fatalf("the series counts %d entries of %d, there are %d", s.Entries, s.Last, len(all))
	}
	chat, since, until := true, start.Add(100*time.Second), start.Add(300*time.Second)
	for i, f := range []board.Filter{{}, {IsChat: &chat}, {IsChat: new(bool)}, {Text: "WORD1 word2"}, {Since: &since},
		{Until: &until, Text: "word0", IsChat: &chat}, {Since: &until, Until: &since}, {Tags: []string{"absent"}}} {
		var want []uint64
		for _, e := range all {
			at := records.TimeOf(e.Created)
			terms := e.Terms()
			if (f.IsChat == nil || *f.IsChat == e.IsChat()) && (f.Since == nil || !at.Before(*f.Since)) &&
				(f.Until == nil || at.Before(*f.Until)) && len(f.Tags) == 0 && holds(terms, f.Text) {
				want = append(want, e.Seq)
			}
		}
		for _, ascending := range []bool{true, false} {
			slices.Sort(want)
			if !ascending {
				slices.Reverse(want)
			}
			for _, skip := range []int{0, 7, len(want)} {
				chosen, err := board.Choose(t.Context(), s.db, records.SystemTenant, &s.Series, &f)
				if err != nil {
					t.Fatal(err)
				}
				got, total, err := chosen.Page(t.Context(), ascending, skip, 40)
				part := want[min(skip, len(want)):]
				part = part[:min(40, len(part))]
				if err != nil || total != uint64(len(want)) || !slices.Equal(got, part) {
					t.Errorf("filter %d, ascending %t, from %d: got %v of %d, %v, want %v of %d", i, ascending, skip, got,
						total, err, part, len(want))
				}
			}
		}
	}
}

// holds reports whether terms contain all words of a text.
func holds(terms []string, text string) bool {
	for _, term := range (&board.Stored{Content: text}).Terms() {
		if !slices.Contains(terms, term) {
			return false
		}
	}
	return true
}

// TestRead reads what Put wrote, with at least one entry and at most the budget, and distinguishes deleted from lost
// entries.
func TestRead(t *testing.T) {
	s := newFixture(t)
	for range 3 {
		s.add(&board.Stored{Record: board.Record{Tags: []string{"a b"}, Source: "x"}, Content: "ten bytes!"}, time.Now())
	}
	read := func(budget int, lost bool, seqs ...uint64) ([]*board.Stored, error) {
		return board.Read(t.Context(), s.db, records.SystemTenant, s.Incarnation, seqs, budget, lost)
	}
	for budget, want := range map[int]int{5: 1, 29: 2, 30: 3} {
		got, err := read(budget, false, 3, 1, 2)
		if err != nil || len(got) != want || got[0].Seq != 3 || got[0].Content != "ten bytes!" || got[0].Source != "x" {
			t.Errorf("with %d bytes: %d entries, %v", budget, len(got), err)
		}
	}
	if _, err := read(100, false, 1, 4); !errors.Is(err, board.ErrGone) {
		t.Errorf("an entry that is not there: %v", err)
	}
	if got, err := read(100, true, 1, 4); err != nil || len(got) != 2 || !got[1].Damaged || got[1].Seq != 4 {
		t.Errorf("an entry that was lost: %v, %v", got, err)
	}
	if got := board.Parse(1, []byte{0, 0, 0, 9, '{', '}'}); !got.Damaged {
		t.Error("a record that is cut short is read")
	}
}
