package board_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// Several engines share one store, like several processes: numbers have no gaps and no duplicates, times never
// decrease, and each reader gets every entry once, in order, while boards and agents are deleted.
func TestBoardWritersAndReadersAtOnce(t *testing.T) {
	k := enginetest.New(t)
	other := enginetest.Open(t, k.Store)
	k.Member("b", "lead", board.AgentSpec{Lead: true})
	const writers, each = 6, 25
	var wg sync.WaitGroup
	for w := range writers {
		on := []*enginetest.Kit{k, other}[w%2]
		wg.Go(func() {
			for i := range each {
				_, err := on.Boards.PostEntry(t.Context(), k.Admin, ident.Once{}, "b",
					board.Post{Content: fmt.Sprintf("w%d n%d", w, i), Tags: []string{"chat"}})
				if contended := (*fault.Error)(nil); errors.As(err, &contended) && contended.Kind == fault.Unavailable {
					t.Logf("gave up: %v", err)
				}
				if err != nil {
					t.Error(err)
				}
				k.Advance(time.Millisecond)
			}
		})
	}
	seen := make([][]string, 4)
	for r := range seen {
		wg.Go(func() {
			feed, err := k.Boards.Follow(t.Context(), k.Admin, "b", board.Follow{Since: new(time.Time)})
			if r%2 == 1 {
				feed, err = other.Boards.FollowInbox(t.Context(), k.Admin, "b", "lead", board.InboxFollow{Since: new(time.Time)})
			}
			if err != nil {
				t.Error(err)
				return
			}
			defer feed.Close()
			for len(seen[r]) < writers*each && !t.Failed() {
				events, err := feed.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range events {
					seen[r] = append(seen[r], e.ID)
				}
			}
		})
	}
	wg.Wait()
	page, err := k.Boards.ListEntries(t.Context(), k.Admin, "b", board.Query{Ascending: true, Limit: 1000})
	if err != nil || page.Total != writers*each {
		t.Fatalf("total %d: %v", page.Total, err)
	}
	var ids []string
	for i, e := range page.Items {
		if i > 0 && e.CreatedAt.Before(page.Items[i-1].CreatedAt) {
			t.Errorf("entry %d is older than the one before", i)
		}
		ids = append(ids, e.ID)
	}
	for r, got := range seen {
		if r%2 == 0 && !slices.Equal(got, ids) || !slices.IsSorted(got) || len(slices.Compact(got)) != writers*each {
			t.Errorf("reader %d got %d events", r, len(got))
		}
	}
}

// A feed begins where it is asked to, continues after the last event, and is woken by events in this process.
func TestFeedPositions(t *testing.T) {
	k := enginetest.New(t)
	var all []board.Entry
	for i := range 200 {
		all = append(all, k.Write("b", fmt.Sprint("n", i), []string{"chat", "note"}[i%2]))
		k.Advance(time.Minute)
	}
	yes := true
	for name, test := range map[string]struct {
		from board.Follow
		want []board.Entry
	}{
		"next":       {board.Follow{}, nil},
		"since":      {board.Follow{Since: &all[40].CreatedAt}, all[40:]},
		"after":      {board.Follow{After: all[40].ID}, all[41:]},
		"after wins": {board.Follow{After: all[198].ID, Since: &all[0].CreatedAt}, all[199:]},
		"chat":       {board.Follow{After: all[195].ID, IsChat: &yes}, []board.Entry{all[196], all[198]}},
		"earlier":    {board.Follow{After: "bme_00000000_000000000150"}, all},
	} {
		t.Run(name, func(t *testing.T) {
			feed, err := k.Boards.Follow(t.Context(), k.Admin, "b", test.from)
			if err != nil {
				t.Fatal(err)
			}
			defer feed.Close()
			var got []string
			for {
				events, err := feed.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(events) == 0 {
					break
				}
				for _, e := range events {
					got = append(got, e.Data.(board.Entry).Content)
				}
			}
			if !slices.EqualFunc(got, test.want, func(s string, e board.Entry) bool { return s == e.Content }) {
				t.Errorf("%d events, want %d", len(got), len(test.want))
			}
		})
	}
	feed, err := k.Boards.Follow(t.Context(), k.Admin, "b", board.Follow{})
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	news := feed.News()
	select {
	case <-news:
		t.Error("woken by nothing")
	default:
	}
	k.Write("b", "now")
	<-news
	if events, err := feed.Next(t.Context()); err != nil || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
	news = feed.News()
	if err := k.Boards.Delete(t.Context(), k.Admin, "b"); err != nil {
		t.Fatal(err)
	}
	<-news
	k.Write("b", "another board of that name")
	_, err = feed.Next(t.Context())
	enginetest.WantKind(t, err, fault.NotFound)
}

// Lists and exports work while entries are written and purged: no page fails, and none shows an entry that does not
// exist.
func TestBoardIsReadWhileItIsPurged(t *testing.T) {
	k := enginetest.New(t)
	k.Write("b", "first")
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for range 40 {
			for range 20 {
				k.Write("b", "chat words", "chat")
			}
			if _, err := k.Boards.Purge(t.Context(), k.Admin, "b", board.Purge{}); err != nil {
				t.Error(err)
			}
		}
	})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := k.Boards.ListEntries(t.Context(), k.Admin, "b", board.Query{}); err != nil {
					t.Error(err)
					return
				}
				feed, err := k.Boards.Export(t.Context(), k.Admin, "b")
				if err == nil {
					_, err = feed.Next(t.Context())
					feed.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
