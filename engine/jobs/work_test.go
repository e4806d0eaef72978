package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// TestWork holds that a worker goes on while there is something to do, and otherwise waits for the time that the unit
// names, for the bell, or for the end.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		db := records.New(memstore.New(), slog.New(slog.NewTextHandler(&log, nil)), nil, nil, true)
		ctx, end := context.WithCancel(t.Context())
		var bell jobs.Bell
		began, left := time.Now(), 3
		var looked []time.Duration
		soon := func() time.Time { return time.Time{} }
		var failure error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			jobs.Work(ctx, db, &bell, "testing", func(context.Context) (bool, time.Time, error) {
				looked = append(looked, time.Since(began))
				left--
				return left >= 0, soon(), failure
			})
		}()
		wait := func(what string, looks int, at time.Duration) {
			t.Helper()
			synctest.Wait()
			if len(looked) != looks || looked[looks-1] != at {
				t.Errorf("%s: looked at %v, want %d looks, the last at %v", what, looked, looks, at)
			}
		}
		wait("three units and a look in vain", 4, 0)
		time.Sleep(time.Hour)
		wait("nothing comes due", 4, 0)
		soon = func() time.Time { return db.Now().Add(time.Minute) }
		bell.Ring()
		wait("the bell", 5, time.Hour)
		time.Sleep(time.Minute)
		wait("what came due", 6, time.Hour+time.Minute)
		failure = errors.New("a broken store")
		bell.Ring()
		wait("a failure", 7, time.Hour+time.Minute)
		if !strings.Contains(log.String(), "testing failed; it is tried again later") ||
			!strings.Contains(log.String(), "a broken store") {
			t.Errorf("the log: %s", log.String())
		}
		end()
		<-ended
	})
}

// TestWorkMissesNoRing holds that a bell that rings while a unit looks in vain has the worker look again.
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
