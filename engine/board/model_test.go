package board_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// modelBoard is a board as a slice. Lists of the real board are compared with it.
type modelBoard struct{ entries []board.Entry }

func (m *modelBoard) list(q board.Query) (out []board.Entry, total int) {
	var found []board.Entry
	for _, e := range m.entries {
		has := func(tag string) bool { return slices.Contains(e.Tags, tag) }
		words := strings.FieldsFunc(strings.ToLower(e.Content), func(r rune) bool { return r == ' ' || r == ',' })
		switch {
		case q.IsChat != nil && *q.IsChat != has("chat"):
		case slices.ContainsFunc(q.Tags, func(tag string) bool { return !has(tag) }):
		case slices.ContainsFunc(strings.Fields(strings.ToLower(q.Text)), func(w string) bool { return !slices.Contains(words, w) }):
		case q.Since != nil && e.CreatedAt.Before(*q.Since):
		case q.Until != nil && !e.CreatedAt.Before(*q.Until):
		default:
			found = append(found, e)
		}
	}
	if !q.Ascending {
		slices.Reverse(found)
	}
	total = len(found)
	found = found[min(q.Offset, total):]
	return found[:min(q.Limit, len(found))], total
}

func (m *modelBoard) purge(gone func(board.Entry) bool) int {
	before := len(m.entries)
	m.entries = slices.DeleteFunc(m.entries, gone)
	return before - len(m.entries)
}

// After any writes, purges and expiries, every list equals a brute-force search.
func TestBoardListsEqualASearch(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			k := enginetest.New(t)
			r := rand.New(rand.NewPCG(seed, 6))
			m := &modelBoard{}
			retention := 30
			if _, _, err := k.Boards.Put(t.Context(), k.Admin, "b", board.Spec{RetentionDays: &retention}); err != nil {
				t.Fatal(err)
			}
			for range 60 {
				for range r.IntN(60) {
					m.entries = append(m.entries, postRandom(k, r))
					k.Advance(time.Duration(r.IntN(3)) * time.Hour)
				}
				switch r.IntN(6) {
				case 0: // retention in the model: entries older than its days
					k.Drain()
					oldest := k.Clock().AddDate(0, 0, -retention)
					m.purge(func(e board.Entry) bool { return e.CreatedAt.Before(oldest.Add(-time.Hour)) })
					expectAtMost(k, m, oldest)
				case 1:
					p := board.Purge{OlderThanDays: 1 + r.IntN(40), IsChat: maybe(r)}
					until := k.Clock().AddDate(0, 0, -p.OlderThanDays)
					want := m.purge(func(e board.Entry) bool {
						return e.CreatedAt.Before(until) && (p.IsChat == nil || *p.IsChat == e.IsChat)
					})
					got, err := k.Boards.Purge(t.Context(), k.Admin, "b", p)
					if err != nil || got.DeletedEntries != want {
						t.Fatalf("purging %+v: %+v, want %d: %v", p, got, want, err)
					}
				}
				for range 10 {
					compare(k, m, randomQuery(r, k.Clock()))
				}
			}
			if len(m.entries) < 100 {
				t.Errorf("only %d entries are left to compare", len(m.entries))
			}
			if _, err := k.Boards.Purge(t.Context(), k.Admin, "b", board.Purge{}); err != nil {
				t.Fatal(err)
			}
			compare(k, &modelBoard{}, board.Query{Limit: 10})
			if rest := onBoards(k); rest > 0 {
				t.Errorf("%d records are left of an empty board", rest)
			}
		})
	}
}

// expectAtMost removes from the model what retention has removed: within an hour of the limit, entries may be there or
// not.
func expectAtMost(k *enginetest.Kit, m *modelBoard, oldest time.Time) {
	k.Helper()
	page, err := k.Boards.ListEntries(k.Context(), k.Admin, "b", board.Query{Ascending: true, Limit: 1})
	if err != nil {
		k.Fatal(err)
	}
	if len(page.Items) > 0 {
		m.purge(func(e board.Entry) bool { return e.CreatedAt.Before(oldest) && e.ID < page.Items[0].ID })
	} else {
		m.purge(func(e board.Entry) bool { return e.CreatedAt.Before(oldest) })
	}
}

func compare(k *enginetest.Kit, m *modelBoard, q board.Query) {
	k.Helper()
	want, total := m.list(q)
	got, err := k.Boards.ListEntries(k.Context(), k.Admin, "b", q)
	if err != nil {
		k.Fatalf("%+v: %v", q, err)
	}
	same := func(a, b board.Entry) bool {
		return a.ID == b.ID && a.Content == b.Content && slices.Equal(a.Tags, b.Tags) && a.CreatedAt.Equal(b.CreatedAt)
	}
	if got.Total != uint64(total) || !slices.EqualFunc(got.Items, want, same) {
		k.Fatalf("%+v: total %d, want %d; %d items, want %d", q, got.Total, total, len(got.Items), len(want))
	}
}

