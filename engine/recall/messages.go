package recall

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/index"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// findMessages finds messages by words.
func (svc *Service) findMessages(ctx context.Context, c access.Caller, p *project.Record, r *request, out *Result) error {
	if !p.Recalls {
		if err := svc.enableTranscripts(ctx, c, p.ID); err != nil {
			return err
		}
	}
	q := &index.Query{Space: records.RecallTranscript, Text: r.Query.Query, Filter: r.filter, Viewer: r.viewer, Limit: r.Limit}
	if r.SessionID != "" {
		_, h, err := svc.sessions.Existing(ctx, c, p.ID, r.SessionID)
		if wrong, ok := errors.AsType[*fault.Error](err); ok && wrong.Kind == fault.NotFound && r.Scope == scopeBoth {
			return nil // memories outlive their session
		}
		if err != nil {
			return err
		}
		q.Filter.Stream = h.Incarnation.Stream()
	}
	marks, err := svc.readMarks(ctx, c.Tenant, p.Incarnation, out)
	if err != nil {
		return err
	}
	for _, m := range marks {
		q.Keys = append(q.Keys, keysOfMark(p.Incarnation, m)...)
	}
	var unindexed tail
	q.Unindexed = func(held []store.Item) ([]rank.Document, []string, error) {
		unindexed, err = svc.analyseTails(ctx, c.Tenant, r.SessionID, marks, held)
		return unindexed.docs, unindexed.languages, err
	}
	live := map[string]ident.Incarnation{}
	q.Accept = func(d *rank.Document) (bool, error) {
		is, known := live[d.Session]
		if !known {
			_, h, _, err := svc.sessions.ReadHead(ctx, c, p.ID, d.Session)
			if errors.Is(err, records.ErrDamaged) {
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
		return is.Stream() == d.Stream, nil // else it is a deleted session's, to be swept
	}
	hits, incomplete, err := svc.index.Search(ctx, c.Tenant, p.Incarnation, q)
	if err != nil {
		return err
	}
	out.Incomplete = out.Incomplete || incomplete || unindexed.damaged || unindexed.rest > 0
	out.UnindexedMessages += unindexed.rest
	if len(unindexed.docs) >= indexChunk {
		svc.jobs.Poke(c.Tenant)
	}
	for _, h := range hits {
		m, err := svc.messageHit(ctx, c.Tenant, ident.IncarnationOf(h.Doc.Stream), h.Doc.Number, h.Doc.Session)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		if m.Score, m.Why = h.Score, whyOf(h.Why); !out.add(*m) {
			return nil
		}
	}
	return nil
}

// readMarks gives the marks of a project's sessions with messages that are not indexed.
func (svc *Service) readMarks(ctx context.Context, tenant string, p ident.Incarnation, out *Result) ([]store.Item, error) {
	rng := records.UnindexedJob.Under(p)
	rng.Limit = tailSessions
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{records.BacklogJob.Key(p)}, Ranges: []store.Range{rng}})
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
func (svc *Service) messageHit(ctx context.Context, tenant string, sinc ident.Incarnation, seq uint64, sessionID string) (
	*Hit, error,
) {
	bodies, err := svc.sessions.ReadBodies(ctx, tenant, sinc, seq, seq)
	if err != nil {
		return nil, err
	}
	hd, m, err := transcript.ParseBody(bodies[0])
	if err != nil {
		return nil, nil
	}
	h := messageHitOf(sinc, seq, sessionID, hd, m)
	return &h, nil
}

func messageHitOf(sinc ident.Incarnation, seq uint64, sessionID string, hd *transcript.Header, m *chat.Message) Hit {
	h := Hit{Kind: "message", MessageID: transcript.MessageID(sinc, seq), Content: m.Text, Tags: hd.Tags, SessionID: sessionID,
		Turn: hd.Turn, Role: chat.RoleName(hd.Role), Agent: hd.Agent, CreatedAt: records.TimeOf(hd.Created),
		Why: Why{Terms: []Term{}}}
	if h.Tags == nil {
		h.Tags = []string{}
	}
	return h
}
