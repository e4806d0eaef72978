package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// retentionPeriod is how often what is kept is held against how long it may be.
const retentionPeriod = 24 * time.Hour

// retentionRetry is when the job begins again where it could not remove everything.
const retentionRetry = time.Hour

// A run on demand goes through so many pieces at most, and one step of the daily job through so many that find nothing.
const (
	piecesOnDemand = 1000
	piecesOfStep   = 64
)

// retained is one kind of data that goes by age. expire removes what is due in one bounded piece, going on at the place
// where the last piece ended, nil being the beginning; it says how much it removed and where the next piece begins, nil
// being the end. After an error the next piece is another one. A piece done twice does no harm.
type retained struct {
	name   string
	expire func(ctx context.Context, tenant string, at []byte) (removed int, next []byte, err error)
}

// retained lists all that goes by age: what is kept for a time belongs here. Names are shown to clients and stand in
// records.
func (e *Engine) retained(tenant string) []retained {
	if tenant == systemTenant {
		return []retained{{"files", e.compactStore}}
	}
	return []retained{
		{"conversations", e.ofEachProject(e.expireConversations)},
		{"decisions", e.ofEachProject(e.expireDecisions)},
		{"decisions_of_deleted_projects", e.expireOrphans},
	}
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

// retentionPiece does one piece of a run and moves s on. One kind's trouble does not keep others from their turn.
func (e *Engine) retentionPiece(ctx context.Context, tenant string, s *retentionState) (removed int, err error) {
	kinds := e.retained(tenant)
	i := max(0, slices.IndexFunc(kinds, func(k retained) bool { return k.name == s.Kind }))
	removed, next, err := kinds[i].expire(ctx, tenant, s.At)
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
			now, err := t.get(retentionKey)
			if err != nil {
				return struct{}{}, err
			}
			if !bytes.Equal(now[0].Value, found.Value) {
				return struct{}{}, errRetentionElsewhere
			}
		}
		return struct{}{}, t.putJSON(retentionKey, s)
	})
	return err
}

// RunRetention does the daily job's work now. It leaves the job's own times as they are; what is too much for one
// request is done by the job, at once.
func (e *Engine) RunRetention(ctx context.Context, c Caller) (RetentionRun, error) {
	out := RetentionRun{Removed: map[string]int{}}
	if err := c.wholeTenant(); err != nil {
		return out, err
	}
	for _, kind := range e.retained(c.Tenant) {
		out.Removed[kind.name] = 0
	}
	s := retentionState{Kind: e.retained(c.Tenant)[0].name}
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

// ofEachProject makes a kind out of what is done project by project, in the order of their ids. A place is the
// project's id, a zero byte, and a place within the project.
func (e *Engine) ofEachProject(expire func(ctx context.Context, tenant string, p *project, s Settings, at []byte) (
	removed int, next []byte, err error)) func(context.Context, string, []byte) (int, []byte, error) {
	return func(ctx context.Context, tenant string, at []byte) (int, []byte, error) {
		id, within, _ := bytes.Cut(at, []byte{sep})
		all := prefixRange(projectKey("")[:2])
		all.From, all.Limit = append(all.From, id...), 2
		r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{all}})
		if err != nil || len(r.Ranges[0]) == 0 {
			return 0, nil, err
		}
		found := r.Ranges[0]
		name := func(it store.Item) []byte { return it.Key[2 : len(it.Key)-1] }
		if !bytes.Equal(name(found[0]), id) || len(within) == 0 {
			within = nil // it was deleted meanwhile, and this is the next one
		}
		var following []byte
		if len(found) > 1 {
			following = append(bytes.Clone(name(found[1])), sep)
		}
		p := new(project)
		if found[0].Damaged || json.Unmarshal(found[0].Value, p) != nil {
			e.log.Error("a project's record is damaged; its data is not held against its retention", "tenant", tenant)
			return 0, following, nil
		}
		s, err := e.settings(p.Set)
		if err != nil {
			return 0, nil, err
		}
		removed, next, err := expire(ctx, tenant, p, s, within)
		if gone, ok := errors.AsType[*Error](err); ok && gone.Kind == NotFound {
			return removed, following, nil // deleted meanwhile
		}
		if err == nil && next != nil {
			following = append(append(bytes.Clone(name(found[0])), sep), next...)
		}
		return removed, following, err
	}
}

