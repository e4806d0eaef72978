package index

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Passages is the record of where the passages of a memory are: at adjacent places of one stream.
type Passages struct {
	First rank.Place
	Epoch uint32 // in which they were added
	Count uint64
}

const passagesVersion = 3

func (ps Passages) append(dst []byte) []byte {
	dst = append(dst, passagesVersion)
	for _, n := range []uint64{ps.First.Stream, ps.First.Pos, uint64(ps.Epoch), ps.Count} {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// ReadPassages decodes the record of the passages of the memory with that full name.
func (s Space) ReadPassages(id string, b []byte) (ps Passages, ok bool) {
	if len(b) == 0 || b[0] != passagesVersion {
		return ps, false
	}
	var numbers [4]uint64
	b = b[1:]
	for i := range numbers {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return ps, false
		}
		numbers[i], b = n, b[size:]
	}
	first := rank.Place{Namespace: s.Number(ident.PathOf(id)), Stream: numbers[0], Pos: numbers[1]}
	ps = Passages{first, uint32(numbers[2]), numbers[3]}
	return ps, len(b) == 0 && numbers[2] <= math.MaxUint32
}

// Place returns the place of passage i, counted from 0.
func (ps Passages) Place(i uint64) rank.Place {
	at := ps.First
	at.Pos += i
	return at
}

// Analysed is a text prepared for indexing without the store: one document per passage, without its place.
type Analysed struct {
	Passages  []rank.Document
	Languages []string // languages that queries must be stemmed in to find the text
}

// Analyse analyses a text, and the text beside, which is also searched. doc has all fields of its documents that do not
// depend on the text or its place.
func (svc *Service) Analyse(doc rank.Document, text, beside string) Analysed {
	doc.Style = rank.StyleOf(text)
	if beside != "" {
		text = text + "\n" + beside
		doc.Said = rank.StyleOf(text).Said
	}
	read := svc.analyser.Index(text)
	var docs []rank.Document
	for _, p := range rank.Passages(read.Terms, read.Stops, rank.SpeakerTerms(doc.Speaker)) {
		doc.Len, doc.Terms, doc.Order = p.Len, p.Terms, p.Order
		docs = append(docs, doc)
	}
	return Analysed{docs, read.Languages}
}

// PutDocuments indexes memories' texts in the batch that writes the memories. It replaces the previous documents of
// their ids.
func (svc *Service) PutDocuments(t *records.Tx, project ident.Incarnation, docs ...Analysed) error {
	s := Memories(project)
	keys := [][]byte{s.epochKey()}
	for _, d := range docs {
		first := &d.Passages[0] // There is always one, however short the text is.
		at := s.streamOf(first)
		keys = append(append(keys, records.RecallMemory.Key(project, first.ID)), s.noteKeys(at.Namespace, d.Languages...)...)
		if first.Session != "" {
			keys = append(keys, s.StreamKey(at))
		}
	}
	if _, err := t.Look(keys...); err != nil { // all that follows needs, in one round trip
		return err
	}
	_, err := svc.Change(t, s, func() error {
		start := func(d Analysed) uint64 { return rank.Timed(d.Passages[0].Created).Pos }
		var r run
		for i, d := range docs {
			if at := start(d); i == 0 || at != r.start {
				r = run{start: at, long: i+longRun <= len(docs) && start(docs[i+longRun-1]) == at}
			}
			if err := svc.putDocument(t, s, d, &r); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// streamOf returns the namespace and stream of a memory's document, as a place without a position.
func (s Space) streamOf(d *rank.Document) rank.Place {
	return rank.Place{Namespace: s.Number(ident.PathOf(d.ID)), Stream: rank.StreamOf(d.Session)}
}

// run is where a batch puts documents one after another, all changed in the same millisecond.
type run struct {
	start uint64 // the first place of the millisecond
	long  bool   // there are at least longRun of them
	next  uint64 // the place after the last one; 0 before the first
}

func (svc *Service) putDocument(t *records.Tx, s Space, d Analysed, r *run) error {
	id := d.Passages[0].ID
	err := svc.removePassages(t, s, id)
	if err != nil {
		return err
	}
	ps := Passages{First: s.streamOf(&d.Passages[0]), Count: uint64(len(d.Passages))}
	if ps.First.Pos, err = s.nextPosition(t, &ps, r); err != nil {
		return err
	}
	for i := range d.Passages {
		d.Passages[i].Place = ps.Place(uint64(i))
	}
	if ps.Epoch, err = svc.AddDocuments(t, s, d.Passages, d.Languages...); err != nil {
		return err
	}
	if ps.First.Stream == 0 {
		s.expectFree(t, &ps)
	}
	t.Put(records.RecallMemory.Key(s.Project, id), ps.append(nil))
	return nil
}

// HasDocument reports whether a memory is in the index.
func HasDocument(t *records.Tx, project ident.Incarnation, id string) (bool, error) {
	got, err := t.Look(records.RecallMemory.Key(project, id))
	return err == nil && got[0].Value != nil, err
}

// DeleteDocument removes a memory from the index, in the batch that deletes the memory.
func (svc *Service) DeleteDocument(t *records.Tx, project ident.Incarnation, id string) error {
	s := Memories(project)
	_, err := svc.Change(t, s, func() error { return svc.removePassages(t, s, id) })
	return err
}

// settles is how often Settle tries. Each attempt that loses to another writer means that the other removed marks.
const settles = 64

// Settle removes the documents that are marked as dead from a space. If others change the space constantly, the job
// removes the remaining ones. done is false if the space is being dropped as a whole.
func (svc *Service) Settle(ctx context.Context, tenant string, s Space) (done bool, err error) {
	for range settles {
		job, err := svc.db.ReadItem(ctx, tenant, s.jobKey())
		if err != nil || stateOf(job) == dropped {
			return false, err
		}
		f, fresh, marks, err := svc.look(ctx, tenant, job)
		if err == nil && len(marks) > 0 {
			err = records.LostRace(f.takeOut(marks, f.oldest(fresh), foldDead))
		}
		if errors.Is(err, ErrBroken) {
			return true, records.LostRace(svc.rebuild(ctx, tenant, job))
		}
		if err != nil || len(marks) == 0 {
			return true, err
		}
	}
	return true, nil
}

// A memory without a session takes a random place among this many, as powers of two. With fewer places the index is
// smaller, but two writers are more likely to choose the same place.
const (
	firstDraw = 10 // within the millisecond
	laterDraw = 20 // within about a second
	lastDraw  = 24 // and directly, for a batch with this many documents in a run:
	longRun   = 16
)

// nextPosition chooses where passages begin. In a session that is after its last passage. Without a session it is a
// random place of the millisecond in which the memory was changed, so that writers do not wait for each other. A file
// may contain very many memories changed in the same millisecond. They are put one after another, because few runs of
// places collide where as many single places would. If a place is taken, by an earlier document of the batch or in the
// store, it tries one of a larger number of places.
func (s Space) nextPosition(t *records.Tx, ps *Passages, r *run) (uint64, error) {
	if ps.First.Stream == 0 {
		got, err := t.Look(s.epochKey())
		if err != nil {
			return 0, err
		}
		epoch, err := readEpoch(got[0])
		if err != nil {
			return 0, err
		}
		at := Passages{First: ps.First, Count: ps.Count}
		at.First.Pos = r.next
		for tried := t.Tried; at.First.Pos == 0 || s.taken(t, epoch, &at); tried++ {
			bits := min(laterDraw+2*(tried-1), lastDraw)
			if r.long {
				bits = lastDraw
			} else if tried == 0 {
				bits = firstDraw
			}
			var random [4]byte
			t.DB.Random(random[:])
			at.First.Pos = r.start + uint64(binary.BigEndian.Uint32(random[:])>>(32-bits))
		}
		r.next = at.First.Pos + at.Count
		return at.First.Pos, nil
	}
	key := s.StreamKey(ps.First)
	got, err := t.Look(key)
	if err != nil {
		return 0, err
	}
	next := uint64(1)
	if value := got[0].Value; len(value) == 8 {
		next = binary.BigEndian.Uint64(value)
	} else if there(got[0]) {
		return 0, ErrBroken
	}
	t.Put(key, binary.BigEndian.AppendUint64(nil, next+ps.Count))
	return next, nil
}

// taken reports whether the batch itself writes one of the places.
func (s Space) taken(t *records.Tx, epoch uint32, ps *Passages) bool {
	for i := range ps.Count {
		if t.Left(store.Item{Key: s.freshKey(epoch, ps.Place(i))}).Value != nil {
			return true
		}
	}
	return false
}

// expectFree makes the batch fail if one of the places is already taken.
func (s Space) expectFree(t *records.Tx, ps *Passages) {
	for i := range ps.Count {
		at := ps.Place(i)
		for _, key := range [][]byte{s.freshKey(ps.Epoch, at), s.freshKey(max(ps.Epoch, 1)-1, at), s.documentKey(at)} {
			t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: key})
		}
	}
}

// AddDocuments adds fresh documents of one namespace, and returns the epoch they are in. languages are those that some
// of them were stemmed in.
func (svc *Service) AddDocuments(t *records.Tx, s Space, docs []rank.Document, languages ...string) (
	epoch uint32, err error,
) {
	notes := s.noteKeys(docs[0].Place.Namespace, languages...)
	got, err := t.Look(append(notes, s.epochKey())...)
	if err != nil {
		return 0, err
	}
	if epoch, err = readEpoch(got[len(notes)]); err != nil {
		return 0, err
	}
	for i := range docs {
		t.Put(s.freshKey(epoch, docs[i].Place), docs[i].Append(nil))
	}
	// Write only missing notes: keys that every batch rewrites would be slow to scan.
	for i, key := range notes {
		if got[i].Value == nil {
			t.Put(key, []byte{0})
		}
	}
	if svc.added.Add(1)%foldAt == 0 {
		svc.jobs.Poke(t.Tenant)
	}
	return epoch, nil
}

// noteKeys returns the keys of the space's job, and of the notes about the languages in which documents of a namespace
// were stemmed. The job stays as long as the project, because whoever deletes it could not know that no document is
// being added at the same time.
func (s Space) noteKeys(namespace uint64, languages ...string) [][]byte {
	keys := [][]byte{s.jobKey()}
	for _, latin := range languages {
		if latin != "" {
			keys = append(keys, records.RecallLanguage.Key(s.Project, s.Kind, latin))
			if namespace != 0 {
				keys = append(keys, records.RecallNamespaceLanguage.Key(s.Project, s.Kind, namespace, latin))
			}
		}
	}
	return keys
}

// removePassages removes a memory's passages, if it has any.
func (svc *Service) removePassages(t *records.Tx, s Space, id string) error {
	key := records.RecallMemory.Key(s.Project, id)
	got, err := t.Look(key)
	if err != nil || !there(got[0]) {
		return err
	}
	ps, ok := s.ReadPassages(id, got[0].Value)
	if got[0].Damaged || !ok {
		return ErrBroken
	}
	t.Delete(key)
	places := make([]rank.Place, ps.Count)
	for i := range places {
		places[i] = ps.Place(uint64(i))
	}
	return svc.removeDocuments(t, s, ps.Epoch, places)
}

// removeDocuments removes documents from a space. Fresh documents are deleted. Those in blocks are marked as dead, so
// that they no longer count, and the job removes their postings. The epoch is the one that fresh documents among them
// were added in.
func (svc *Service) removeDocuments(t *records.Tx, s Space, epoch uint32, places []rank.Place) error {
	ask := make([][]byte, 0, 2*len(places)+1)
	for _, at := range places {
		ask = append(ask, s.freshKey(epoch, at), s.documentKey(at))
	}
	got, err := t.Look(append(ask, s.epochKey())...)
	if err != nil {
		return err
	}
	now, err := readEpoch(got[len(ask)])
	if err != nil {
		return err
	}
	marked := false
	for i, at := range places {
		if fresh := got[2*i]; there(fresh) {
			t.Delete(fresh.Key)
			continue
		}
		folded := got[2*i+1]
		if !there(folded) {
			continue
		}
		d := readDocument(folded, false)
		if d == nil {
			return ErrBroken
		}
		t.Put(s.deadKey(now, at), deadMark(d.Len))
		marked = true
	}
	if marked {
		svc.jobs.Poke(t.Tenant)
	}
	return nil
}
