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

// RetentionRun says how many records a run of the daily job removed, by kind of data.
type RetentionRun struct {
	Removed  map[string]int `json:"removed"`
	Finished bool           `json:"finished"` // false: there is more, and it goes on in the background
	// AsOf is given while the system's clock is too far ahead to be believed: ages were held against this time.
	AsOf *time.Time `json:"as_of,omitempty"`
}

const (
	// retentionPeriod is how often the daily job runs, and retentionRetry how soon where it could not remove
	// everything.
	retentionPeriod = 24 * time.Hour
	retentionRetry  = time.Hour
	// piecesOnDemand bounds the pieces of one run on demand, piecesOfStep those of one step that find nothing.
	piecesOnDemand = 1000
	piecesOfStep   = 64
)

// Daily is one kind of data that goes by age. Each room has a method that lists its dailies.
type Daily struct {
	// Name is shown to clients and stands in records.
	Name string
	// Piece removes what is due in one bounded piece. It begins at the place where the piece before ended, which is nil
	// at first. It says how much it removed and where the next piece begins; nil is the end. After an error the next
	// piece may begin elsewhere. A piece that is done twice does no harm.
	Piece func(ctx context.Context, tenant string, at []byte) (removed int, next []byte, err error)
}

// dailiesOf lists all that goes by age in a tenant's space, or in the system space.
func (svc *Service) dailiesOf(tenant string) []Daily {
	if tenant == records.SystemTenant {
		return svc.SystemDailies
	}
	return svc.Dailies
}

// RetentionState is a tenant's daily job.
type RetentionState struct {
	Next    time.Time `json:"next"`              // when it is due
	Kind    string    `json:"kind,omitempty"`    // the Daily that a run goes on with; empty: no run is under way
	At      []byte    `json:"at,omitempty"`      // where it goes on
	Failing bool      `json:"failing,omitempty"` // something could not be removed in this run
}

// stepRetention does some of the tenant's daily job, where it is due. found is the job's record.
func (svc *Service) stepRetention(ctx context.Context, tenant string, found store.Item) (done bool, err error) {
	var s RetentionState
	if found.Value != nil {
		if err := json.Unmarshal(found.Value, &s); err != nil {
			s = RetentionState{} // The job begins anew.
		}
	}
	// In a new store nothing was removed yet, so that the first run is a day away.
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
		return false, nil // the tenant was deleted meanwhile
	case errors.Is(err, errRetentionElsewhere):
		return false, failed
	}
	return err == nil, errors.Join(failed, err)
}

// retentionPiece does one piece of a run and moves s on. After an error the run goes on with the next Daily.
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

// errRetentionElsewhere says that another process moved the job on meanwhile.
var errRetentionElsewhere = errors.New("another process does the daily job")

// saveRetention stores s. With found it does so only where the record is as it was found, and answers
// errRetentionElsewhere where it is not.
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

// RunRetention does the daily job's work now, without changing when the job is due. Where that is too much for one
// request, the background goes on at once, and Finished is false. It answers key_narrowed.
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
