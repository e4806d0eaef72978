package recall

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/index"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// How much a query searches that is not indexed.
const (
	tailMessages = 4096
	tailBytes    = 8 << 20
	tailSessions = 4096
)

// tail is what a query searches beside the index: messages that are not indexed yet.
type tail struct {
	docs      []rank.Document
	languages []string
	rest      uint64 // messages beyond its bounds
	damaged   bool   // something is left out of it
}

// findMessages finds messages by words.
func (svc *Service) findMessages(ctx context.Context, c access.Caller, p *project.Record, r *request, out *Result) error {
	if !p.Recalls {
		if err := svc.enableTranscripts(ctx, c, p.ID); err != nil {
			return err
		}
	}
	q := &index.Query{Space: index.Transcripts(p.Incarnation), Text: r.Query.Query, Filter: r.filter, Viewer: r.viewer,
		Limit: r.Limit}
	if r.SessionID != "" {
		_, h, err := svc.sessions.Existing(ctx, c, p.ID, r.SessionID)
		if fault.IsNotFound(err) && r.Scope == scopeBoth {
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
	q.Unindexed = func(held []store.Item) (_ []rank.Document, _ []string, err error) {
		unindexed, err = svc.analyseTails(ctx, c.Tenant, r.SessionID, marks, held)
		return unindexed.docs, unindexed.languages, err
	}
	live := map[string]ident.Incarnation{}
	q.Accept = func(d *rank.Document) (bool, error) {
		sinc, known := live[d.Session]
		if !known {
			_, h, _, err := svc.sessions.ReadHead(ctx, c, p.ID, d.Session)
			if errors.Is(err, records.ErrDamaged) {
				out.Incomplete, err = true, nil
			}
			if err != nil {
				return false, err
			}
			if h != nil {
				sinc = h.Incarnation
			}
			live[d.Session] = sinc
		}
		return sinc.Stream() == d.Stream, nil // else it is of a deleted session, to be swept
	}
	hits, incomplete, err := svc.index.Search(ctx, c.Tenant, q)
	if err != nil {
		return err
	}
	out.Incomplete = out.Incomplete || incomplete || unindexed.damaged || unindexed.rest > 0
	out.UnindexedMessages += unindexed.rest
	if len(unindexed.docs) >= indexChunk {
		svc.jobs.Poke(c.Tenant)
	}
	for i := range hits {
		d := hits[i].Doc
		sinc := ident.IncarnationOf(d.Stream)
		bodies, err := svc.sessions.ReadBodies(ctx, c.Tenant, sinc, d.Number, d.Number)
		if err != nil {
			return err
		}
		hd, m, err := session.ParseBody(bodies[0])
		if err != nil {
			continue // it is damaged, or gone
		}
		if !out.add(messageHit(sinc, d.Number, d.Session, hd, m).found(&hits[i])) {
			return nil
		}
	}
	return nil
}

// readMarks gives the marks of a project's sessions with messages that are not indexed. Where they are not all that there
// should be, out says that hits may be missing.
func (svc *Service) readMarks(ctx context.Context, tenant string, pinc ident.Incarnation, out *Result) (
	[]store.Item, error,
) {
	rng := records.UnindexedJob.Under(pinc)
	rng.Limit = tailSessions
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{records.BacklogJob.Key(pinc)},
		Ranges: []store.Range{rng}})
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

// analyseTails makes documents of the messages of marked sessions that are not indexed. held are, for each mark, what the
// keys of keysOfMark hold in the state that is searched. Where a session is named, only its messages count.
func (svc *Service) analyseTails(ctx context.Context, tenant, session string, marks, held []store.Item) (
	out tail, err error,
) {
	budget := &workBudget{tailMessages, tailBytes}
	for i, mark := range marks {
		m, err := readMark(mark, held[2*i:2*i+2])
		if err != nil {
			out.damaged = true
		}
		if m == nil || session != "" && session != m.id {
			continue
		}
		docs, languages, err := svc.analyse(ctx, tenant, m, budget)
		if err != nil {
			return out, err
		}
		out.docs, out.languages = append(out.docs, docs...), append(out.languages, languages...)
		out.rest += m.head.Messages - m.state.Messages
	}
	return out, nil
}