var boardWords = []string{"alpha", "beta", "gamma", "delta", "straße", "日", "x1"}

func postRandom(k *enginetest.Kit, r *rand.Rand) board.Entry {
	k.Helper()
	var p board.Post
	for range 1 + r.IntN(4) {
		p.Content += boardWords[r.IntN(len(boardWords))] + ", "
	}
	for _, tag := range []string{"chat", "task:1", "task:2", "alert"} {
		if r.IntN(3) == 0 {
			p.Tags = append(p.Tags, tag)
		}
	}
	p.IsChat = maybe(r)
	e, err := k.Boards.PostEntry(k.Context(), k.Admin, ident.Once{}, "b", p)
	if err != nil {
		k.Fatal(err)
	}
	return e
}

func randomQuery(r *rand.Rand, now time.Time) (q board.Query) {
	q.IsChat, q.Ascending, q.Limit = maybe(r), r.IntN(2) == 0, 1+r.IntN(80)
	if r.IntN(2) == 0 {
		q.Offset = r.IntN(300)
	}
	for _, tag := range []string{"task:1", "alert", "none"} {
		if r.IntN(6) == 0 {
			q.Tags = append(q.Tags, tag)
		}
	}
	if r.IntN(3) == 0 {
		q.Text = strings.ToUpper(boardWords[r.IntN(len(boardWords))]) + " " + boardWords[r.IntN(len(boardWords))]
	}
	at := func() *time.Time {
		if r.IntN(3) > 0 {
			return nil
		}
		at := now.Add(-time.Duration(r.IntN(40*24)) * time.Hour)
		return &at
	}
	q.Since, q.Until = at(), at()
	return q
}

func maybe(r *rand.Rand) *bool {
	if r.IntN(2) == 0 {
		return nil
	}
	b := r.IntN(2) == 0
	return &b
}

// onBoards counts the records of boards other than their main record.
func onBoards(k *enginetest.Kit) int {
	k.Helper()
	rng := store.Range{From: []byte("c\x00"), To: []byte("c\x01")}
	res, err := store.Seal(k.Store).Read(k.Context(), ident.DefaultTenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		k.Fatal(err)
	}
	return len(res.Ranges[0])
}

// countingStore counts the items read from the underlying store.
type countingStore struct {
	store.Store
	items, bytes int
}

func (s *countingStore) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	r, err := s.Store.Read(ctx, tenant, q)
	for _, items := range append(r.Ranges, r.Keys) {
		s.items += len(items)
		for _, it := range items {
			s.bytes += len(it.Value)
		}
	}
	return r, err
}

// The cost of a list depends on the page and the matching index only, not on the length of the board.
func TestBoardListsDoNotScan(t *testing.T) {
	counted := &countingStore{Store: memstore.New()}
	k := enginetest.Open(t, counted)
	const entries = 5000
	filler := strings.Repeat("filler ", 30)
	var middle time.Time
	for i := range entries {
		tags := []string{"note"}
		if i%1000 == 7 {
			tags = []string{"rare"}
		}
		e := k.Write("b", fmt.Sprint(filler, "n", i), tags...)
		if i == entries/2 {
			middle = e.CreatedAt
		}
		k.Advance(time.Second)
	}
	no := false
	for name, test := range map[string]struct {
		query board.Query
		total uint64
		items int // most items that may be read from the store
	}{
		"newest":     {board.Query{}, entries, 60},
		"deep":       {board.Query{Offset: entries - 10, Ascending: true}, entries, 30},
		"no chat":    {board.Query{Filter: board.Filter{IsChat: &no}}, entries, 60},
		"rare tag":   {board.Query{Filter: board.Filter{Tags: []string{"rare"}}}, 5, 20},
		"rare word":  {board.Query{Filter: board.Filter{Text: "n4242 filler"}}, 1, 20},
		"since":      {board.Query{Filter: board.Filter{Since: &middle}}, entries / 2, 70},
		"until, tag": {board.Query{Filter: board.Filter{Until: &middle, Tags: []string{"note"}}}, entries/2 - 3, 70},
	} {
		counted.items, counted.bytes = 0, 0
		page, err := k.Boards.ListEntries(t.Context(), k.Admin, "b", test.query)
		if err != nil || page.Total != test.total {
			t.Errorf("%s: total %d, want %d: %v", name, page.Total, test.total, err)
		}
		if counted.items > test.items || counted.bytes > 60_000 {
			t.Errorf("%s: %d records, %d bytes read", name, counted.items, counted.bytes)
		}
	}
}
