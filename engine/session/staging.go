package session

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// stagedSession is a session whose messages are written but that nobody can see yet.
type stagedSession struct {
	*records.Staging
	head    *Head
	open    OpenCalls
	project ident.Incarnation
}

// stage begins a session where nobody sees it.
func (svc *Service) stage(ctx context.Context, c access.Caller, p *project.Record, spec *Spec,
	created time.Time) (*stagedSession, error) {
	s := &stagedSession{head: spec.head(svc.db.NewIncarnation(), svc.db.Now()), project: p.Incarnation}
	if !created.IsZero() {
		s.head.Created = created.UTC()
	}
	s.open.Incarnation = s.head.Incarnation
	var err error
	s.Staging, err = svc.db.Stage(ctx, c, s.sweep())
	return s, err
}

// sweep is the job that removes the session's messages.
func (s *stagedSession) sweep() store.Pair {
	return store.Pair{Key: records.SessionJob.Key(s.head.Incarnation), Value: s.project[:]}
}

// stageTurn writes the next turn of a staged session.
func (svc *Service) stageTurn(s *stagedSession, turn *ParsedTurn) error {
	return s.Add(func(w *records.Tx) error {
		_, err := svc.writeTurn(w, turn, s.head, &s.open)
		return err
	})
}

// putHead collects the writes that make the staged session one that is seen.
func (s *stagedSession) putHead(t *records.Tx, p *project.Record, id string, summary *FileSummary) (*Head, error) {
	h := *s.head
	s.Reveal(t)
	if err := putOpenCalls(t, p, id, &h, &s.open); err != nil {
		return nil, err
	}
	if err := summary.put(t, &h); err != nil {
		return nil, err
	}
	markUnindexed(t, p, &h, id)
	return &h, t.PutJSON(records.Session.Key(s.project, id), &h)
}
