package session

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Imported is a session made from a file, and a list of what was not stored as it was in the file.
type Imported struct {
	Session
	Skipped []chat.Skipped `json:"skipped,omitempty"`
}

// Import makes a session from a file, whole or not at all. It returns session_exists if the id is taken,
// quota_exceeded, the errors of File.Parse, and import_interrupted if the project or the tenant was deleted in the
// meantime.
func (svc *Service) Import(ctx context.Context, c ident.Caller, once ident.Once, projectID string, f File) (
	Imported, error) {
	turns, skipped, err := f.Parse()
	if err != nil {
		return Imported{}, err
	}
	size := int64(0)
	for _, turn := range turns {
		size += turn.Bytes()
	}
	if err := svc.checkQuota(ctx, c, size); err != nil {
		return Imported{}, err
	}
	_, namespace, err := c.In(f.Session.Namespace)
	if err != nil {
		return Imported{}, err
	}
	f.Session.Namespace = namespace
	var in *staged
	once.Scope = Scope(projectID, f.Session.ID)
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (Imported, error) {
		p, set, err := svc.placeFor(t, c, projectID, f.Session.ID, "; delete it first or import under another id")
		if err != nil {
			return Imported{}, err
		}
		if in == nil { // once, however often the commit below is retried
			if len(f.Session.Namespace) == 0 {
				f.Session.Namespace, err = set.Settings.Namespace(c, f.Session.ID, f.Session.Agent)
			}
			if err != nil {
				return Imported{}, err
			}
			if in, err = svc.stage(ctx, c, p, &f.Session, f.Created); err != nil {
				return Imported{}, err
			}
			for i, turn := range turns {
				left, err := in.addTurn(&f.Turns[i], turn, f.Mode)
				if err != nil {
					return Imported{}, err
				}
				skipped = append(skipped, left...)
			}
		}
		h, err := in.putHead(t, p, f.Session.ID, f.Summary)
		if err != nil {
			return Imported{}, err
		}
		return Imported{h.Session(f.Session.ID, set.Encoding).Untitled(), transcript.SortSkipped(skipped)}, nil
	})
	out.Title, out.Metadata = f.Session.Title, f.Session.Metadata
	switch {
	case err == nil:
		svc.MessageUse.Add(c.Tenant, records.Amount{Bytes: size})
	case in != nil:
		in.Abandon(ctx)
	}
	return out, err
}

// staged is a session whose messages are written under an incarnation that no head names yet. They are invisible until
// the last commit writes the session's head.
type staged struct {
	*records.Staging
	svc     *Service
	head    *Head
	order   transcript.History
	project ident.Incarnation
	dated   bool // the file says when the session was created
	active  bool // LastActivity is that of a message
}

// stage starts an invisible session.
func (svc *Service) stage(ctx context.Context, c ident.Caller, p *project.Record, spec *Spec, created time.Time) (
	*staged, error) {
	in := &staged{svc: svc, head: spec.head(svc.db.NewIncarnation(), svc.db.Now()), project: p.Incarnation}
	if in.dated = !created.IsZero(); in.dated {
		in.head.Created = created.UTC()
	}
	in.order.Open.Incarnation = in.head.Incarnation
	sweep := store.Pair{Key: records.SessionJob.Key(in.head.Incarnation), Value: in.project[:]}
	var err error
	if in.Staging, err = svc.db.Stage(ctx, c, sweep); err != nil {
		return nil, err
	}
	return in, nil
}

// addTurn writes the next turn of a file. In mode repair, it returns what was not stored as it was in the file.
func (in *staged) addTurn(ft *FileTurn, turn *transcript.Turn, mode string) (skipped []chat.Skipped, err error) {
	h := in.head
	if mode == transcript.ModeRepair {
		if turn, skipped, err = in.order.Repair(ft.place(), turn); err != nil {
			return nil, err
		}
	}
	if err := in.order.Take(ft.place(), turn); err != nil {
		return nil, err
	}
	h.Superseded, h.Absent, h.Removed = in.order.Superseded, in.order.Absent, in.order.Removed
	if h.Removed != nil {
		h.Changes = 1
	}
	if len(turn.Messages) == 0 {
		h.Turns = in.order.Turns
		return skipped, nil
	}
	if err := in.svc.StageBlobs(in.Staging, h.Incarnation, turn); err != nil {
		return nil, err
	}
	return skipped, in.Add(func(w *records.Tx) error {
		headers, lineage, err := in.svc.WriteTurn(w, turn, h.Extent(), h.past(), &in.order.Open)
		if err != nil {
			return err
		}
		tokens, asked := h.Tokens, h.Asked
		h.grow(headers, lineage)
		if ft.Superseded {
			h.Tokens, h.Asked = tokens, asked
		}
		for i := range turn.Removed {
			h.count(&headers[i], -1)
		}
		if h.Superseded.Message(h.Asked) {
			h.Asked = askedOf(headers, turn.Removed, asked)
		}
		turn.Names(&h.Names)
		if !ft.Superseded {
			in.date(headers)
		}
		return nil
	})
}

// askedOf returns the newest user message outside delegations of a turn's messages that are not removed, or else the one
// before.
func askedOf(headers []transcript.Header, removed map[int]bool, before uint64) uint64 {
	for i := range headers {
		if m := &headers[i]; m.Role == plan.RoleUser && m.Delegation == "" && !removed[i] {
			before = m.Seq
		}
	}
	return before
}

// date makes the time of the newest message the session's last activity. If the file does not say when the session was
// created, that is the time of the oldest one.
func (in *staged) date(headers []transcript.Header) {
	h := in.head
	for i := range headers {
		at := records.TimeOf(headers[i].Created)
		if !in.active || at.After(h.LastActivity) {
			h.LastActivity = at
		}
		in.active = true
		if !in.dated && at.Before(h.Created) {
			h.Created = at
		}
	}
}

// putHead collects the writes that make the session visible.
func (in *staged) putHead(t *records.Tx, p *project.Record, id string, summary *FileSummary) (*Head, error) {
	h := *in.head // a copy, because the commit may be retried
	in.order.End()
	in.Reveal(t)
	if err := summary.put(t, &h); err != nil {
		return nil, err
	}
	return &h, in.svc.putSession(t, p, id, &h, &in.order.Open)
}
