package recall

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Transcripts are indexed after the turns. Once a project's transcripts have been searched, each turn marks its
// session, with one small record in its own batch, and a job indexes the marked sessions. The sessions that the project
// had before are its backlog, which another job marks. A project whose transcripts are never searched has no cost.

// The amount of work in one unit.
const (
	indexChunk      = 256     // messages of a session
	indexChunkBytes = 2 << 20 // of these messages
	backlogChunk    = 500     // sessions
	backlogAtOnce   = 4       // chunks of sessions that the first query marks itself
)

// streamState records how far a session is indexed.
type streamState struct {
	Messages uint64 `json:"messages"` // the number of indexed messages, from the first
	Next     uint64 `json:"next"`     // position of the next document
	// Superseded are the session's runs without documents in the index, and Gone the number of documents removed for them.
	Superseded transcript.Runs `json:"superseded,omitempty"`
	Gone       uint64          `json:"gone,omitempty"`
	// Edits is the number of changes of messages that the index knows; see transcript.Change.
	Edits uint32 `json:"edits,omitempty"`
	// Namespace is the number of the session's namespace.
	Namespace uint64 `json:"namespace,omitempty"`
}

func readStreamState(value []byte) (s streamState, err error) {
	s.Next = 1
	if value != nil {
		err = json.Unmarshal(value, &s)
	}
	return s, err
}

// enableTranscripts makes a project's turns mark their sessions from now on, and marks the sessions that it already
// has.
func (svc *Service) enableTranscripts(ctx context.Context, c ident.Caller, projectID string) error {
	p, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (*project.Record, error) {
		p, err := svc.projects.Project(t, c.Unconfined(), projectID)
		if err != nil || p.Recalls {
			return p, err
		}
		rec, err := records.GetTx[project.Record](t, records.Project.Key(projectID)) // p is shared
		if err != nil || rec == nil {
			return p, err
		}
		rec.Recalls = true
		t.Put(records.BacklogJob.Key(p.Incarnation), []byte{0})
		return p, t.PutJSON(records.Project.Key(projectID), rec)
	})
	if err != nil {
		return err
	}
	for range backlogAtOnce {
		job, err := svc.db.ReadItem(ctx, c.Tenant, records.BacklogJob.Key(p.Incarnation))
		if err != nil || job.Value == nil {
			return err
		}
		if err := svc.markBacklog(ctx, c.Tenant, job); err != nil {
			return err
		}
	}
	svc.jobs.Poke(c.Tenant)
	return nil
}

// markBacklog marks a chunk of the sessions that a project had when its transcripts were first searched. The job's
// value is a zero byte and the id of the last session examined.
func (svc *Service) markBacklog(ctx context.Context, tenant string, job store.Item) error {
	pinc, _ := records.BacklogJob.Split(job.Key)
	rng := records.Session.Under(pinc)
	if len(job.Value) > 1 { // a damaged job starts over
		rng.From = append(records.Session.Key(pinc, string(job.Value[1:])), 0)
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
		_, last, _ = records.Session.Split(it.Key)
		var h session.Head
		if it.Damaged || json.Unmarshal(it.Value, &h) != nil || h.Messages == 0 {
			continue
		}
		b.Put = append(b.Put, store.Pair{Key: records.UnindexedJob.Key(pinc, h.Incarnation),
			Value: session.UnindexedMark(&h, last)})
	}
	if len(r.Ranges[0]) < rng.Limit {
		b.Delete = append(b.Delete, job.Key)
	} else {
		b.Put = append(b.Put, store.Pair{Key: job.Key, Value: append([]byte{0}, last...)})
	}
	return records.LostRace(svc.db.Commit(ctx, tenant, b))
}

// stepTranscripts does one unit of the work of indexing a tenant's transcripts, if there is any.
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

// marked is a session that may have unindexed messages, in one state of the store.
type marked struct {
	id    string
	sinc  ident.Incarnation
	head  session.Head
	state streamState
}

