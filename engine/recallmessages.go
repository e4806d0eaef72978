package engine

import (
	"context"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/recall"
)

// recallMessages finds messages by words.
func (e *Engine) recallMessages(ctx context.Context, c Caller, p *project, r *recallRequest, out *RecallResult) error {
	if !p.Recalls {
		if err := e.enableTranscripts(ctx, c, p.ID); err != nil {
			return err
		}
	}
	s := &search{e: e, ctx: ctx, tenant: c.Tenant, p: p.Incarnation, space: recallTranscript, request: r, filter: r.filter}
	if r.SessionID != "" {
		_, h, err := e.existing(ctx, c, p.ID, r.SessionID)
		if fault, ok := errors.AsType[*Error](err); ok && fault.Kind == NotFound && r.Scope == scopeBoth {
			return nil // memories outlive their session
		}
		if err != nil {
			return err
		}
		s.filter.Stream = h.Incarnation.stream()
	}
	marks, err := s.marks(out)
	if err != nil {
		return err
	}
	if err := s.read(marks); err != nil {
		return err
	}
	if s.tail.rest > 0 {
		out.Incomplete = true
		out.UnindexedMessages += s.tail.rest
	}
	if len(s.tail.docs) >= indexChunk {
		e.poke(c.Tenant)
	}
	live := map[string]incarnation{}
	hits, err := s.best(func(d *recall.Document) (bool, error) {
		if s.hidden(d.Group) {
			return false, nil
		}
		is, known := live[d.Session]
		if !known {
			_, h, _, err := e.readHead(ctx, c, p.ID, d.Session)
			if errors.Is(err, errDamaged) {
				s.damaged, err = true, nil
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
	})
	if err != nil {
		return err
	}
	s.report(out)
	for _, h := range hits {
		m, err := e.messageHit(ctx, c.Tenant, incarnationOf(h.doc.Stream), h.doc.Number, h.doc.Session)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		if m.Score, m.Why = h.score, h.why; !out.add(*m) {
			return nil
		}
	}
	return nil
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
