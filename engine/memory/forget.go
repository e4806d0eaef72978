package memory

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Forgotten answers a request to forget. Forgotten is false where there was no such memory, or where it is only looked
// at what would be forgotten.
type Forgotten struct {
	Key       string   `json:"key"`
	Namespace []string `json:"namespace,omitempty"`
	Forgotten bool     `json:"forgotten"`
}

// Forget removes a memory by its full name and its history in one commit, in which its documents in the index are marked
// as dead and count for nothing. They are removed before Forget returns, or by the index's job where the store fails
// then. Forgetting what is not there succeeds, and says so.
func (svc *Service) Forget(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string) (
	Forgotten, error,
) {
	return svc.forgetOne(ctx, c, once, projectID, id, nil)
}

// ForgetIf is Forget for a memory that passes a filter; another is kept, as if it were not there. Of a memory that is
// damaged its entry in the index by time says whether it passes; one that only its record could tell about is kept.
func (svc *Service) ForgetIf(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string, f Filter) (
	Forgotten, error,
) {
	if err := f.Check(); err != nil {
		return Forgotten{}, err
	}
	return svc.forgetOne(ctx, c, once, projectID, id, &f)
}

// forgetOne removes a memory that passes the filter, where there is one, and its words from the index.
func (svc *Service) forgetOne(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string, f *Filter) (
	Forgotten, error,
) {
	out, in, err := svc.forget(ctx, c, once, projectID, id, f)
	if in != nil {
		svc.settle(ctx, c.Tenant, in.Incarnation)
	}
	return out, err
}

// forget removes a memory that passes the filter, where there is one. In is the project where one was removed: the
// memory's document is marked as dead there, and the caller settles the index.
func (svc *Service) forget(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string, f *Filter) (
	_ Forgotten, in *project.Record, err error,
) {
	room := svc.tallies.Reserve(c.Tenant)
	forgotten, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (bool, error) {
		in = nil // another try may find something else
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil || !ident.ValidFullName(id) {
			return false, err
		}
		old, err := svc.expect(t, p.Incarnation, id)
		if old != nil && f != nil && !f.Passes(old, t.Now) {
			return false, nil
		}
		if isDamaged(err) {
			removed, err := svc.deleteDamaged(t, p.Incarnation, id, f)
			if removed {
				in = p
			}
			return removed, err
		}
		if err != nil || old == nil {
			return false, err
		}
		in = p
		if err := svc.hold(t.Ctx, room, replacing(old, nil)); err != nil {
			return false, err
		}
		return !old.expired(t.Now), svc.delete(t, p.Incarnation, old)
	})
	if room.End(err == nil); err != nil {
		in = nil
	}
	namespace, key := ident.SplitFullName(id)
	return Forgotten{key, namespace, forgotten}, in, err
}

// The memories that one request forgets by a filter.
const (
	defaultForget = 100
	maxForget     = 1000
)

// forgetMargin is how long before a request's deadline no further memory is forgotten, so that the answer arrives, and
// how long the end of a request may take that was given up.
const forgetMargin = 2 * time.Second

// ForgetMatching asks to forget all memories that pass a filter, which must name something.
type ForgetMatching struct {
	Filter
	DryRun bool   `json:"dry_run,omitempty"` // only look at what would be forgotten
	Limit  int    `json:"limit,omitempty"`   // 0: 100
	Cursor string `json:"cursor,omitempty"`
}

// ForgottenMatching lists the memories that passed. Count is how many of them were forgotten: one that was changed
// meanwhile, so that it passes no more, is kept. Where there are more, NextCursor goes on.
type ForgottenMatching struct {
	Data       []Forgotten `json:"data"`
	DryRun     bool        `json:"dry_run"`
	Count      int         `json:"forgotten"`
	HasMore    bool        `json:"has_more"`
	NextCursor *string     `json:"next_cursor"`
}

// ForgetMatching forgets the memories that pass a filter, each in a commit of its own, in which it must still pass. It
// answers required where the filter names nothing, and the codes of List. What was forgotten before an error is audited
// and leaves the index, too.
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
			"name what to forget: a category, tags, a namespace, metadata, a time; until now is all there is")
	}
	list, err := svc.List(ctx, c, projectID, in.Filter, records.Page{Limit: in.Limit, Cursor: in.Cursor})
	if err != nil {
		return out, err
	}
	out.HasMore, out.NextCursor = list.HasMore, list.NextCursor
	var changed *project.Record // where a memory was removed
	defer func() {
		if changed == nil {
			return
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetMargin)
		defer cancel()
		svc.settle(end, c.Tenant, changed.Incarnation)
		if out.Count > 0 {
			err = cmp.Or(err, svc.auditForgotten(end, c, projectID, out.Count))
		}
	}()
	deadline, timed := ctx.Deadline()
	for i := range list.Data {
		m := &list.Data[i]
		one := Forgotten{Key: m.Key, Namespace: m.Namespace}
		if timed && time.Until(deadline) < forgetMargin && len(out.Data) > 0 {
			out.HasMore, out.NextCursor = true, nil // asking again finds the rest
			break
		}
		if !in.DryRun {
			var removed *project.Record
			one, removed, err = svc.forget(ctx, c, ident.Once{}, projectID, m.ID(), &in.Filter)
			if err != nil {
				return out, err
			}
			changed = cmp.Or(removed, changed)
		}
		if out.Data = append(out.Data, one); one.Forgotten {
			out.Count++
		}
	}
	return out, nil
}

// auditForgotten notes how many memories one request forgot by a filter.
func (svc *Service) auditForgotten(ctx context.Context, c ident.Caller, projectID string, n int) error {
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (struct{}, error) {
		return struct{}{}, tenant.Audit(t, c, "memory.forget", projectID, fmt.Sprintf("%d memories by a filter", n))
	})
	return err
}