// stream returns the stream of the session's documents.
func (m *marked) stream() records.Stream {
	return records.Stream{Namespace: m.state.Namespace, Number: m.sinc.Stream()}
}

// keysOfMark returns the keys that readMark needs: the session's head, and the record of how far it is indexed.
func keysOfMark(pinc ident.Incarnation, mark store.Item) [][]byte {
	_, sinc, _ := records.UnindexedJob.Split(mark.Key)
	return [][]byte{records.Session.Key(pinc, string(mark.Value[8:])), index.Transcripts(pinc).StreamKey(rank.Place{Stream: sinc.Stream()})}
}

// readMark returns a marked session, or nil if it is gone. It returns records.ErrDamaged if the session's head is
// damaged, and index.ErrBroken if the record of how far it is indexed is damaged.
func readMark(mark store.Item, got []store.Item) (*marked, error) {
	_, sinc, _ := records.UnindexedJob.Split(mark.Key)
	m := &marked{id: string(mark.Value[8:]), sinc: sinc}
	if got[0].Damaged || got[0].Value != nil && json.Unmarshal(got[0].Value, &m.head) != nil {
		return nil, records.ErrDamaged
	}
	if got[0].Value == nil || m.head.Incarnation != sinc {
		return nil, nil
	}
	var err error
	if m.state, err = readStreamState(got[1].Value); err != nil || got[1].Damaged {
		return nil, index.ErrBroken
	}
	if got[1].Value == nil {
		pinc, _, _ := records.UnindexedJob.Split(mark.Key)
		m.state.Namespace = index.Transcripts(pinc).Number(ident.NamespacePath(m.head.Namespace))
		m.state.Edits = m.head.Edits
	}
	return m, nil
}

// indexSession indexes a chunk of a marked session's messages, and deletes the mark with the last one. It does nothing
// while the index is being dropped. It replaces an unreadable mark by a new backlog.
func (svc *Service) indexSession(ctx context.Context, tenant string, mark store.Item) (done bool, err error) {
	pinc, _, _ := records.UnindexedJob.Split(mark.Key)
	if len(mark.Value) < 8 {
		svc.db.Log.Error("a mark of messages to be indexed is damaged; all sessions of its project will be checked",
			"tenant", tenant)
		b := newBacklog(pinc)
		b.Delete = [][]byte{mark.Key}
		return true, svc.db.Commit(ctx, tenant, b)
	}
	t := svc.db.Begin(ctx, tenant)
	t.Batch.Expect = []store.Expect{{Key: mark.Key, Value: mark.Value}}
	space := index.Transcripts(pinc)
	indexed, err := svc.index.Change(t, space, func() error { return svc.indexMessages(t, pinc, mark) })
	if err != nil || !indexed && t.Writes() == 0 {
		return false, err
	}
	return true, svc.db.Commit(ctx, tenant, t.Batch)
}

// indexMessages adds the writes that index a chunk of a marked session's messages.
func (svc *Service) indexMessages(t *records.Tx, pinc ident.Incarnation, mark store.Item) error {
	// The batch expects the session's head, so that nothing is indexed of a session that is being swept.
	got, err := t.Look(keysOfMark(pinc, mark)...)
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
		t.Delete(mark.Key) // The next turn leaves a new one.
		return nil
	}
	if !m.state.Superseded.Equal(m.head.Superseded) {
		remove := svc.removeSuperseded
		if m.restored() > 0 {
			remove = svc.removeRestored
		}
		more, err := remove(t, index.Transcripts(pinc), m)
		if err != nil || more {
			return errors.Join(err, t.PutJSON(got[1].Key, m.state))
		}
		m.state.Superseded = m.head.Superseded
	}
	before := m.state.Next
	var docs []rank.Document
	var languages []string
	if m.state.Edits < m.head.Edits {
		var more bool
		if docs, languages, more, err = svc.replaceEdited(t, index.Transcripts(pinc), m); err != nil || more {
			return errors.Join(err, t.PutJSON(got[1].Key, m.state))
		}
	} else if docs, languages, err = svc.analyse(t.Ctx, t.Tenant, m, &workBudget{indexChunk, indexChunkBytes}); err != nil {
		return err
	}
	if m.state.Next > before {
		if _, err := svc.index.AddDocuments(t, index.Transcripts(pinc), docs, languages...); err != nil {
			return err
		}
	}
	if m.state.Messages == m.head.Messages && m.state.Edits == m.head.Edits {
		t.Delete(mark.Key)
	}
	return t.PutJSON(got[1].Key, m.state)
}

