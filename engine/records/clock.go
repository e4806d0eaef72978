package records

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

const (
	// maxLeap is the largest difference between the system clock and the store's time that is trusted at once. It
	// allows for servers that are stopped overnight.
	maxLeap = 24 * time.Hour
	// doubtFor is the time that a server must run with a clock that is further ahead before the clock is trusted.
	doubtFor = 24 * time.Hour
	// saveEvery is how far the store's time advances before it is saved again.
	saveEvery = time.Minute
	// tellBehind is how far the system clock may be behind before the operator is warned.
	tellBehind = time.Minute
)

// timekeeper computes the time of a store. The system clock may be set wrong and corrected later. What has expired
// must stay expired, and a clock that leaps ahead must not make fresh data old enough to be removed. The store's time
// never goes back, advances at least as fast as the process runs, and follows a clock that leaps ahead only after the
// process has run with that clock for a day.
type timekeeper struct {
	clock  func() time.Time     // the system clock
	uptime func() time.Duration // the running time of the process, independent of the clock; nil means that the clock is trusted

	mu      sync.Mutex
	settled time.Time     // the store's time
	read    time.Duration // the uptime at the last reading
	doubted time.Duration // the running time for which the clock has been too far ahead; 0 if it is not
	saved   time.Time     // the store's time when it was last saved
}

// times returns the time for new records, and the time by which records are old enough to be removed. They differ
// while the system clock is too far ahead to be trusted.
func (k *timekeeper) times() (now, settled time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wall := k.clock().Round(0) // without the monotonic reading, so that comparisons use the wall clock
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

// LoadClock restores the store's time as the last process, or another one, saved it. It must be called before
// anything is stored. It logs a system clock that is wrong.
func (db *DB) LoadClock(ctx context.Context) error {
	rec, err := Get[ClockRecord](ctx, db, SystemTenant, StoreTime.Key())
	if errors.Is(err, ErrDamaged) {
		db.Log.Error("the record of the store's time is damaged; the system's clock is used instead")
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
			"has run for a day, only data that is old by the store's own time is deleted",
			"clock", wall.UTC(), "store", settled)
	case settled.Sub(wall) > tellBehind:
		db.Log.Warn("the system's clock is behind the time of this store, which never goes back; check the clock",
			"clock", wall.UTC(), "store", settled)
	}
	return nil
}

// SaveClock stores the store's time if it has advanced by a minute since it was last saved.
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

// MeasureBy sets the function that returns the running time of the process, for a DB whose clock was passed to New.
// Without it, that clock is trusted however far it leaps.
func (db *DB) MeasureBy(uptime func() time.Duration) { db.time.uptime, db.time.read = uptime, uptime() }

// Now returns the time for new records and for requests, in UTC with millisecond precision, as records store it. It
// never goes back, not even over a restart, with one exception: if the clock leaps ahead and is corrected within a
// day, Now is correct again.
func (db *DB) Now() time.Time {
	now, _ := db.time.times()
	return ToTheMillisecond(now)
}

// Settled returns the time by which records are old enough to be removed. It equals Now, or is earlier while the
// system clock is too far ahead to be trusted.
func (db *DB) Settled() time.Time {
	_, settled := db.time.times()
	return ToTheMillisecond(settled)
}

// AsOf returns Settled if it differs from Now, and nil otherwise.
func (db *DB) AsOf() *time.Time {
	now, settled := db.time.times()
	if now.Equal(settled) {
		return nil
	}
	settled = ToTheMillisecond(settled)
	return &settled
}
