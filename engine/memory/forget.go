package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Forgotten is the response to a request to forget. Forgotten is false if there was no such memory, or in a dry run.
type Forgotten struct {
	Key       string   `json:"key"`
	Namespace []string `json:"namespace,omitempty"`
	Forgotten bool     `json:"forgotten"`
}

// Forget deletes a memory by its full name, with its history, in one commit. The commit marks its documents in the
// index as dead, so that they no longer count. They are removed before Forget returns, or by the index's job if the
// store fails then. Forgetting a missing memory succeeds, and the response says so.
func (svc *Service) Forget(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string) (
	Forgotten, error,
) {
	return svc.forgetOne(ctx, c, once, projectID, id, nil, Precondition{})
}

// ForgetIf is like Forget with a precondition. It returns version_mismatch if the memory is not as expected.
func (svc *Service) ForgetIf(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string,
	expected Precondition) (Forgotten, error) {
	return svc.forgetOne(ctx, c, once, projectID, id, nil, expected)
}

// ForgetPassing is like Forget for a memory that matches a filter. It keeps other memories, as if they did not exist.
// It judges a damaged memory by its entry in the index by time, and keeps it if only its record could tell.
func (svc *Service) ForgetPassing(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string, f Filter) (
	Forgotten, error,
) {
	if err := f.Check(); err != nil {
		return Forgotten{}, err
	}
	return svc.forgetOne(ctx, c, once, projectID, id, &f, Precondition{})
}

// forgetOne deletes a memory that matches the filter, if there is one, and its words from the index.
func (svc *Service) forgetOne(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string, f *Filter,
	expected Precondition) (Forgotten, error) {
	c, err := reach(c, id)
	if err != nil {
		return Forgotten{}, err
	}
	var in *project.Record // set if the memory was deleted
	room := svc.tallies.Reserve(c.Tenant)
	forgotten, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (bool, error) {
		in = nil // another attempt may find something else
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil || !ident.ValidFullName(id) {
			return false, err
		}
		old, err := svc.expect(t, p.Incarnation, id)
		if isDamaged(err) {
			err = nil
			old = &Record{Memory: Memory{Damaged: true}}
		}
		if err == nil {
			err = expected.check(id, old.live(t.Now))
		}
		if err != nil || old == nil {
			return false, err
		}
		gone, err := svc.remove(t, p.Incarnation, id, old, f)
		if !gone || err != nil {
			return false, err
		}
		in = p
		if old.Damaged {
			return true, nil
		}
		return !old.expired(t.Now), svc.hold(t.Ctx, room, replacing(old, nil))
	})
	room.End(err == nil)
	if err == nil && in != nil {
		svc.settle(ctx, c.Tenant, in.Incarnation)
	}
	namespace, key := ident.SplitFullName(id)
	return Forgotten{key, namespace, forgotten}, err
}

// remove adds the writes that delete a memory that matches the filter, and reports whether there is one.
func (svc *Service) remove(t *records.Tx, pinc ident.Incarnation, id string, old *Record, f *Filter) (bool, error) {
	switch {
	case old.Damaged:
		return svc.deleteDamaged(t, pinc, id, f)
	case f != nil && !f.Passes(old, t.Now):
		return false, nil
	}
	return true, svc.delete(t, pinc, old)
}

// The limits of one request to forget by a filter.
const (
	defaultForget = 100
	maxForget     = 1000
)

// forgetMargin is how long before its deadline a request stops forgetting memories, so that the response arrives.
const forgetMargin = 2 * time.Second

// forgetChunk is the number of memories that one commit forgets.
const forgetChunk = 64

// ForgetMatching is a request to forget all memories that match a filter, which must have a condition.
type ForgetMatching struct {
	Filter
	DryRun bool   `json:"dry_run,omitempty"` // only report what would be forgotten
	Limit  int    `json:"limit,omitempty"`   // 0 means 100
	Cursor string `json:"cursor,omitempty"`
}

