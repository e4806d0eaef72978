package recall

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/index"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// Transcripts are indexed behind the turns: once a project was asked for them, each turn marks its session, with one
// small record in its own batch, and a job indexes what is marked. A query searches the messages that the job has not
// reached as well. A project whose transcripts nobody searches pays nothing.

// How much of a session one unit of work indexes, and how much a query searches that is not indexed.
const (
	indexChunk      = 256
	indexChunkBytes = 2 << 20
	tailMessages    = 4096
	tailBytes       = 8 << 20
	tailSessions    = 4096
	backlogChunk    = 500
	backlogAtOnce   = 4 // chunks that the first query marks itself
)

// streamState says how far a session is indexed.
type streamState struct {
	Messages uint64 `json:"messages"` // indexed, from the first
	Next     uint64 `json:"next"`     // position of the next document
}

func readStreamState(value []byte) (s streamState, err error) {
	s.Next = 1
	if value != nil {
		err = json.Unmarshal(value, &s)
	}
	return s, err
}

// enableTranscripts makes a project's turns mark their sessions, and has the sessions that it has marked.
func (svc *Service) enableTranscripts(ctx context.Context, c access.Caller, projectID string) error {
	p, err := records.Update(ctx, svc.db, c, access.Once{}, func(t *records.Tx) (*project.Record, error) {
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil || p.Recalls {
			return p, err
		}
		b, err := json.Marshal(p) // p is shared
		if err != nil {
			return nil, err
		}
		rec := new(project.Record)
		if err := json.Unmarshal(b, rec); err != nil {
			return nil, err
		}
		rec.Recalls = true
		t.Put(records.BacklogJob.Key(p.Incarnation), []byte{0})
		return p, t.PutJSON(records.Project.Key(projectID), rec)
	})
	if err != nil {
		return err
	}
	for range backlogAtOnce {
		r, err := svc.db.Store.Read(ctx, c.Tenant, store.Query{Keys: [][]byte{records.BacklogJob.Key(p.Incarnation)}})
		if err != nil || r.Keys[0].Value == nil {
			return err
		}
		if err := svc.markBacklog(ctx, c.Tenant, r.Keys[0]); err != nil {
			return err
		}
	}
	svc.jobs.Poke(c.Tenant)
	return nil
}

// markBacklog marks a chunk of the sessions that a project had when its transcripts were first asked for. The job's
// value is a zero byte and the id of the session that it has come to.
func (svc *Service) markBacklog(ctx context.Context, tenant string, job store.Item) error {
	p, _ := records.BacklogJob.Split(job.Key)
	rng := records.Session.Under(p)
	if len(job.Value) > 1 { // a damaged job begins anew
		rng.From = append(records.Session.Key(p, string(job.Value[1:])), 0)
	}
	rng.Limit = backlogChunk
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return err
	}
	var b store.Batch
	if !job.Damaged {
		b.Expect = []store.Expect{{Key: job.Key, Value: job.Value}}
	}
	last := ""
	for _, it := range r.Ranges[0] {
		last = string(it.Key[len(records.Session.Under(p).From) : len(it.Key)-1])
		var h session.Head
		if it.Damaged || json.Unmarshal(it.Value, &h) != nil || h.Messages == 0 {
			continue
		}
		b.Put = append(b.Put, store.Pair{Key: records.UnindexedJob.Key(p, h.Incarnation), Value: session.UnindexedMark(&h, last)})
	}
	if len(r.Ranges[0]) < rng.Limit {
		b.Delete = append(b.Delete, job.Key)
	} else {
		b.Put = append(b.Put, store.Pair{Key: job.Key, Value: append([]byte{0}, last...)})
	}
	return records.LostRace(svc.db.Commit(ctx, tenant, b))
}

// stepTranscripts does one unit of the work of indexing transcripts, if a tenant has any.
func (svc *Service) stepTranscripts(ctx context.Context, tenant string) (done bool, err error) {
	backlog, marks := records.BacklogJob.All(), records.UnindexedJob.All()
	backlog.Limit, marks.Limit = 1, 1
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{backlog, marks}})
	if err != nil {
		return false, err
	}
	switch {
	case len(r.Ranges[0]) > 0:
		return true, svc.markBacklog(ctx, tenant, r.Ranges[0][0])
	case len(r.Ranges[1]) > 0:
		done, err := svc.indexSession(ctx, tenant, r.Ranges[1][0])
		return done, records.LostRace(err)
	}
	return false, nil
}

// marked is a session with messages that are not indexed, as of one state of the store.
type marked struct {
	id    string
	sinc  ident.Incarnation
	head  session.Head
	state streamState
}

// keysOfMark names what readMark reads.
func keysOfMark(p ident.Incarnation, mark store.Item) [][]byte {
	sinc := ident.Incarnation(mark.Key[len(mark.Key)-8:])
	return [][]byte{records.Session.Key(p, string(mark.Value[8:])),
		records.RecallStream.Key(p, records.RecallTranscript, sinc.Stream())}
}

// readMark gives a marked session, or nil where it is gone. The error is errDamaged where its head is damaged, and
// errBroken where how far it is indexed is.
func readMark(mark store.Item, got []store.Item) (*marked, error) {
	m := &marked{id: string(mark.Value[8:]), sinc: ident.Incarnation(mark.Key[len(mark.Key)-8:])}
	if got[0].Damaged || got[0].Value != nil && json.Unmarshal(got[0].Value, &m.head) != nil {
		return nil, records.ErrDamaged
	}
	if got[0].Value == nil || m.head.Incarnation != m.sinc {
		return nil, nil
	}
	var err error
	if m.state, err = readStreamState(got[1].Value); err != nil || got[1].Damaged {
		return nil, index.ErrBroken
	}
	return m, nil
}

