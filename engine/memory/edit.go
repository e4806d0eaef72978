package memory

import (
	"context"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// ErrTaken says that a memory cannot be moved to a name that already has one.
var ErrTaken = errors.New("there is a memory of that name")

// Spec returns a spec that stores the memory again unchanged.
func (m *Memory) Spec() Spec {
	s := Spec{Key: m.Key, Namespace: m.Namespace, Content: m.Content, Category: m.Category, Tags: m.Tags,
		Source: m.Source, Importance: &m.Importance, ExpiresAt: m.ExpiresAt, OccurredAt: m.OccurredAt,
		Metadata: m.Metadata, Value: m.Value, Pinned: m.Pinned, Standing: m.Standing}
	if m.SessionID != nil {
		s.SessionID = *m.SessionID
	}
	return s
}

// Edit calls change with the current memory and stores the result under the full name to, in one commit. change gets
// nil if there is no memory, and may be called again if another client wrote first. If to is another name, the memory
// moves: it starts anew there without its history, and Edit returns ErrTaken if that name has a memory. Edit also
// returns the errors of change and of Store.
func (svc *Service) Edit(ctx context.Context, c ident.Caller, once ident.Once, projectID, from, to string,
	change func(old *Memory) (Spec, error)) error {
	c, err := reach(c, from)
	if err != nil {
		return err
	}
	if _, err := reach(c, to); err != nil {
		return err
	}
	room := svc.tallies.Reserve(c.Tenant)
	var in ident.Incarnation
	var a admitting
	defer a.out()
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (stored, error) {
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil {
			return stored{}, err
		}
		in = p.Incarnation
		return svc.edit(t, &a, c, p, from, to, change, room)
	})
	room.End(err == nil)
	a.end(to, err)
	if err == nil && from != to {
		svc.settle(ctx, c.Tenant, in)
	}
	if err != nil || once.Key == "" {
		return err
	}
	return svc.stillThere(ctx, c, projectID, to, out)
}

// edit adds the writes of Edit to the transaction.
func (svc *Service) edit(t *records.Tx, a *admitting, c ident.Caller, p *project.Record, from, to string,
	change func(old *Memory) (Spec, error), room *records.Reservation) (out stored, err error) {
	old, err := svc.expect(t, p.Incarnation, from)
	if err != nil {
		return out, err
	}
	var now *Memory
	if live := old.live(t.Now); live != nil {
		m := live.Memory
		now = &m
	}
	spec, err := change(now)
	if err != nil {
		return out, err
	}
	spec.Namespace, spec.Key = ident.SplitFullName(to)
	if err := spec.complete(); err != nil {
		return out, err
	}
	rec := &Record{Memory: spec.memory(c)}
	if err := svc.ground(t, c, p, &spec, rec, old, false); err != nil {
		return out, err
	}
	if from == to {
		out, _, err = svc.admit(t, a, &Candidate{Caller: c, Project: p, Spec: spec, Record: rec, Stored: old.live(t.Now),
			Chosen: true}, old, room)
		return out, err
	}
	there, err := svc.expect(t, p.Incarnation, to)
	if err != nil {
		return out, err
	}
	if there.live(t.Now) != nil {
		return out, ErrTaken
	}
	if out, err = svc.storeOver(t, p, &spec, rec, there, old, room); err != nil || old == nil {
		return out, err
	}
	return out, svc.delete(t, p.Incarnation, old)
}