// ForgottenMatching lists the memories that matched. Count is the number that was forgotten: a memory that changed in
// the meantime and no longer matches is kept. If there are more, NextCursor continues.
type ForgottenMatching struct {
	Data       []Forgotten `json:"data"`
	DryRun     bool        `json:"dry_run"`
	Count      int         `json:"forgotten"`
	HasMore    bool        `json:"has_more"`
	NextCursor *string     `json:"next_cursor"`
}

// ForgetMatching forgets the memories that match a filter, in commits of at most forgetChunk memories, each with an
// audit entry that has its count. A memory is forgotten only if it still matches in that commit. Recall finds none of
// them from then on, and the index's job removes their words. It returns required if the filter has no conditions, and
// the errors of List.
func (svc *Service) ForgetMatching(ctx context.Context, c ident.Caller, projectID string, in ForgetMatching) (
	out ForgottenMatching, err error,
) {
	out = ForgottenMatching{Data: []Forgotten{}, DryRun: in.DryRun}
	if in.Limit == 0 {
		in.Limit = defaultForget
	}
	if in.Limit < 1 || in.Limit > maxForget {
		return out, fault.InvalidField("limit", "out_of_range", "must be from 1 to %d", maxForget)
	}
	if err := in.Check(); err != nil {
		return out, err
	}
	if in.none() {
		return out, fault.InvalidField("filter", "required",
			"say what to forget: a category, tags, a namespace, metadata or a time; use until with the current time to forget everything")
	}
	if c, in.Namespace, err = c.In(in.Namespace); err != nil {
		return out, err
	}
	if err := in.Check(); err != nil {
		return out, err
	}
	list, err := svc.List(ctx, c, projectID, in.Filter, Recent, records.Page{Limit: in.Limit, Cursor: in.Cursor})
	if err != nil {
		return out, err
	}
	out.HasMore, out.NextCursor = list.HasMore, list.NextCursor
	deadline, timed := ctx.Deadline()
	for some := range slices.Chunk(list.Data, forgetChunk) {
		if timed && time.Until(deadline) < forgetMargin && len(out.Data) > 0 {
			out.HasMore, out.NextCursor = true, nil // asking again finds the rest
			break
		}
		gone := make([]bool, len(some))
		if !in.DryRun {
			gone, err = svc.forgetSome(ctx, c, projectID, some, &in.Filter)
		}
		if err != nil && out.Count > 0 {
			out.HasMore, out.NextCursor = true, nil // the response reports what was forgotten; asking again returns the error
			return out, nil
		}
		if err != nil {
			return out, err
		}
		for i := range some {
			out.Data = append(out.Data, Forgotten{Key: some[i].Key, Namespace: some[i].Namespace, Forgotten: gone[i]})
			if gone[i] {
				out.Count++
			}
		}
	}
	return out, nil
}

// forgetSome forgets those of some memories that still match the filter, in one commit with its audit entry. It reports
// which they were.
func (svc *Service) forgetSome(ctx context.Context, c ident.Caller, projectID string, some []Memory, f *Filter) (
	gone []bool, err error,
) {
	ids := make([]string, len(some))
	for i := range some {
		ids[i] = some[i].ID()
	}
	room := svc.tallies.Reserve(c.Tenant)
	_, err = records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (struct{}, error) {
		gone = make([]bool, len(some)) // another attempt may find something else
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil {
			return struct{}{}, err
		}
		found, err := svc.expectAll(t, p.Incarnation, ids...)
		if err != nil {
			return struct{}{}, err
		}
		var change records.Amount
		count := 0
		for i, old := range found {
			if old == nil {
				continue
			}
			if gone[i], err = svc.remove(t, p.Incarnation, ids[i], old, f); err != nil {
				return struct{}{}, err
			}
			if gone[i] {
				count++
			}
			if gone[i] && !old.Damaged {
				change.Add(replacing(old, nil))
			}
		}
		if count == 0 {
			return struct{}{}, nil
		}
		if err := svc.hold(t.Ctx, room, change); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, tenant.Audit(t, c, "memory.forget", projectID, fmt.Sprintf("%d memories by a filter", count))
	})
	room.End(err == nil)
	return gone, err
}
