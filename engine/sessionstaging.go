package engine

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// stagedSession is a session whose messages are written but that nobody can see yet.
type stagedSession struct {
	*staging
	head    *head
	open    openCalls
	project incarnation
}

// stageSession begins a session where nobody sees it.
func (e *Engine) stageSession(ctx context.Context, c Caller, p *project, spec *SessionSpec,
	created time.Time) (*stagedSession, error) {
	s := &stagedSession{head: spec.head(e.newIncarnation(), e.now()), project: p.Incarnation}
	if !created.IsZero() {
		s.head.Created = created.UTC()
	}
	s.open.Incarnation = s.head.Incarnation
	var err error
	s.staging, err = e.stage(ctx, c, s.sweep())
	return s, err
}

// sweep is the job that removes the session's messages.
func (s *stagedSession) sweep() store.Pair {
	return store.Pair{Key: kindSessionJob.Key(s.head.Incarnation), Value: s.project[:]}
}

// stageTurn writes the next turn of a staged session.
func (e *Engine) stageTurn(s *stagedSession, turn *parsedTurn) error {
	return s.add(func(w *tx) error {
		_, err := e.writeTurn(w, turn, s.head, &s.open)
		return err
	})
}

// putHead collects the writes that make the staged session one that is seen.
func (s *stagedSession) putHead(t *tx, p *project, id string, summary *FileSummary) (*head, error) {
	h := *s.head
	s.reveal(t)
	if err := t.putOpenCalls(p, id, &h, &s.open); err != nil {
		return nil, err
	}
	if err := summary.put(t, &h); err != nil {
		return nil, err
	}
	t.markUnindexed(p, &h, id)
	return &h, t.putJSON(kindSession.Key(s.project, id), &h)
}
