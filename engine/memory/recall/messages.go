package recall

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The limits of searching what is not indexed.
const (
	tailMessages = 4096
	tailBytes    = 8 << 20
	tailSessions = 4096
	tailEdited   = 256 // changed messages of one session
)

// tail is what a query searches besides the index: messages that are not indexed yet.
type tail struct {
	docs      []rank.Document
	languages []string
	rest      uint64 // messages over the limits
	damaged   bool   // something was left out
	// edited are messages whose documents in the index are out of date, by stream, with the position from which on documents
	// are up to date.
	edited map[records.Stream]outdated
}

// outdated are messages of a session that were changed since they were indexed.
type outdated struct {
	numbers map[uint64]bool
	from    uint64 // the position of the first document that is not in the index
}

// outdates reports whether a document of the index is of an earlier version of its message.
func (t *tail) outdates(d *rank.Document) bool {
	of, ok := t.edited[records.Stream{Namespace: d.Namespace, Number: d.Stream}]
	return ok && d.Pos < of.from && of.numbers[d.Number]
}

// findMessages finds messages by words.
func (r *recalling) findMessages() error {
	if !r.project.Recalls {
		if err := r.svc.enableTranscripts(r.ctx, r.caller, r.project.ID); err != nil {
			return err
		}
	}
	q := &index.Query{Space: index.Transcripts(r.project.Incarnation), Text: r.Query.Query, Filter: r.filter,
		Viewer: r.viewer, Limit: r.Limit, Under: r.memories.Under()}
	if r.SessionID != "" {
		_, h, err := r.svc.sessions.Existing(r.ctx, r.caller, r.project.ID, r.SessionID)
		if fault.IsNotFound(err) && r.Scope == scopeBoth {
			return nil // memories outlive their session
		}
		if err != nil {
			return err
		}
		q.Filter.Stream = h.Incarnation.Stream()
	}
	q.Now, q.Plain = r.now(), r.Plain
	q.Holds = func(d *rank.Document, phrase string) (bool, error) {
		bodies, err := r.svc.sessions.ReadBodies(r.ctx, r.tenant, ident.IncarnationOf(d.Stream), d.Number, d.Number)
		if err != nil {
			return false, err
		}
		_, m, err := transcript.ParseBody(bodies[0])
		return err == nil && r.svc.index.Holds(searchedText(m), phrase), nil
	}
	marks, err := r.readMarks()
	if err != nil {
		return err
	}
	for _, m := range marks {
		q.Keys = append(q.Keys, keysOfMark(r.project.Incarnation, m)...)
	}
	var unindexed tail
	q.Unindexed = func(held []store.Item) (_ []rank.Document, _ []string, err error) {
		unindexed, err = r.analyseTails(marks, held)
		return unindexed.docs, unindexed.languages, err
	}
	live := map[string]*session.Head{}
	q.Accept = func(d *rank.Document) (bool, error) {
		if unindexed.outdates(d) {
			return false, nil
		}
		h, known := live[d.Session]
		if !known {
			_, found, _, err := r.svc.sessions.ReadHead(r.ctx, r.caller, r.project.ID, d.Session)
			switch {
			case errors.Is(err, records.ErrDamaged):
				r.out.Incomplete, err = true, nil
			case fault.IsNotFound(err): // the caller does not reach it
				err = nil
			}
			if err != nil {
				return false, err
			}
			h, live[d.Session] = found, found
		}
		// Otherwise it is of a deleted session that will be swept, or superseded, or of a session that is not searched.
		return h != nil && h.Incarnation.Stream() == d.Stream && r.shows(h.Kind) && !h.Superseded.Message(d.Number), nil
	}
	hits, incomplete, err := r.search(q)
	if err != nil {
		return err
	}
	r.out.Incomplete = r.out.Incomplete || incomplete || unindexed.damaged || unindexed.rest > 0
	r.out.UnindexedMessages += unindexed.rest
	if len(unindexed.docs) >= indexChunk {
		r.svc.jobs.Poke(r.tenant)
	}
	for i := range hits {
		d := hits[i].Doc
		sinc := ident.IncarnationOf(d.Stream)
		bodies, err := r.svc.sessions.ReadBodies(r.ctx, r.tenant, sinc, d.Number, d.Number)
		if err != nil {
			return err
		}
		hd, m, err := transcript.ParseBody(bodies[0])
		if err != nil {
			continue // it is damaged, or gone
		}
		hit := messageHit(sinc, d.Number, d.Session, hd, m)
		hit.Background = live[d.Session].Kind == session.KindBackground
		if !r.out.add(hit.found(&hits[i])) {
			return nil
		}
	}
	return nil
}

