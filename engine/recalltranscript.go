package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
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

// markUnindexed leaves word that a session has messages to be indexed. It costs one small blind write, and nothing in a
// project whose transcripts nobody searches.
func (t *tx) markUnindexed(p *project, h *head, session string) {
	if p.Recalls && h.Messages > 0 {
		t.put(unindexedKey(p.Incarnation, h.Incarnation), unindexedMark(h, session))
	}
}

// unindexedMark differs with every turn, so that who is done with the session does not remove a later mark.
func unindexedMark(h *head, session string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, h.Messages), session...)
}

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

func (s incarnation) stream() uint64 { return binary.BigEndian.Uint64(s[:]) }

func incarnationOf(stream uint64) (s incarnation) {
	binary.BigEndian.PutUint64(s[:], stream)
	return s
}

// enableTranscripts makes a project's turns mark their sessions, and has the sessions that it has marked.
func (e *Engine) enableTranscripts(ctx context.Context, c Caller, projectID string) error {
	p, err := update(ctx, e, c, Once{}, func(t *tx) (*project, error) {
		p, err := t.project(c, projectID)
		if err != nil || p.Recalls {
			return p, err
		}
		b, err := json.Marshal(p) // p is shared
		if err != nil {
			return nil, err
		}
		rec := new(project)
		if err := json.Unmarshal(b, rec); err != nil {
			return nil, err
		}
		rec.Recalls = true
		t.put(backlogKey(p.Incarnation), []byte{0})
		return p, t.putJSON(projectKey(projectID), rec)
	})
	if err != nil {
		return err
	}
	for range backlogAtOnce {
		r, err := e.store.Read(ctx, c.Tenant, store.Query{Keys: [][]byte{backlogKey(p.Incarnation)}})
		if err != nil || r.Keys[0].Value == nil {
			return err
		}
		if err := e.markBacklog(ctx, c.Tenant, r.Keys[0]); err != nil {
			return err
		}
	}
	e.poke(c.Tenant)
	return nil
}

// markBacklog marks a chunk of the sessions that a project had when its transcripts were first asked for. The job's value
// is a zero byte and the id of the session that it has come to.
func (e *Engine) markBacklog(ctx context.Context, tenant string, job store.Item) error {
	p := incarnation(job.Key[len(sweepPrefix(jobBacklog)):])
	rng := prefixRange(headPrefix(p))
	if len(job.Value) > 1 { // a damaged job begins anew
		rng.From = append(headKey(p, string(job.Value[1:])), 0)
	}
	rng.Limit = backlogChunk
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return err
	}
	var b store.Batch
	if !job.Damaged {
		b.Expect = []store.Expect{{Key: job.Key, Value: job.Value}}
	}
	last := ""
	for _, it := range r.Ranges[0] {
		last = string(it.Key[len(headPrefix(p)) : len(it.Key)-1])
		var h head
		if it.Damaged || json.Unmarshal(it.Value, &h) != nil || h.Messages == 0 {
			continue
		}
		b.Put = append(b.Put, store.Pair{Key: unindexedKey(p, h.Incarnation), Value: unindexedMark(&h, last)})
	}
	if len(r.Ranges[0]) < rng.Limit {
		b.Delete = append(b.Delete, job.Key)
	} else {
		b.Put = append(b.Put, store.Pair{Key: job.Key, Value: append([]byte{0}, last...)})
	}
	return unlessLost(e.commit(ctx, tenant, b))
}

// stepTranscripts does one unit of the work of indexing transcripts, if a tenant has any.
func (e *Engine) stepTranscripts(ctx context.Context, tenant string) (done bool, err error) {
	backlog, marks := prefixRange(sweepPrefix(jobBacklog)), prefixRange(sweepPrefix(jobUnindexed))
	backlog.Limit, marks.Limit = 1, 1
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{backlog, marks}})
	if err != nil {
		return false, err
	}
	switch {
	case len(r.Ranges[0]) > 0:
		return true, e.markBacklog(ctx, tenant, r.Ranges[0][0])
	case len(r.Ranges[1]) > 0:
		return true, unlessLost(e.indexSession(ctx, tenant, r.Ranges[1][0]))
	}
	return false, nil
}

// marked is a session with messages that are not indexed, as of one state of the store.
type marked struct {
	id      string
	sinc    incarnation
	head    head
	rawHead []byte
	state   streamState
	raw     []byte // of the state
}

// keysOfMark names what readMark reads.
func keysOfMark(p incarnation, mark store.Item) [][]byte {
	sinc := incarnation(mark.Key[len(mark.Key)-8:])
	return [][]byte{headKey(p, string(mark.Value[8:])), recallStreamPrefix(p, recallTranscript, recallStream, sinc.stream())}
}

