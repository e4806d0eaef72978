package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

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

// daily is one kind of data that goes by age. piece removes what is due in one bounded piece, going on at the place
// where the last piece ended, nil being the beginning; it says how much it removed and where the next piece begins, nil
// being the end. After an error the next piece is another one. A piece done twice does no harm. Names are shown to
// clients and stand in records. Each room has a method that lists its dailies.
type daily struct {
	name  string
	piece func(ctx context.Context, tenant string, at []byte) (removed int, next []byte, err error)
}

// dailiesOf lists all that goes by age in a tenant's space, or in the system space.
func (e *Engine) dailiesOf(tenant string) []daily {
	if tenant == systemTenant {
		return e.systemDailies
	}
	return e.dailies
}

// retentionState is a tenant's daily job: when it is due, and where one under way goes on.
type retentionState struct {
	Next    time.Time `json:"next"`
	Kind    string    `json:"kind,omitempty"`
	At      []byte    `json:"at,omitempty"`
	Failing bool      `json:"failing,omitempty"` // a kind of this run could not be removed
}

// stepRetention does some of the tenant's daily job, of which found is the record, where it is due.
func (e *Engine) stepRetention(ctx context.Context, tenant string, found store.Item) (done bool, err error) {
	var s retentionState
	if found.Value != nil {
		if err := json.Unmarshal(found.Value, &s); err != nil {
			s = retentionState{} // begins anew
		}
	}
	if tenant == systemTenant && found.Value == nil && !found.Damaged { // a new folder: nothing was removed yet
		return true, e.saveRetention(ctx, tenant, &retentionState{Next: e.now().Add(retentionPeriod)}, nil)
	}
	if e.now().Before(s.Next) {
		return false, nil
	}
	var failed error
	for range piecesOfStep {
		removed, err := e.retentionPiece(ctx, tenant, &s)
		failed = errors.Join(failed, err)
		if removed > 0 || s.Kind == "" {
			break
		}
	}
	err = e.saveRetention(ctx, tenant, &s, &found)
	if known, ok := errors.AsType[*Error](err); ok && (known.Kind == NotFound || known.Kind == Unauthorized) {
		return false, nil // the tenant was deleted meanwhile
	}
	if errors.Is(err, errRetentionElsewhere) {
		return false, failed // and goes on there
	}
	return err == nil, errors.Join(failed, err)
}

// retentionPiece does one piece of a run and moves s on. After an error of one kind the others have their turn.
func (e *Engine) retentionPiece(ctx context.Context, tenant string, s *retentionState) (removed int, err error) {
	kinds := e.dailiesOf(tenant)
	i := max(0, slices.IndexFunc(kinds, func(k daily) bool { return k.name == s.Kind }))
	removed, next, err := kinds[i].piece(ctx, tenant, s.At)
	if err != nil {
		if ctx.Err() != nil {
			return removed, err
		}
		s.Failing = true
	}
	s.Kind, s.At = kinds[i].name, next
	if next != nil {
		return removed, err
	}
	if i++; i < len(kinds) {
		s.Kind = kinds[i].name
		return removed, err
	}
	after := retentionPeriod
	if s.Failing {
		after = retentionRetry
	}
	*s = retentionState{Next: e.now().Add(after)}
	return removed, err
}

// errRetentionElsewhere: another process moved the job on meanwhile.
var errRetentionElsewhere = errors.New("another process does the daily job")

// saveRetention moves the job on. With found it does so only where the job is as it was found.
func (e *Engine) saveRetention(ctx context.Context, tenant string, s *retentionState, found *store.Item) error {
	_, err := update(ctx, e, Caller{Tenant: tenant}, Once{}, func(t *tx) (struct{}, error) {
		if found != nil && !found.Damaged {
			now, err := t.get(kindDailyJob.Key())
			if err != nil {
				return struct{}{}, err
			}
			if !bytes.Equal(now[0].Value, found.Value) {
				return struct{}{}, errRetentionElsewhere
			}
		}
		return struct{}{}, t.putJSON(kindDailyJob.Key(), s)
	})
	return err
}

// RunRetention does the daily job's work now, without changing when the job is due. What is too much for one request is
// done by the job, at once. It answers key_narrowed.
func (e *Engine) RunRetention(ctx context.Context, c Caller) (RetentionRun, error) {
	out := RetentionRun{Removed: map[string]int{}}
	if err := c.wholeTenant(); err != nil {
		return out, err
	}
	kinds := e.dailiesOf(c.Tenant)
	for _, kind := range kinds {
		out.Removed[kind.name] = 0
	}
	s := retentionState{Kind: kinds[0].name}
	for range piecesOnDemand {
		kind := s.Kind
		n, err := e.retentionPiece(ctx, c.Tenant, &s)
		if err != nil {
			return out, err
		}
		out.Removed[kind] += n
		if s.Kind == "" {
			out.Finished = true
			return out, nil
		}
	}
	err := e.saveRetention(ctx, c.Tenant, &s, nil)
	e.background.add(c.Tenant)
	return out, err
}