// removeSuperseded removes from the index a chunk of the documents of messages that a rewind took back, and reports
// whether there are more.
func (svc *Service) removeSuperseded(t *records.Tx, s index.Space, m *marked) (more bool, err error) {
	first := m.newlySuperseded()
	if first > m.state.Messages {
		return false, nil
	}
	n, more, err := svc.index.RemoveDocuments(t, s, m.stream(), m.oldest(first), m.head.Superseded.Message)
	m.state.Gone += uint64(n)
	return more, err
}

// newlySuperseded returns the first superseded message that may still have documents, or one after all messages.
func (m *marked) newlySuperseded() uint64 {
	for _, r := range m.head.Superseded {
		if !slices.Contains(m.state.Superseded, r) {
			return r.Messages[0]
		}
	}
	return m.head.Messages + 1
}

// restored returns the first indexed message that was superseded and has been restored, or 0 if there is none.
func (m *marked) restored() uint64 {
	for _, r := range m.state.Superseded {
		first, _ := m.head.Superseded.Stretch(r.Messages[0])
		if first <= min(r.Messages[1], m.state.Messages) {
			return first
		}
	}
	return 0
}

// removeRestored removes from the index a chunk of the documents from the first restored message on, so that they are
// indexed again in order, and of those that are superseded now. It reports whether there are more.
func (svc *Service) removeRestored(t *records.Tx, s index.Space, m *marked) (more bool, err error) {
	first := m.restored()
	oldest := min(first, m.newlySuperseded())
	n, more, err := svc.index.RemoveDocuments(t, s, m.stream(), m.oldest(oldest), func(number uint64) bool {
		return number >= first || m.head.Superseded.Message(number)
	})
	m.state.Gone += uint64(n)
	if err == nil && !more {
		m.state.Messages = first - 1
	}
	return more, err
}

// oldest returns the message with which a search for documents of a message and later ones may end. The documents are in
// the order of their messages, unless messages have been changed.
func (m *marked) oldest(first uint64) uint64 {
	if m.state.Edits > 0 {
		return 0
	}
	return first
}

