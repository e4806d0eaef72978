package stats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// writeEvery is the most that a killed server loses.
	writeEvery = 10 * time.Second
	// atOnce is the maximum number of records in one commit.
	atOnce = 256
	// lastWrite is the time limit of the last write when a server stops.
	lastWrite = 5 * time.Second
	// keptDays is how long counts are kept.
	keptDays = 90
)

func hourOf(t time.Time) uint32 { return uint32(t.Unix() / 3600) }

func timeOf(hour uint32) time.Time { return time.Unix(int64(hour)*3600, 0).UTC() }

// Run writes what has changed every ten seconds, until ctx ends, and then once more.
func (svc *Service) Run(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			svc.writeOrLog(ctx)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	svc.writeOrLog(last)
}

func (svc *Service) writeOrLog(ctx context.Context) {
	if err := svc.Write(ctx); err != nil && ctx.Err() == nil {
		svc.db.Log.Warn("counts of projects could not be written and will be retried", "error", err)
	}
}

// Write writes what has changed, and drops from memory what will not change any more. What could not be written is kept
// and written later.
func (svc *Service) Write(ctx context.Context) error {
	places := svc.changed()
	var failed error // an error of one tenant must not stop the others
	for len(places) > 0 {
		n := 1
		for n < min(len(places), atOnce) && places[n].tenant == places[0].tenant {
			n++
		}
		failed = errors.Join(failed, svc.writeSome(ctx, places[:n]))
		places = places[n:]
	}
	if lost := svc.evictWritten(); lost > 0 {
		svc.db.Log.Warn("turns and windows were not counted, because too many projects are counted at once", "count", lost)
	}
	return failed
}

// changed lists the places whose counts must be written, ordered by tenant.
func (svc *Service) changed() (places []place) {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	for at, c := range svc.held {
		if c.dirty {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.hour, b.hour),
			slices.Compare(a.project[:], b.project[:]))
	})
	return places
}

// writeSome writes counts of one tenant. If the tenant was deleted, it drops them.
func (svc *Service) writeSome(ctx context.Context, places []place) error {
	tenant := places[0].tenant
	live, err := svc.db.ReadItem(ctx, tenant, records.Live.Key())
	if err != nil {
		return err
	}
	if live.Value == nil && !live.Damaged {
		svc.mu.Lock()
		defer svc.mu.Unlock()
		for _, at := range places {
			svc.drop(at)
		}
		return nil
	}
	var b store.Batch
	for _, at := range places {
		pair, err := svc.encode(at)
		if err != nil {
			return err
		}
		if pair.Key != nil {
			b.Put = append(b.Put, pair)
		}
	}
	if err = svc.db.Commit(ctx, tenant, b); err != nil {
		svc.mu.Lock()
		defer svc.mu.Unlock()
		for _, at := range places {
			if c := svc.held[at]; c != nil {
				c.dirty = true
			}
		}
	}
	return err
}

// encode encodes a count, and marks it as written. The key is nil if the count is no longer in memory.
func (svc *Service) encode(at place) (store.Pair, error) {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	c := svc.held[at]
	if c == nil {
		return store.Pair{}, nil
	}
	value, err := json.Marshal(&c.Record)
	if err == nil {
		c.dirty = false
	}
	return store.Pair{Key: records.Stats.Key(at.project, at.hour, c.writer), Value: value}, err
}

// evictWritten drops written counts of earlier hours from memory, and all written counts if memory is full. It returns how
// many turns and windows were not counted since the last call.
func (svc *Service) evictWritten() (lost uint64) {
	now := hourOf(svc.db.Now())
	svc.mu.Lock()
	defer svc.mu.Unlock()
	full := len(svc.held) >= svc.most
	for at, c := range svc.held {
		if !c.dirty && (at.hour != now || full) {
			svc.drop(at)
		}
	}
	lost, svc.lost = svc.lost, 0
	return lost
}

func (svc *Service) drop(at place) {
	// A count under an earlier writer id cannot collide with a later one.
	if c := svc.held[at]; c != nil && c.writer == svc.writer {
		svc.dropped = max(svc.dropped, at.hour)
	}
	delete(svc.held, at)
}

// Dailies returns the daily work of stats: removing old counts and those of deleted projects.
func (svc *Service) Dailies() []jobs.Daily { return []jobs.Daily{{Name: "stats", Piece: svc.expire}} }

// expire removes some of the counts that are too old or belong to deleted projects. The position that it returns is the
// incarnation of the project to continue after.
func (svc *Service) expire(ctx context.Context, tenant string, at []byte) (int, []byte, error) {
	all := records.Stats.All()
	if len(at) == len(ident.Incarnation{}) {
		all.From = records.Stats.Under(ident.Incarnation(at)).From
	}
	oldest := hourOf(oldestOf(svc.db.Settled()))
	var living map[ident.Incarnation]bool
	for {
		first, err := svc.db.FirstKey(ctx, tenant, all)
		if err != nil || first == nil {
			return 0, nil, err
		}
		if living == nil {
			if living, err = svc.projects.Living(ctx, tenant); err != nil {
				return 0, nil, err
			}
		}
		pinc, _, _, ok := records.Stats.Split(first.Key)
		if !ok {
			return 0, nil, records.ErrDamaged
		}
		due := records.Stats.Under(pinc)
		all.From = due.To
		if living[pinc] {
			due.To = records.Stats.Under2(pinc, oldest).From
		}
		if n, err := svc.db.DeleteSome(ctx, tenant, due); err != nil {
			return 0, nil, err
		} else if n > 0 {
			return n, pinc[:], nil
		}
	}
}

// oldestOf returns the earliest time of which counts are kept.
func oldestOf(now time.Time) time.Time {
	return now.Truncate(24*time.Hour).AddDate(0, 0, -keptDays)
}

// Sweep removes some of a deleted project's counts, and reports whether there were any.
func (svc *Service) Sweep(ctx context.Context, tenant string, pinc ident.Incarnation) (more bool, err error) {
	return svc.db.DeleteRange(ctx, tenant, records.Stats.Under(pinc))
}
