package session

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// Import makes a session out of a file, whole or not at all. It answers session_exists where the id is taken,
// quota_exceeded, what File.Parse answers, and import_interrupted where the project or the tenant was deleted
// meanwhile.
func (svc *Service) Import(ctx context.Context, c access.Caller, once access.Once, projectID string, f File) (
	Session, error) {
	turns, err := f.Parse()
	if err != nil {
		return Session{}, err
	}
	size := int64(0)
	for _, turn := range turns {
		size += turn.Bytes()
	}
	if err := svc.checkQuota(ctx, c, size); err != nil {
		return Session{}, err
	}
	var in *staged
	s, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (Session, error) {
		p, set, err := svc.placeFor(t, c, projectID, f.Session.ID, "; delete it first or import under another id")
		if err != nil {
			return Session{}, err
		}
		if in == nil { // once, however often the commit below is tried
			if in, err = svc.stage(ctx, c, p, &f.Session, f.Created); err != nil {
				return Session{}, err
			}
			for _, turn := range turns {
				if err := in.addTurn(turn); err != nil {
					return Session{}, err
				}
			}
			if err := in.Flush(); err != nil {
				return Session{}, err
			}
		}
		h, err := in.putHead(t, p, f.Session.ID, f.Summary)
		if err != nil {
			return Session{}, err
		}
		return h.Session(f.Session.ID, set.Encoding).Untitled(), nil
	})
	s.Title = f.Session.Title
	switch {
	case err == nil:
		svc.MessageUse.Add(c.Tenant, records.Amount{Bytes: size})
	case in != nil:
		in.Abandon(ctx)
	}
	return s, err
}

// staged is a session whose messages are written under an incarnation that no head names yet, so that nobody sees them
// until the last commit gives the session its head.
type staged struct {
	*records.Staging
	svc     *Service
	head    *Head
	open    transcript.OpenCalls
	project ident.Incarnation
}

// stage begins a session where nobody sees it.
func (svc *Service) stage(ctx context.Context, c access.Caller, p *project.Record, spec *Spec, created time.Time) (
	*staged, error) {
	in := &staged{svc: svc, head: spec.head(svc.db.NewIncarnation(), svc.db.Now()), project: p.Incarnation}
	if !created.IsZero() {
		in.head.Created = created.UTC()
	}
	in.open.Incarnation = in.head.Incarnation
	sweep := store.Pair{Key: records.SessionJob.Key(in.head.Incarnation), Value: in.project[:]}
	var err error
	if in.Staging, err = svc.db.Stage(ctx, c, sweep); err != nil {
		return nil, err
	}
	return in, nil
}

// addTurn writes the next turn.
func (in *staged) addTurn(turn *transcript.Turn) error {
	return in.Add(func(w *records.Tx) error {
		headers, lineage, err := in.svc.WriteTurn(w, turn, in.head.Extent(), in.head.Lineage, &in.open)
		if err == nil {
			in.head.grow(headers, lineage)
		}
		return err
	})
}

// putHead collects the writes that make the session one that is seen.
func (in *staged) putHead(t *records.Tx, p *project.Record, id string, summary *FileSummary) (*Head, error) {
	h := *in.head // the commit may be tried again
	in.Reveal(t)
	if err := summary.put(t, &h); err != nil {
		return nil, err
	}
	return &h, putSession(t, p, id, &h, &in.open)
}
