package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// A document in blocks may have a vector, in two separate records at its place: the bits, which a query reads for all
// documents, and the bytes, which it reads for the nearest. Both begin with the tag of the model, because vectors of
// two models cannot be compared. Removing a document from blocks also removes its vector.

// Embedding is a document with its vector.
type Embedding struct {
	Doc *rank.Document
	rank.Quantised

	stored store.Item // the document
}

// vectorKeys returns the keys of the records of a document's vector.
func (s Space) vectorKeys(at rank.Place) (bits, bytes []byte) {
	return records.RecallBits.Key(s.Project, s.Kind, streamOf(at), at.Pos),
		records.RecallVector.Key(s.Project, s.Kind, streamOf(at), at.Pos)
}

func (s Space) modelKey() []byte { return records.RecallModel.Key(s.Project, s.Kind) }

// unembeddedKey returns the key of the mark of a document that waits for its vector.
func (s Space) unembeddedKey(at rank.Place) []byte {
	return records.RecallUnembedded.Key(s.Project, s.Kind, streamOf(at), at.Pos)
}

// Modelled says which model makes a space's vectors. While a space has such a record, every document that is put into
// blocks is marked as waiting for its vector. Documents that were there before are marked from Rest on.
type Modelled struct {
	Model  rank.Model
	Length uint32      // dimensions of its vectors; 0 if there are none yet
	Rest   *rank.Place // the first document that may lack its mark; nil if none does

	item store.Item
}

func (m *Modelled) encode() []byte {
	out := binary.BigEndian.AppendUint32(m.Model[:], m.Length)
	if m.Rest != nil {
		for _, n := range []uint64{m.Rest.Namespace, m.Rest.Stream, m.Rest.Pos} {
			out = binary.BigEndian.AppendUint64(out, n)
		}
	}
	return out
}

// readModelled reads the record of a space's model. It returns nil if there is none.
func readModelled(it store.Item) (*Modelled, error) {
	if !there(it) {
		return nil, nil
	}
	m := &Modelled{item: it}
	rest := len(m.Model) + 4
	if len(it.Value) != rest && len(it.Value) != rest+placeSize {
		return nil, ErrBroken
	}
	m.Model, m.Length = rank.Model(it.Value), binary.BigEndian.Uint32(it.Value[len(m.Model):])
	if len(it.Value) > rest {
		at := placeOf(it.Value)
		m.Rest = &at
	}
	return m, nil
}

// FoldAll does one unit of the work of stepSpaces on a space's documents, however few of them are fresh. It reports
// whether there were any.
func (svc *Service) FoldAll(ctx context.Context, tenant string, s Space) (done bool, err error) {
	job, err := svc.db.ReadItem(ctx, tenant, s.jobKey())
	if err != nil || !there(job) || stateOf(job) == dropped {
		return false, err
	}
	done, err = svc.foldSpace(ctx, tenant, job, 1)
	return done, records.LostRace(err)
}

// OfAnotherStatic reports whether a space's vectors are made by another static model than this.
func (svc *Service) OfAnotherStatic(ctx context.Context, tenant string, s Space, model rank.Model) (bool, error) {
	it, err := svc.db.ReadItem(ctx, tenant, s.modelKey())
	if err != nil {
		return false, err
	}
	made, err := readModelled(it)
	return made != nil && made.Model != model && made.Model.Static(), err
}

// marksAtOnce is how many documents one step marks as waiting for their vectors.
const marksAtOnce = 1000

// Await marks a space's documents as waiting for vectors of a model. It does one unit of that and reports that it did,
// or returns the state of the space: nil if nothing is in blocks, or if the space is being dropped. If length is not 0
// and the vectors have another number of dimensions, they are all made again.
func (svc *Service) Await(ctx context.Context, tenant string, s Space, model rank.Model, length uint32) (
	m *Modelled, done bool, err error) {
	documents := records.RecallDocument.Under2(s.Project, s.Kind)
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{s.jobKey(), s.corpusKey(), s.modelKey()}})
	if err != nil || !there(r.Keys[1]) || !there(r.Keys[0]) || stateOf(r.Keys[0]) == dropped {
		return nil, false, err
	}
	if _, err = decodeCorpus(r.Keys[1]); err == nil {
		m, err = readModelled(r.Keys[2])
	}
	if err != nil {
		return nil, false, err
	}
	b := store.Batch{}
	for _, it := range r.Keys {
		b.Expect = append(b.Expect, store.Expect{Key: it.Key, Value: it.Value})
	}
	next := Modelled{Model: model, Length: length}
	switch {
	case m == nil || m.Model != model || length != 0 && m.Length != length:
		next.Rest = &rank.Place{}
	case m.Rest == nil:
		return m, false, nil
	default:
		next.Length = m.Length
		documents.From = s.documentKey(*m.Rest)
		documents.KeysOnly, documents.Limit = true, marksAtOnce
		found, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{documents}})
		if err != nil {
			return nil, false, err
		}
		for _, it := range found.Ranges[0] {
			b.Put = append(b.Put, store.Pair{Key: s.unembeddedKey(placeOf(it.Key))})
		}
		if n := len(found.Ranges[0]); n == marksAtOnce {
			at := behind(placeOf(found.Ranges[0][n-1].Key))
			next.Rest = &at
		}
	}
	b.Put = append(b.Put, store.Pair{Key: s.modelKey(), Value: next.encode()})
	return m, true, records.LostRace(svc.db.Commit(ctx, tenant, b))
}

