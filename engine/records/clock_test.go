package records

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// machine is a computer whose clock can be set, and which knows how long it has been running.
type machine struct {
	wall time.Time
	up   time.Duration
}

func (m *machine) run(d time.Duration) { m.wall, m.up = m.wall.Add(d), m.up+d }

// start starts a server on the machine; the log is what it says about the clock.
func (m *machine) start(t *testing.T, raw store.Store) (db *DB, log *strings.Builder) {
	t.Helper()
	log = &strings.Builder{}
	m.up = 0
	db = New(store.Seal(raw), slog.New(slog.NewTextHandler(log, nil)), func() time.Time { return m.wall }, nil, true)
	db.MeasureBy(func() time.Duration { return m.up })
	if err := db.LoadClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db, log
}

func save(t *testing.T, db *DB) {
	t.Helper()
	if err := db.SaveClock(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// A clock that leaps ahead is visible, but nothing is old by it until the server has run with it for a day. If it is
// corrected before, the leap has no effect.
func TestClockLeaps(t *testing.T) {
	const day = 24 * time.Hour
	begin := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct{ restarts bool }{"while it runs": {}, "at a restart": {true}} {
		m, raw := &machine{wall: begin}, memstore.New()
		db, _ := m.start(t, raw)
		m.run(time.Hour)
		db.Now()
		m.run(time.Minute)
		save(t, db)
		right := m.wall
		m.wall = m.wall.Add(30 * day)
		if c.restarts {
			var log *strings.Builder
			if db, log = m.start(t, raw); !strings.Contains(log.String(), "far ahead") {
				t.Errorf("%s: the log says %q", name, log)
			}
		}
		if now, settled := db.Now(), db.Settled(); !now.Equal(m.wall) || !settled.Equal(right) {
			t.Errorf("%s: now %v, settled %v", name, now, settled)
		}
		m.run(23 * time.Hour)
		if got := db.Settled(); !got.Equal(right.Add(23 * time.Hour)) {
			t.Errorf("%s: settled %v after 23 hours", name, got)
		}
		save(t, db)
		wrong := m.wall
		m.wall = right.Add(23 * time.Hour) // corrected
		if now, settled := db.Now(), db.Settled(); !now.Equal(m.wall) || !settled.Equal(m.wall) {
			t.Errorf("%s: set right: now %v, settled %v", name, now, settled)
		}
		m.wall = wrong
		for range 3 { // permanently wrong, with restarts in between
			db.Settled()
			m.run(9 * time.Hour)
			db.Settled()
			save(t, db)
			db, _ = m.start(t, raw)
		}
		if got := db.Settled(); !got.Equal(m.wall) {
			t.Errorf("%s: settled %v after more than a day, the clock is %v", name, got, m.wall)
		}
	}
}

// The store's time does not go back with the clock: not while the server runs, and not over a restart.
func TestClockGoesBack(t *testing.T) {
	m, raw := &machine{wall: time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)}, memstore.New()
	db, _ := m.start(t, raw)
	m.run(2 * time.Minute)
	save(t, db)
	last := db.Now()
	m.wall = m.wall.AddDate(-1, 0, 0)
	m.run(time.Hour)
	if got := db.Now(); !got.Equal(last.Add(time.Hour)) || !db.Settled().Equal(got) {
		t.Errorf("an hour after %v it is %v", last, got)
	}
	save(t, db)
	db, log := m.start(t, raw)
	if got := db.Now(); !got.Equal(last.Add(time.Hour)) || !strings.Contains(log.String(), "behind") {
		t.Errorf("after a restart it is %v; the log says %q", got, log)
	}
	m.run(time.Minute)
	if got := db.Now(); !got.Equal(last.Add(time.Hour + time.Minute)) {
		t.Errorf("time stands still at %v", got)
	}
}
