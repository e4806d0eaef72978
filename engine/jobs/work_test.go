package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// TestWork expects a worker to continue while there is something to do, and otherwise to wait for the time that the
// unit returns, for the bell, or for the end of the context.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		db := records.New(memstore.New(), slog.New(slog.NewTextHandler(&log, nil)), nil, nil, true)
		ctx, end := context.WithCancel(t.Context())
		var bell jobs.Bell
		began := time.Now()
		looks, ended := make(chan time.Duration, 10), make(chan struct{})
		go func() {
			defer close(ended)
			look := 0
			jobs.Work(ctx, db, &bell, "testing", func(context.Context) (done bool, next time.Time, err error) {
				looks <- time.Since(began)
				switch look++; look {
				case 1, 2, 3:
					return true, next, nil
				case 5:
					return false, db.Now().Add(time.Minute), nil
				case 7:
					return false, next, errors.New("a broken store")
				}
				return false, next, nil
			})
		}()
		wants := func(what string, times ...time.Duration) {
			t.Helper()
			synctest.Wait()
			var got []time.Duration
			for range len(looks) {
				got = append(got, <-looks)
			}
			if !slices.Equal(got, times) {
				t.Errorf("%s: looked at %v, want %v", what, got, times)
			}
		}
		wants("three units and a look in vain", 0, 0, 0, 0)
		time.Sleep(time.Hour)
		wants("nothing comes due")
		bell.Ring()
		wants("the bell", time.Hour)
		time.Sleep(time.Minute)
		wants("what came due", time.Hour+time.Minute)
		bell.Ring()
		wants("a failure", time.Hour+time.Minute)
		end()
		<-ended
		if said := log.String(); !strings.Contains(said, "testing failed and will be retried") ||
			!strings.Contains(said, "a broken store") {
			t.Errorf("the log: %s", said)
		}
	})
}

// TestWorkMissesNoRing expects another run if the bell rings while a unit finds nothing to do.
func TestWorkMissesNoRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := records.New(memstore.New(), nil, nil, nil, true)
		ctx, end := context.WithCancel(t.Context())
		var bell jobs.Bell
		looks := 0
		jobs.Work(ctx, db, &bell, "testing", func(context.Context) (bool, time.Time, error) {
			if looks++; looks == 3 {
				end()
			}
			bell.Ring()
			return false, time.Time{}, nil
		})
		if looks != 3 {
			t.Errorf("%d looks", looks)
		}
	})
}