// Unembedded returns the next documents that are marked as waiting for vectors, after a place and up to a limit, and
// the place of the last mark, or nil if there are no more. The documents in settled need no vector: they have one, are
// gone, or are later passages of a text, of which only the first counts.
func (svc *Service) Unembedded(ctx context.Context, tenant string, s Space, m *Modelled, after *rank.Place, limit int) (
	out, settled []Embedding, last *rank.Place, err error) {
	rng := records.RecallUnembedded.Under2(s.Project, s.Kind)
	if after != nil {
		rng.From = append(s.unembeddedKey(*after), 0)
	}
	rng.Limit, rng.KeysOnly = limit, true
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return nil, nil, nil, err
	}
	var q store.Query
	for _, it := range r.Ranges[0] {
		at := placeOf(it.Key)
		_, bytes := s.vectorKeys(at)
		q.Keys = append(q.Keys, s.documentKey(at), bytes, s.documentKey(before(at)))
	}
	held, err := svc.db.Store.Read(ctx, tenant, q)
	if err != nil {
		return nil, nil, nil, err
	}
	for i, it := range r.Ranges[0] {
		at := placeOf(it.Key)
		last = &at
		stored, vector := held.Keys[3*i], held.Keys[3*i+1]
		e := Embedding{Doc: &rank.Document{Place: at}, stored: stored}
		d := readDocument(stored, false)
		if d == nil || m.has(vector) {
			settled = append(settled, e)
			continue
		}
		if former := readDocument(held.Keys[3*i+2], false); former != nil && identityOf(former) == identityOf(d) {
			settled = append(settled, e)
			continue
		}
		e.Doc = d
		out = append(out, e)
	}
	return out, settled, last, nil
}

// has reports whether a record contains the bytes of a current vector of the space.
func (m *Modelled) has(it store.Item) bool {
	value := m.Model.Of(it.Value)
	return value != nil && len(value) == int(m.Length)
}

// Left returns those of some documents that have not changed since they were read.
func (svc *Service) Left(ctx context.Context, tenant string, some []Embedding) (out []Embedding, err error) {
	var q store.Query
	for _, e := range some {
		q.Keys = append(q.Keys, e.stored.Key)
	}
	r, err := svc.db.Store.Read(ctx, tenant, q)
	for i, it := range r.Keys {
		if it.Damaged == some[i].stored.Damaged && bytes.Equal(it.Value, some[i].stored.Value) {
			out = append(out, some[i])
		}
	}
	return out, err
}

// PutVectors adds the vectors of documents to a batch. The documents must still be in blocks as they were read, and
// then no longer wait. The first vectors determine the dimensions of the space's vectors.
func (svc *Service) PutVectors(t *records.Tx, s Space, m *Modelled, made []Embedding) {
	t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: m.item.Key, Value: m.item.Value})
	if m.Length == 0 && len(made) > 0 {
		first := Modelled{Model: m.Model, Length: uint32(len(made[0].Bytes))}
		t.Put(s.modelKey(), first.encode())
	}
	for _, e := range made {
		bits, bytes := s.vectorKeys(e.Doc.Place)
		t.Put(bits, slices.Concat(m.Model[:], e.Bits))
		t.Put(bytes, slices.Concat(m.Model[:], e.Bytes))
	}
	svc.Unmark(t, s, made)
}

// Unmark removes, in a batch, the marks of documents that wait for vectors. The documents must be as they were read.
func (svc *Service) Unmark(t *records.Tx, s Space, some []Embedding) {
	for _, e := range some {
		if !e.stored.Damaged {
			t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: e.stored.Key, Value: e.stored.Value})
		}
		t.Delete(s.unembeddedKey(e.Doc.Place))
	}
}

// DeleteVectors deletes a chunk of a space's vectors. First it deletes the record of their model, so that no more
// documents are marked. It reports whether there was anything to delete.
func (svc *Service) DeleteVectors(ctx context.Context, tenant string, s Space) (more bool, err error) {
	q := store.Query{Keys: [][]byte{s.modelKey()}}
	for _, rng := range []store.Range{records.RecallBits.Under2(s.Project, s.Kind),
		records.RecallVector.Under2(s.Project, s.Kind), records.RecallUnembedded.Under2(s.Project, s.Kind)} {
		rng.KeysOnly, rng.Limit = true, records.SweepChunk
		q.Ranges = append(q.Ranges, rng)
	}
	r, err := svc.db.Store.Read(ctx, tenant, q)
	if err != nil {
		return false, err
	}
	var b store.Batch
	if there(r.Keys[0]) {
		b.Delete = append(b.Delete, s.modelKey())
	}
	for _, it := range slices.Concat(r.Ranges...) {
		b.Delete = append(b.Delete, it.Key)
	}
	if len(b.Delete) == 0 {
		return false, nil
	}
	svc.db.Removed.Main.Store(true)
	return true, svc.db.Commit(ctx, tenant, b)
}
