package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestReadersOverRestarts has 200 readers of a board's stream while eight writers write, and the server is stopped as
// an operator does, started, killed, and started again. Each reader sees every entry exactly once, in order, and
// nothing acknowledged is lost.
func TestReadersOverRestarts(t *testing.T) {
	t.Parallel()
	const readers, writers, each = 200, 8, 30
	const board = "/api/v1/boards/b"
	data := t.TempDir()
	var now atomic.Pointer[process] // the running server
	now.Store(start(t, data))
	now.Load().client(t).do("PUT", board, object{}).want(201)

	var acknowledged atomic.Int64
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for n := range each {
				content := fmt.Sprintf("writer %d entry %d", w, n)
				for {
					c := now.Load().client(t)
					// A request repeated with the same key is written once, whether or not its first answer arrived.
					r, err := c.try("POST", board+"/memory", object{"content": content}, "Idempotency-Key", content)
					if err == nil && r.status == 201 {
						acknowledged.Add(1)
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	seen := make([][]string, readers)
	ctx, done := context.WithTimeout(t.Context(), 3*patience)
	defer done()
	for i := range readers {
		reading.Go(func() {
			last := ""
			for len(seen[i]) < writers*each && ctx.Err() == nil {
				// However a connection ends, the next one continues after the last event.
				_, _ = now.Load().client(t).listen(ctx, board+"/memory/stream?since=2026-01-01T00:00:00", last,
					func(e sseEvent) bool {
						last = e.id
						seen[i] = append(seen[i], e.id)
						return len(seen[i]) < writers*each
					})
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	wait := func(n int64) {
		for acknowledged.Load() < n && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
	wait(writers * each / 3)
	now.Load().stop(t)
	now.Store(start(t, data))
	wait(2 * writers * each / 3)
	now.Load().kill()
	now.Store(start(t, data))
	writing.Wait()
	reading.Wait()

	c := now.Load().client(t)
	var page boardPage
	c.get(board + "/memory?order=asc&limit=1000").want(200).into(&page)
	var want []string
	contents := map[string]bool{}
	for _, e := range page.Items {
		want = append(want, e.ID)
		contents[e.Content] = true
	}
	if page.Total != writers*each || len(contents) != writers*each || !slices.IsSorted(want) {
		t.Fatalf("%d entries, %d different, want %d", page.Total, len(contents), writers*each)
	}
	for i := range seen {
		if !slices.Equal(seen[i], want) {
			t.Errorf("reader %d saw %d events, want %d in order", i, len(seen[i]), len(want))
		}
	}
	// The index survived as well: every entry is found once.
	for w := range writers {
		var page boardPage
		c.get(fmt.Sprintf("%s/memory?q=writer+%d&limit=1000", board, w)).want(200).into(&page)
		n := 0
		for _, e := range page.Items {
			var of, entry int
			if _, err := fmt.Sscanf(e.Content, "writer %d entry %d", &of, &entry); err == nil &&
				(of == w || entry == w) {
				n++
			}
		}
		if n != page.Total || n < each {
			t.Errorf("q=writer %d: %d of %d match", w, n, page.Total)
		}
	}
}