// expireConversations removes conversations that are past their project's retention.
func (e *Engine) expireConversations(ctx context.Context, tenant string, p *project, s Settings, at []byte) (int, []byte,
	error) {
	if s.ConversationRetentionDays == nil {
		return 0, nil, nil
	}
	job := &purge{caller: Caller{Tenant: tenant}, project: p.ID, action: "conversations.expire",
		before: daysAgo(e.now(), *s.ConversationRetentionDays)}
	return e.purgeSome(ctx, job, p.Incarnation, at)
}

// expireDecisions removes a chunk of decisions that are past their project's retention.
func (e *Engine) expireDecisions(ctx context.Context, tenant string, p *project, s Settings, _ []byte) (int, []byte,
	error) {
	oldest := day(e.now().AddDate(0, 0, -s.DecisionRetentionDays))
	for _, rng := range []store.Range{
		{From: decisionPrefix(p.Incarnation), To: decisionDayPrefix(p.Incarnation, oldest)},
		{From: effectivePrefix(p.Incarnation), To: effectiveKey(p.Incarnation, oldest, [16]byte{})},
	} {
		if n, err := e.deleteSome(ctx, tenant, rng); n > 0 || err != nil {
			return n, []byte{1}, err
		}
	}
	return 0, nil, nil
}

// expireOrphans removes a chunk of decisions of projects that are no more: a window may have been answered while its
// project was being deleted.
func (e *Engine) expireOrphans(ctx context.Context, tenant string, _ []byte) (int, []byte, error) {
	living, err := e.livingProjects(ctx, tenant)
	if err != nil {
		return 0, nil, err
	}
	for _, kind := range []byte{'d', 'e'} {
		all := prefixRange([]byte{store.Loose, kind})
		for {
			first, err := e.firstKey(ctx, tenant, all)
			if err != nil {
				return 0, nil, err
			}
			if first == nil {
				break
			}
			of := prefixRange(first.Key[:2+8])
			if !living[incarnation(first.Key[2:2+8])] {
				n, err := e.deleteSome(ctx, tenant, of)
				if err != nil {
					return 0, nil, err
				}
				return n, []byte{1}, nil
			}
			all.From = of.To
		}
	}
	return 0, nil, nil
}

func (e *Engine) livingProjects(ctx context.Context, tenant string) (map[incarnation]bool, error) {
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{prefixRange(projectKey("")[:2])}})
	if err != nil {
		return nil, err
	}
	living := map[incarnation]bool{}
	for _, it := range r.Ranges[0] {
		var p project
		if it.Damaged {
			return nil, errDamaged
		}
		if err := json.Unmarshal(it.Value, &p); err != nil {
			return nil, err
		}
		living[p.Incarnation] = true
	}
	return living, nil
}

// removals tells which sorts of keys were removed since the store's files were last rid of them. An earlier process may
// have left some: both begin as if.
type removals struct{ main, loose atomic.Bool }

func (r *removals) of(loose bool) *atomic.Bool {
	if loose {
		return &r.loose
	}
	return &r.main
}

// compactStore has the store's files rid of what was removed, where the store can do that and anything was.
func (e *Engine) compactStore(ctx context.Context, _ string, _ []byte) (int, []byte, error) {
	s, ok := e.store.(interface {
		Compact(ctx context.Context, loose bool) error
	})
	if !ok {
		return 0, nil, nil
	}
	for _, loose := range []bool{false, true} {
		pending := e.removed.of(loose)
		if !pending.Swap(false) {
			continue
		}
		if err := s.Compact(ctx, loose); err != nil {
			pending.Store(true)
			return 0, nil, err
		}
	}
	return 0, nil, nil
}
