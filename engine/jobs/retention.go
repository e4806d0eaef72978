package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// RetentionRun says what a run of the daily job removed, by kind of data.
type RetentionRun struct {
	Removed  map[string]int `json:"removed"`
	Finished bool           `json:"finished"` // false: there is more, and it goes on in the background
}

// retentionPeriod is how often what is kept is held against how long it may be.
const retentionPeriod = 24 * time.Hour

// retentionRetry is when the job begins again where it could not remove everything.
const retentionRetry = time.Hour

// A run on demand goes through so many pieces at most, and one step of the daily job through so many that find nothing.
const (
	piecesOnDemand = 1000
	piecesOfStep   = 64
)

// Daily is one kind of data that goes by age. piece removes what is due in one bounded piece, going on at the place
// where the last piece ended, nil being the beginning; it says how much it removed and where the next piece begins, nil
// being the end. After an error the next piece is another one. A piece done twice does no harm. Names are shown to
// clients and stand in records. Each room has a method that lists its dailies.
type Daily struct {
	Name  string
	Piece func(ctx context.Context, tenant string, at []byte) (removed int, next []byte, err error)
}

// dailiesOf lists all that goes by age in a tenant's space, or in the system space.
func (svc *Service) dailiesOf(tenant string) []Daily {
	if tenant == records.SystemTenant {
		return svc.SystemDailies
	}
	return svc.Dailies
}

// RetentionState is a tenant's daily job: when it is due, and where one under way goes on.
type RetentionState struct {
	Next    time.Time `json:"next"`
	Kind    string    `json:"kind,omitempty"`
	At      []byte    `json:"at,omitempty"`
	Failing bool      `json:"failing,omitempty"` // a kind of this run could not be removed
}

// stepRetention does some of the tenant's daily job, of which found is the record, where it is due.
func (svc *Service) stepRetention(ctx context.Context, tenant string, found store.Item) (done bool, err error) {
	var s RetentionState
	if found.Value != nil {
		if err := json.Unmarshal(found.Value, &s); err != nil {
			s = RetentionState{} // begins anew
		}
	}
	if tenant == records.SystemTenant && found.Value == nil && !found.Damaged { // a new folder: nothing was removed yet
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
	if known, ok := errors.AsType[*fault.Error](err); ok && (known.Kind == fault.NotFound || known.Kind == fault.Unauthorized) {
		return false, nil // the tenant was deleted meanwhile
	}
	if errors.Is(err, errRetentionElsewhere) {
		return false, failed // and goes on there
	}
	return err == nil, errors.Join(failed, err)
}

// retentionPiece does one piece of a run and moves s on. After an error of one kind the others have their turn.
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

// errRetentionElsewhere: another process moved the job on meanwhile.
var errRetentionElsewhere = errors.New("another process does the daily job")

// saveRetention moves the job on. With found it does so only where the job is as it was found.
func (svc *Service) saveRetention(ctx context.Context, tenant string, s *RetentionState, found *store.Item) error {
	_, err := records.Update(ctx, svc.db, access.Caller{Tenant: tenant}, access.Once{}, func(t *records.Tx) (struct{}, error) {
		if found != nil && !found.Damaged {
			now, err := t.Get(records.DailyJob.Key())
			if err != nil {
				return struct{}{}, err
			}
			if !bytes.Equal(now[0].Value, found.Value) {
				return struct{}{}, errRetentionElsewhere
			}
		}
		return struct{}{}, t.PutJSON(records.DailyJob.Key(), s)
	})
	return err
}

// RunRetention does the daily job's work now, without changing when the job is due. What is too much for one request is
// done by the job, at once. It answers key_narrowed.
func (svc *Service) RunRetention(ctx context.Context, c access.Caller) (RetentionRun, error) {
	out := RetentionRun{Removed: map[string]int{}}
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