// edited returns the indexed messages that a change of a session has changed, in ascending order. If its record is
// erased, these may be any.
func (svc *Service) edited(ctx context.Context, tenant string, m *marked, n uint32) (numbers []uint64, err error) {
	c, err := svc.sessions.ReadChange(ctx, tenant, m.sinc, n)
	if err != nil {
		return nil, err
	}
	if c == nil {
		for number := range m.state.Messages {
			numbers = append(numbers, number+1)
		}
		return numbers, nil
	}
	for _, item := range c.Items {
		if item.Seq <= m.state.Messages {
			numbers = append(numbers, item.Seq)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// replaceEdited replaces the documents of the messages that one change has changed: it removes a chunk of the old ones
// and reports whether there are more, or returns the new ones.
func (svc *Service) replaceEdited(t *records.Tx, s index.Space, m *marked) (docs []rank.Document, languages []string,
	more bool, err error) {
	numbers, err := svc.edited(t.Ctx, t.Tenant, m, m.state.Edits+1)
	if err != nil {
		return nil, nil, false, err
	}
	n, more, err := svc.index.RemoveDocuments(t, s, m.stream(), 0, func(number uint64) bool {
		_, changed := slices.BinarySearch(numbers, number)
		return changed
	})
	m.state.Gone += uint64(n)
	if err != nil || more {
		return nil, nil, more, err
	}
	if m.state.Edits++; m.state.Edits <= m.head.Erased {
		m.state.Edits, m.state.Messages = m.head.Erased, 0 // All are indexed anew.
		return nil, nil, false, nil
	}
	docs, languages, _, err = svc.analyseThese(t.Ctx, t.Tenant, m, numbers, &workBudget{math.MaxInt, math.MaxInt})
	return docs, languages, false, err
}

// analyseThese makes documents of some of a session's messages, in ascending order, except superseded ones, within the
// budget. It reads messages that follow each other together. It reports whether all fit.
func (svc *Service) analyseThese(ctx context.Context, tenant string, m *marked, numbers []uint64, budget *workBudget) (
	docs []rank.Document, languages []string, whole bool, err error) {
	before, head := m.state.Messages, m.head
	defer func() { m.state.Messages, m.head = before, head }()
	for i := 0; i < len(numbers); {
		end := i + 1
		for end < len(numbers) && numbers[end] == numbers[end-1]+1 {
			end++
		}
		m.state.Messages, m.head.Messages = numbers[i]-1, numbers[end-1]
		some, in, err := svc.analyse(ctx, tenant, m, budget)
		if err != nil {
			return nil, nil, false, err
		}
		docs, languages = append(docs, some...), append(languages, in...)
		if m.left() > 0 {
			return docs, languages, false, nil
		}
		i = end
	}
	return docs, languages, true, nil
}

// IndexTranscripts marks all transcripts of a project to be indexed again after its index was dropped. It is an
// index.Source.
func (svc *Service) IndexTranscripts(ctx context.Context, tenant string, pinc ident.Incarnation, _ string) (
	next string, err error,
) {
	return "", svc.db.Commit(ctx, tenant, newBacklog(pinc))
}

// newBacklog returns a batch that makes all sessions of a project its backlog.
func newBacklog(pinc ident.Incarnation) store.Batch {
	return store.Batch{Put: []store.Pair{{Key: records.BacklogJob.Key(pinc), Value: []byte{0}}}}
}

// workBudget limits the number of messages that are analysed and their bytes. It is used up when either is.
type workBudget struct{ messages, bytes int }

func (b *workBudget) left() bool { return b.messages > 0 && b.bytes > 0 }

// left returns the number of messages that are not indexed yet.
func (m *marked) left() uint64 {
	n := m.head.Messages - m.state.Messages
	gone := m.head.Superseded
	return n - (gone.Messages(m.head.Messages) - gone.Messages(m.state.Messages))
}

// analyse makes documents of a session's messages after those that are indexed, except superseded ones, within the
// budget, and advances the session's state.
func (svc *Service) analyse(ctx context.Context, tenant string, m *marked, budget *workBudget) (
	docs []rank.Document, languages []string, err error,
) {
	for m.state.Messages < m.head.Messages && budget.left() {
		first, end := m.head.Superseded.Stretch(m.state.Messages + 1)
		m.state.Messages = min(first-1, m.head.Messages)
		if first > m.head.Messages {
			break
		}
		n := min(uint64(budget.messages), transcript.BodiesAtOnce, min(end, m.head.Messages)-first+1)
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
			if err != nil {
				continue // Damaged ones are reported when they are listed.
			}
			read := svc.index.Analyse(rank.Document{Number: hd.Seq, Session: m.id, Path: ident.NamespacePath(m.head.Namespace), Group: hd.Delegation,
				Tags: hd.Tags, Created: records.TimeOf(hd.Created), Speaker: msg.Name,
				Assistant: hd.Role == plan.RoleAssistant}, searchedText(msg), "")
			parts := read.Passages
			if parts[0].Len == 0 {
				continue
			}
			for _, l := range read.Languages {
				if !slices.Contains(languages, l) {
					languages = append(languages, l)
				}
			}
			for i := range parts {
				parts[i].Place = rank.Place{Namespace: m.state.Namespace, Stream: m.sinc.Stream(), Pos: m.state.Next}
				m.state.Next++
			}
			docs = append(docs, parts...)
		}
	}
	return docs, languages, nil
}