// indexSession indexes a chunk of a marked session's messages, and removes the mark with the last one. Nothing is done
// while the index is being dropped.
func (svc *Service) indexSession(ctx context.Context, tenant string, mark store.Item) (done bool, err error) {
	p, _, _ := records.UnindexedJob.Split(mark.Key)
	if len(mark.Value) < 8 {
		svc.db.Log.Error("a mark of messages to be indexed is damaged; all sessions of its project are marked anew",
			"tenant", tenant)
		return true, svc.db.Commit(ctx, tenant, store.Batch{Put: []store.Pair{{Key: records.BacklogJob.Key(p), Value: []byte{0}}},
			Delete: [][]byte{mark.Key}})
	}
	t := svc.db.Begin(ctx, tenant)
	t.Batch.Expect = []store.Expect{{Key: mark.Key, Value: mark.Value}}
	indexed, err := svc.index.Change(t, p, records.RecallTranscript, func() error { return svc.indexMessages(t, p, mark) })
	if err != nil || !indexed && t.Writes() == 0 {
		return false, err
	}
	return true, svc.db.Commit(ctx, tenant, t.Batch)
}

// indexMessages collects the writes that index a chunk of a marked session's messages.
func (svc *Service) indexMessages(t *records.Tx, p ident.Incarnation, mark store.Item) error {
	// The session's head stands for its life: nothing is indexed of one that is being swept.
	got, err := t.Look(keysOfMark(p, mark)...)
	if err != nil {
		return err
	}
	m, err := readMark(mark, got)
	if errors.Is(err, records.ErrDamaged) {
		svc.db.Log.Error("a session's head is damaged; its messages are not indexed", "tenant", t.Tenant)
		err = nil
	}
	if err != nil {
		return err
	}
	if m == nil {
		t.Delete(mark.Key) // until a turn sets the next
		return nil
	}
	before := m.state.Next
	docs, languages, err := svc.analyseTail(t.Ctx, t.Tenant, m, &workBudget{indexChunk, indexChunkBytes})
	if err != nil {
		return err
	}
	if m.state.Next > before {
		if _, err := svc.index.AddDocuments(t, p, records.RecallTranscript, docs, languages...); err != nil {
			return err
		}
	}
	if m.state.Messages == m.head.Messages {
		t.Delete(mark.Key)
	}
	return t.PutJSON(got[1].Key, m.state)
}

// IndexTranscripts has the transcripts of a project indexed again, after its index was dropped.
func (svc *Service) IndexTranscripts(ctx context.Context, tenant string, p ident.Incarnation, _ string) (
	next string, err error,
) {
	return "", svc.db.Commit(ctx, tenant, store.Batch{Put: []store.Pair{{Key: records.BacklogJob.Key(p), Value: []byte{0}}}})
}

// workBudget bounds how many messages are analysed, and their bytes, until either is used up.
type workBudget struct{ messages, bytes int }

func (b *workBudget) left() bool { return b.messages > 0 && b.bytes > 0 }

// analyseTail makes documents of a session's messages behind those that are indexed, as far as the budget goes, and
// moves the session's state behind them.
func (svc *Service) analyseTail(ctx context.Context, tenant string, m *marked, budget *workBudget) (
	docs []rank.Document, languages []string, err error,
) {
	for m.state.Messages < m.head.Messages && budget.left() {
		first := m.state.Messages + 1
		n := min(uint64(budget.messages), transcript.BodiesAtOnce, m.head.Messages-first+1)
		bodies, err := svc.sessions.ReadBodies(ctx, tenant, m.sinc, first, first+n-1)
		if err != nil {
			return nil, nil, err
		}
		for _, body := range bodies {
			if !budget.left() {
				break
			}
			if err := ctx.Err(); err != nil {
				return nil, nil, err
			}
			budget.bytes -= len(body)
			budget.messages--
			m.state.Messages++
			hd, msg, err := transcript.ParseBody(body)
			if err != nil || msg.Text == "" {
				continue // damaged ones are reported where they are listed
			}
			terms, latin := svc.index.Analyser.Document(msg.Text)
			if len(terms) == 0 {
				continue
			}
			if latin != "" && !slices.Contains(languages, latin) {
				languages = append(languages, latin)
			}
			passages, lens := rank.Passages(terms)
			for i := range passages {
				docs = append(docs, rank.Document{Place: rank.Place{Stream: m.sinc.Stream(), Pos: m.state.Next},
					Number: hd.Seq, Session: m.id, Group: hd.Delegation, Tags: hd.Tags, Created: records.TimeOf(hd.Created),
					Len: lens[i], Terms: passages[i]})
				m.state.Next++
			}
		}
	}
	return docs, languages, nil
}

// tail is what a query searches of transcripts beside their index.
type tail struct {
	docs      []rank.Document
	languages []string
	rest      uint64 // messages beyond its bounds
	damaged   bool   // something is left out of it
}

// analyseTails makes documents of marked sessions' messages that were not indexed as of the state that the keys of the
// marks were read in. Where a session is named, it is of that one only.
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
		docs, languages, err := svc.analyseTail(ctx, tenant, m, budget)
		if err != nil {
			return out, err
		}
		out.docs, out.languages = append(out.docs, docs...), append(out.languages, languages...)
		out.rest += m.head.Messages - m.state.Messages
	}
	return out, nil
}
