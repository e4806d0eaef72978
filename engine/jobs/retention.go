package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// RetentionRun is how many records a run of the daily job removed, by kind of data.
type RetentionRun struct {
	Removed  map[string]int `json:"removed"`
	Finished bool           `json:"finished"` // false if there is more, which is removed in the background
	// AsOf is set while the system's clock is implausibly far ahead: ages were computed as of this time instead.
	AsOf *time.Time `json:"as_of,omitempty"`
}

const (
	// retentionPeriod is the interval of the daily job. retentionRetry is the interval if something could not be
	// removed.
	retentionPeriod = 24 * time.Hour
	retentionRetry  = time.Hour
	// piecesOnDemand is the maximum number of pieces in one run on demand, and piecesOfStep that of pieces in one step
	// that remove nothing.
	piecesOnDemand = 1000
	piecesOfStep   = 64
)

// Daily is one kind of data that is removed by age. Packages have a method Dailies that lists theirs.
type Daily struct {
	// Name is shown to clients and stored in records.
	Name string
	// Piece removes a limited amount of what is due. It begins at the position that the previous piece returned, which
	// is nil at first. It returns how many records it removed, and where the next piece begins; nil at the end. After
	// an error, the next piece may begin elsewhere. Running a piece twice does no harm.
	Piece func(ctx context.Context, tenant string, at []byte) (removed int, next []byte, err error)
}

// dailiesOf returns the dailies of a tenant, or of the system space.
func (svc *Service) dailiesOf(tenant string) []Daily {
	if tenant == records.SystemTenant {
		return svc.SystemDailies
	}
	return svc.Dailies
}

// RetentionState is the state of a tenant's daily job.
type RetentionState struct {
	Next    time.Time `json:"next"`              // when it is due
	Kind    string    `json:"kind,omitempty"`    // the Daily with which a run continues; empty if no run is under way
	At      []byte    `json:"at,omitempty"`      // where it continues
	Failing bool      `json:"failing,omitempty"` // something could not be removed in this run
}

// stepRetention does part of the tenant's daily job, if it is due. found is the job's record.
func (svc *Service) stepRetention(ctx context.Context, tenant string, found store.Item) (done bool, err error) {
	var s RetentionState
	if found.Value != nil {
		if err := json.Unmarshal(found.Value, &s); err != nil {
			s = RetentionState{} // the job starts again
		}
	}
	// A new store has nothing to remove, so the first run is a day away.
	if tenant == records.SystemTenant && found.Value == nil && !found.Damaged {
		return true, svc.saveRetention(ctx, tenant, &RetentionState{Next: svc.db.Now().Add(retentionPeriod)}, nil)
	}
	if svc.db.Now().Before(s.Next) {
		return false, nil
	}
	var failed error
	for range piecesOfStep {
		removed, err := svc.retentionPiece(ctx, tenant, &s)
		failed = errors.Join(failed, err)
		if removed > 0 || s.Kind == "" {
			break
		}
	}
	err = svc.saveRetention(ctx, tenant, &s, &found)
	known, ok := errors.AsType[*fault.Error](err)
	switch {
	case ok && (known.Kind == fault.NotFound || known.Kind == fault.Unauthorized):
		return false, nil // the tenant was deleted in the meantime
	case errors.Is(err, errRetentionElsewhere):
		return false, failed
	}
	return err == nil, errors.Join(failed, err)
}

// retentionPiece does one piece of a run and advances s. After an error, the run continues with the next Daily.
func (svc *Service) retentionPiece(ctx context.Context, tenant string, s *RetentionState) (removed int, err error) {
	kinds := svc.dailiesOf(tenant)
	i := max(0, slices.IndexFunc(kinds, func(k Daily) bool { return k.Name == s.Kind }))
	removed, next, err := kinds[i].Piece(ctx, tenant, s.At)
	if err != nil {
		if ctx.Err() != nil {
			return removed, err
		}
		s.Failing = true
	}
	s.Kind, s.At = kinds[i].Name, next
	if next != nil {
		return removed, err
	}
	if i++; i < len(kinds) {
		s.Kind = kinds[i].Name
		return removed, err
	}
	after := retentionPeriod
	if s.Failing {
		after = retentionRetry
	}
	*s = RetentionState{Next: svc.db.Now().Add(after)}
	return removed, err
}

// errRetentionElsewhere means that another process has advanced the job.
var errRetentionElsewhere = errors.New("another process does the daily job")

// saveRetention stores s. If found is not nil, the record must still equal it; otherwise saveRetention returns
// errRetentionElsewhere.
func (svc *Service) saveRetention(ctx context.Context, tenant string, s *RetentionState, found *store.Item) error {
	type none = struct{}
	c, key := ident.Caller{Tenant: tenant}, records.DailyJob.Key()
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (none, error) {
		if found != nil && !found.Damaged {
			now, err := t.Get(key)
			if err != nil {
				return none{}, err
			}
			if !bytes.Equal(now[0].Value, found.Value) {
				return none{}, errRetentionElsewhere
			}
		}
		return none{}, t.PutJSON(key, s)
	})
	return err
}

// RunRetention does the work of the daily job now, without changing when the job is due. If that is too much for one
// request, the background work continues at once, and Finished is false. It returns key_narrowed.
func (svc *Service) RunRetention(ctx context.Context, c ident.Caller) (RetentionRun, error) {
	out := RetentionRun{Removed: map[string]int{}, AsOf: svc.db.AsOf()}
	if err := c.WholeTenant(); err != nil {
		return out, err
	}
	kinds := svc.dailiesOf(c.Tenant)
	for _, kind := range kinds {
		out.Removed[kind.Name] = 0
	}
	s := RetentionState{Kind: kinds[0].Name}
	for range piecesOnDemand {
		kind := s.Kind
		n, err := svc.retentionPiece(ctx, c.Tenant, &s)
		if err != nil {
			return out, err
		}
		out.Removed[kind] += n
		if s.Kind == "" {
			out.Finished = true
			return out, nil
		}
	}
	err := svc.saveRetention(ctx, c.Tenant, &s, nil)
	svc.background.add(c.Tenant)
	return out, err
}