// readMark gives a marked session, or nil where it is gone; not whole where its head or how far it is indexed is damaged.
func readMark(mark store.Item, got []store.Item) (m *marked, whole bool) {
	m = &marked{id: string(mark.Value[8:]), sinc: incarnation(mark.Key[len(mark.Key)-8:]), rawHead: got[0].Value, raw: got[1].Value}
	if got[0].Damaged || m.rawHead != nil && json.Unmarshal(m.rawHead, &m.head) != nil {
		return nil, false
	}
	if m.rawHead == nil || m.head.Incarnation != m.sinc {
		return nil, true
	}
	var err error
	m.state, err = readStreamState(m.raw)
	return m, err == nil && !got[1].Damaged
}

// indexSession indexes a chunk of a marked session's messages, and removes the mark with the last one.
func (e *Engine) indexSession(ctx context.Context, tenant string, mark store.Item) error {
	p := incarnation(mark.Key[len(sweepPrefix(jobUnindexed)):][:8])
	if len(mark.Value) < 8 {
		e.log.Error("a mark of messages to be indexed is damaged; all sessions of its project are marked anew", "tenant", tenant)
		return e.commit(ctx, tenant, store.Batch{Put: []store.Pair{{Key: backlogKey(p), Value: []byte{0}}}, Delete: [][]byte{mark.Key}})
	}
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: keysOfMark(p, mark)})
	if err != nil {
		return err
	}
	m, whole := readMark(mark, r.Keys)
	if !whole {
		return e.mendSession(ctx, tenant, p, mark, m, r.Keys)
	}
	t := &tx{ctx: ctx, e: e, tenant: tenant, now: e.now()}
	t.batch.Expect = []store.Expect{{Key: mark.Key, Value: mark.Value}}
	if m == nil {
		t.delete(mark.Key)
		return e.commit(ctx, tenant, t.batch)
	}
	// The session's head stands for its life: nothing is indexed of one that is being swept.
	t.batch.Expect = append(t.batch.Expect, store.Expect{Key: r.Keys[0].Key, Value: m.rawHead},
		store.Expect{Key: r.Keys[1].Key, Value: m.raw})
	before := m.state.Next
	docs, languages, err := e.analyseTail(ctx, tenant, m, &workBudget{indexChunk, indexChunkBytes})
	if err != nil {
		return err
	}
	epoch, err := t.epoch(p, recallTranscript)
	if err != nil {
		return err
	}
	for i := range docs {
		t.putFresh(p, recallTranscript, epoch, &docs[i])
	}
	if m.state.Next > before {
		if err := t.putFoldJob(p, recallTranscript, slices.Collect(maps.Keys(languages))...); err != nil {
			return err
		}
	}
	if m.state.Messages == m.head.Messages {
		t.delete(mark.Key)
	}
	t.putIndex()
	if err := t.putJSON(r.Keys[1].Key, m.state); err != nil {
		return err
	}
	return e.commit(ctx, tenant, t.batch)
}

// workBudget bounds how many messages are analysed, and their bytes, until either is used up.
type workBudget struct{ messages, bytes int }

func (b *workBudget) left() bool { return b.messages > 0 && b.bytes > 0 }

// analyseTail makes documents of a session's messages behind those that are indexed, as far as the budget goes, and moves
// the session's state behind them.
func (e *Engine) analyseTail(ctx context.Context, tenant string, m *marked, budget *workBudget) (
	docs []recall.Document, languages map[string]bool, err error,
) {
	languages = map[string]bool{}
	for m.state.Messages < m.head.Messages && budget.left() {
		first := m.state.Messages + 1
		n := min(uint64(budget.messages), bodiesAtOnce, m.head.Messages-first+1)
		bodies, err := e.readBodies(ctx, tenant, m.sinc, first, first+n-1)
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
			hd, msg, err := parseBody(body)
			if err != nil || msg.Text == "" {
				continue // damaged ones are reported where they are listed
			}
			terms, latin := e.analyser.Document(msg.Text)
			if len(terms) == 0 {
				continue
			}
			if latin != "" {
				languages[latin] = true
			}
			passages, lens := recall.Passages(terms)
			for i := range passages {
				docs = append(docs, recall.Document{Place: recall.Place{Stream: m.sinc.stream(), Pos: m.state.Next},
					Number: hd.seq, Session: m.id, Group: hd.delegation, Tags: hd.tags, Created: timeOf(hd.created),
					Len: lens[i], Terms: passages[i]})
				m.state.Next++
			}
		}
	}
	return docs, languages, nil
}

// tail is what a query searches of transcripts beside their index.
type tail struct {
	docs      []recall.Document
	languages map[string]bool
	rest      uint64 // messages beyond its bounds
}

// analyseTails makes documents of marked sessions' messages that were not indexed as of the state that they were read in.
func (e *Engine) analyseTails(ctx context.Context, tenant string, sessions []*marked, out *tail) error {
	budget := &workBudget{tailMessages, tailBytes}
	for _, m := range sessions {
		if m == nil {
			continue
		}
		docs, languages, err := e.analyseTail(ctx, tenant, m, budget)
		if err != nil {
			return err
		}
		maps.Copy(out.languages, languages)
		out.docs = append(out.docs, docs...)
		out.rest += m.head.Messages - m.state.Messages
	}
	return nil
}