// readMarks returns the marks of a project's sessions with messages that are not indexed. If they are incomplete, the
// result says that hits may be missing.
func (r *recalling) readMarks() ([]store.Item, error) {
	pinc := r.project.Incarnation
	rng := records.UnindexedJob.Under(pinc)
	rng.Limit = tailSessions
	read, err := r.svc.db.Store.Read(r.ctx, r.tenant, store.Query{Keys: [][]byte{records.BacklogJob.Key(pinc)},
		Ranges: []store.Range{rng}})
	if err != nil {
		return nil, err
	}
	found := len(read.Ranges[0])
	marks := slices.DeleteFunc(read.Ranges[0], func(it store.Item) bool { return len(it.Value) < 8 })
	if read.Keys[0].Value != nil || found == rng.Limit || len(marks) < found {
		r.out.Incomplete = true
	}
	return marks, nil
}

// analyseTails makes documents of the unindexed messages of marked sessions. held are, for each mark, the values of the
// keys of keysOfMark in the state that is searched. If the query names a session, only its messages count.
func (r *recalling) analyseTails(marks, held []store.Item) (found tail, err error) {
	budget := &workBudget{tailMessages, tailBytes}
	for i, mark := range marks {
		m, err := readMark(mark, held[2*i:2*i+2])
		if err != nil {
			found.damaged = true
		}
		if m == nil || r.SessionID != "" && r.SessionID != m.id || !ident.Below(m.head.Namespace, r.Namespace) {
			continue
		}
		if err := r.analyseEdited(m, &found, budget); err != nil {
			return found, err
		}
		docs, languages, err := r.svc.analyse(r.ctx, r.tenant, m, budget)
		if err != nil {
			return found, err
		}
		found.docs, found.languages = append(found.docs, docs...), append(found.languages, languages...)
		found.rest += m.left()
	}
	return found, nil
}

// analyseEdited makes documents of the new versions of a session's messages that the index does not know, within the
// budget.
func (r *recalling) analyseEdited(m *marked, found *tail, budget *workBudget) error {
	if m.state.Edits >= m.head.Edits {
		return nil
	}
	of := outdated{map[uint64]bool{}, m.state.Next}
	for n := m.state.Edits; n < m.head.Edits; n++ {
		numbers, err := r.svc.edited(r.ctx, r.tenant, m, n+1)
		if err != nil {
			return err
		}
		for _, number := range numbers {
			of.numbers[number] = true
		}
	}
	numbers := slices.Sorted(maps.Keys(of.numbers))
	if len(numbers) > tailEdited {
		numbers, found.damaged = numbers[:tailEdited], true
	}
	docs, languages, whole, err := r.svc.analyseThese(r.ctx, r.tenant, m, numbers, budget)
	if err != nil {
		return err
	}
	found.damaged = found.damaged || !whole
	if found.edited == nil {
		found.edited = map[records.Stream]outdated{}
	}
	found.edited[m.stream()] = of
	found.docs, found.languages = append(found.docs, docs...), append(found.languages, languages...)
	return nil
}

// searchedText returns the searchable text of a message: its text, and the names and arguments of its tool calls. It
// excludes hidden content, which repeats memories. These are found themselves, until they are forgotten.
func searchedText(m *chat.Message) string {
	if m.Hidden {
		return ""
	}
	if len(m.Calls) == 0 {
		return m.Text
	}
	var b strings.Builder
	b.WriteString(m.Text)
	for i := range m.Calls {
		fmt.Fprintf(&b, "\n%s %s", m.Calls[i].Name, rawjson.Text([]byte(m.Calls[i].Arguments)))
	}
	return strings.TrimSpace(b.String())
}
