package records

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

const (
	// maxLeap is how far ahead of the store's time the system's clock may be without being doubted. Servers that are
	// stopped overnight are within it.
	maxLeap = 24 * time.Hour
	// doubtFor is how long a server has to run with a clock that is further ahead until the clock is believed.
	doubtFor = 24 * time.Hour
	// saveEvery is how far the store's time moves until it is saved again.
	saveEvery = time.Minute
	// tellBehind is how far behind the system's clock may be before the operator is told.
	tellBehind = time.Minute
)

// timekeeper tells the time of a store. The system's clock may be set wrong, and is then set right again, but what has
// expired must stay so, and a clock that leaps ahead must not have fresh data removed for its age. The store's time
// never goes back, passes at least as fast as the process runs, and follows a clock that leaps ahead only after the
// process has run with that clock for a day.
type timekeeper struct {
	clock  func() time.Time     // the system's
	uptime func() time.Duration // how long the process runs, whatever the clock does; nil: the clock is believed

	mu      sync.Mutex
	settled time.Time     // the store's time
	read    time.Duration // the uptime at the last reading
	doubted time.Duration // for how long of the uptime the clock has been too far ahead; 0: it is not
	saved   time.Time     // the store's time when it was saved last
}

// times gives the time for what happens now, and the time by which something is old enough to be removed. They differ
// while the system's clock is further ahead than is believed.
func (k *timekeeper) times() (now, settled time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wall := k.clock().Round(0) // rounded, so that comparing goes by what the clock is set to
	ran := time.Duration(0)
	if k.uptime != nil {
		up := k.uptime()
		ran, k.read = up-k.read, up
	}
	if k.settled.IsZero() {
		k.settled, ran = wall, 0 // the first reading of a new store
	}
	k.settled = k.settled.Add(ran)
	if k.uptime != nil && wall.After(k.settled.Add(maxLeap)) {
		if k.doubted += max(ran, 1); k.doubted < doubtFor {
			return wall, k.settled
		}
	}
	k.doubted = 0
	if wall.After(k.settled) {
		k.settled = wall
	}
	return k.settled, k.settled
}

// ClockRecord is the store's time as it is saved.
type ClockRecord struct {
	Time    int64 `json:"time"`              // ms since 1970
	Doubted int64 `json:"doubted,omitempty"` // ms for which the clock has been too far ahead
}

// LoadClock goes on with the store's time where the last process, or another one, left it. It is called before anything
// is stored. What is wrong with the system's clock is logged.
func (db *DB) LoadClock(ctx context.Context) error {
	rec, err := Get[ClockRecord](ctx, db, SystemTenant, StoreTime.Key())
	if errors.Is(err, ErrDamaged) {
		db.Log.Error("the record of the store's time is damaged; the system's clock is believed")
		return nil
	}
	if err != nil || rec == nil {
		return err
	}
	k := &db.time
	k.mu.Lock()
	k.settled, k.doubted = TimeOf(rec.Time), time.Duration(rec.Doubted)*time.Millisecond
	k.saved = k.settled
	k.mu.Unlock()
	wall := k.clock()
	switch now, settled := k.times(); {
	case now.After(settled):
		db.Log.Warn("the system's clock is far ahead of the time at which this store was used last; until the server "+
			"has run for a day nothing is removed that is not old by the store's own time",
			"clock", wall.UTC(), "store", settled)
	case settled.Sub(wall) > tellBehind:
		db.Log.Warn("the system's clock is behind the time of this store, which never goes back; check the clock",
			"clock", wall.UTC(), "store", settled)
	}
	return nil
}

// SaveClock stores the store's time, where it has moved by a minute since.
func (db *DB) SaveClock(ctx context.Context) error {
	_, settled := db.time.times()
	db.time.mu.Lock()
	due, doubted := settled.Sub(db.time.saved) >= saveEvery, db.time.doubted
	db.time.mu.Unlock()
	if !due {
		return nil
	}
	_, err := Update(ctx, db, ident.Caller{Tenant: SystemTenant}, ident.Once{}, func(t *Tx) (struct{}, error) {
		before, err := GetTx[ClockRecord](t, StoreTime.Key())
		if errors.Is(err, ErrDamaged) {
			before, err = nil, nil
		}
		if err != nil || before != nil && before.Time > settled.UnixMilli() {
			return struct{}{}, err
		}
		rec := ClockRecord{settled.UnixMilli(), doubted.Milliseconds()}
		return struct{}{}, t.PutJSON(StoreTime.Key(), rec)
	})
	if err == nil {
		db.time.mu.Lock()
		db.time.saved = settled
		db.time.mu.Unlock()
	}
	return err
}

// MeasureBy sets what tells how long the process runs, where New was given a clock. Without it that clock is believed
// however far it leaps.
func (db *DB) MeasureBy(uptime func() time.Duration) { db.time.uptime, db.time.read = uptime, uptime() }

// Now is the time for what is stored and for what is asked, in UTC at the millisecond, the precision that records keep.
// It never goes back, not even over a restart, but for a leap that was doubted: where the clock is set right within a
// day, Now is right again.
func (db *DB) Now() time.Time {
	now, _ := db.time.times()
	return ToTheMillisecond(now)
}

// Settled is the time that decides what is old enough to be removed. It is Now, or before Now while the system's clock
// is further ahead than is believed.
func (db *DB) Settled() time.Time {
	_, settled := db.time.times()
	return ToTheMillisecond(settled)
}

// AsOf is Settled while that is not Now, and nil otherwise.
func (db *DB) AsOf() *time.Time {
	now, settled := db.time.times()
	if now.Equal(settled) {
		return nil
	}
	settled = ToTheMillisecond(settled)
	return &settled
}
