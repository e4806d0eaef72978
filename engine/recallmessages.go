package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// recallMessages finds messages by words.
func (e *Engine) recallMessages(ctx context.Context, c Caller, p *project, r *recallRequest, out *RecallResult) error {
	if !p.Recalls {
		if err := e.enableTranscripts(ctx, c, p.ID); err != nil {
			return err
		}
	}
	q := &query{space: recallTranscript, text: r.Query, filter: r.filter, viewer: r.viewer, limit: r.Limit}
	if r.SessionID != "" {
		_, h, err := e.existing(ctx, c, p.ID, r.SessionID)
		if fault, ok := errors.AsType[*Error](err); ok && fault.Kind == NotFound && r.Scope == scopeBoth {
			return nil // memories outlive their session
		}
		if err != nil {
			return err
		}
		q.filter.Stream = h.Incarnation.stream()
	}
	marks, err := e.readMarks(ctx, c.Tenant, p.Incarnation, out)
	if err != nil {
		return err
	}
	for _, m := range marks {
		q.keys = append(q.keys, keysOfMark(p.Incarnation, m)...)
	}
	var unindexed tail
	q.unindexed = func(held []store.Item) ([]rank.Document, []string, error) {
		unindexed, err = e.analyseTails(ctx, c.Tenant, r.SessionID, marks, held)
		return unindexed.docs, unindexed.languages, err
	}
	live := map[string]incarnation{}
	q.accept = func(d *rank.Document) (bool, error) {
		is, known := live[d.Session]
		if !known {
			_, h, _, err := e.readHead(ctx, c, p.ID, d.Session)
			if errors.Is(err, errDamaged) {
				out.Incomplete, err = true, nil
			}
			if err != nil {
				return false, err
			}
			if h != nil {
				is = h.Incarnation
			}
			live[d.Session] = is
		}
		return is.stream() == d.Stream, nil // else it is a deleted session's, to be swept
	}
	hits, incomplete, err := e.search(ctx, c.Tenant, p.Incarnation, q)
	if err != nil {
		return err
	}
	out.Incomplete = out.Incomplete || incomplete || unindexed.damaged || unindexed.rest > 0
	out.UnindexedMessages += unindexed.rest
	if len(unindexed.docs) >= indexChunk {
		e.poke(c.Tenant)
	}
	for _, h := range hits {
		m, err := e.messageHit(ctx, c.Tenant, incarnationOf(h.doc.Stream), h.doc.Number, h.doc.Session)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		if m.Score, m.Why = h.score, whyOf(h.why); !out.add(*m) {
			return nil
		}
	}
	return nil
}

// readMarks gives the marks of a project's sessions with messages that are not indexed.
func (e *Engine) readMarks(ctx context.Context, tenant string, p incarnation, out *RecallResult) ([]store.Item, error) {
	rng := kindUnindexedJob.Under(p)
	rng.Limit = tailSessions
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: [][]byte{kindBacklogJob.Key(p)}, Ranges: []store.Range{rng}})
	if err != nil {
		return nil, err
	}
	found := len(r.Ranges[0])
	marks := slices.DeleteFunc(r.Ranges[0], func(it store.Item) bool { return len(it.Value) < 8 })
	if r.Keys[0].Value != nil || found == rng.Limit || len(marks) < found {
		out.Incomplete = true
	}
	return marks, nil
}

// messageHit reads a message; nil where it cannot be read.
func (e *Engine) messageHit(ctx context.Context, tenant string, sinc incarnation, seq uint64, session string) (
	*RecallHit, error,
) {
	bodies, err := e.readBodies(ctx, tenant, sinc, seq, seq)
	if err != nil {
		return nil, err
	}
	hd, m, err := parseBody(bodies[0])
	if err != nil {
		return nil, nil
	}
	h := messageHitOf(sinc, seq, session, hd, m)
	return &h, nil
}

func messageHitOf(sinc incarnation, seq uint64, session string, hd *header, m *chat.Message) RecallHit {
	h := RecallHit{Kind: "message", MessageID: messageID(sinc, seq), Content: m.Text, Tags: hd.tags, SessionID: session,
		Turn: hd.turn, Role: chat.RoleName(hd.role), Agent: hd.agent, CreatedAt: timeOf(hd.created),
		Why: RecallWhy{Terms: []RecallTerm{}}}
	if h.Tags == nil {
		h.Tags = []string{}
	}
	return h
}
