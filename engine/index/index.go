package index

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The index of a project has a space for its memories and one for its transcripts. It knows documents only, and nothing
// of what they are made of. A document is written as one record, in the batch of what it stands for; a job puts many at
// once into blocks, which hold a term's postings by place. Queries read both. Everything that changes blocks expects
// the space's corpus record unchanged and raises its version, so that blocks need no preconditions of their own.
// Documents that wait for their block lie under an epoch, which moves on every so often and which their writers expect.
// A query starts from the oldest epoch in use, because starting there avoids scanning the tombstones of documents that
// are in blocks already. A document's record names its terms: taking it out removes exactly what was put in.

// Analyser turns texts into the terms of the recall index, safe for concurrent use. Terms are at most 512 bytes and
// hold no zero byte.
type Analyser interface {
	// Document gives a text's terms in order, and the language that its Latin words were stemmed in, "" without any.
	Document(text string) (terms []string, latin string)
	// Query gives the words of a query that say something, with their terms in any of the languages named.
	Query(text string, languages []string) []rank.Word
}

// corpusRecord says what is in the blocks of a space.
type corpusRecord struct {
	Version   uint64 `json:"version"`
	Documents uint64 `json:"documents"`
	Terms     uint64 `json:"terms"` // of all documents together
	// Oldest is the first epoch that may have documents which wait, Folded how many have left the epoch at hand.
	Oldest uint32 `json:"oldest,omitempty"`
	Folded int    `json:"folded,omitempty"`
}

// maxBlockRewrites bounds the blocks that one batch rewrites to take documents out. Postings of documents beyond it are
// removed by a job; the documents are gone at once.
const maxBlockRewrites = 1500

// ErrBroken is met where a record of an index is damaged: the space is built again.
var ErrBroken = errors.New("a record of a recall index is damaged")

func decodeCorpus(it store.Item) (c corpusRecord, err error) {
	if it.Damaged || it.Value != nil && json.Unmarshal(it.Value, &c) != nil {
		err = ErrBroken
	}
	return c, err
}

// Change collects a change of a space, which goes by what the batch read of it. A space that is being dropped
// changes in nothing else: what it stands for is indexed again afterwards. A space that turns out to be damaged is
// dropped.
func (svc *Service) Change(t *records.Tx, p ident.Incarnation, space byte, change func() error) (done bool, err error) {
	job, err := t.Look(records.FoldJob.Key(p, space))
	if err != nil || stateOf(job[0]) == dropped {
		if err == nil && job[0].Damaged {
			svc.startRebuild(t, p, space)
		}
		return false, err
	}
	if err = change(); errors.Is(err, ErrBroken) {
		svc.startRebuild(t, p, space)
		return false, nil
	}
	return err == nil, err
}

// StreamOf is the stream of memories that name a session.
func StreamOf(session string) uint64 {
	if session == "" {
		return 0
	}
	sum := sha256.Sum256([]byte("session " + session))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// PassagesAt says where a memory's passages are: one behind the other.
type PassagesAt struct {
	First rank.Place `json:"first"`
	Epoch uint32     `json:"epoch,omitempty"`
	Count uint64     `json:"count"`
}

func (at PassagesAt) Place(i uint64) rank.Place {
	return rank.Place{Stream: at.First.Stream, Pos: at.First.Pos + i}
}

// PutDocument makes a text findable in the batch that writes what it is of, in place of what its id had before. The
// batch reads all that it needs for that in one round trip.
func (svc *Service) PutDocument(t *records.Tx, p ident.Incarnation, doc rank.Document, text string) error {
	terms, latin := svc.Analyser.Document(text)
	passages, lens := rank.Passages(terms)
	at := PassagesAt{First: rank.Place{Stream: StreamOf(doc.Session)}, Count: uint64(len(passages))}
	keys := append(foldKeys(p, records.RecallMemories, latin), records.RecallMemory.Key(p, doc.ID),
		records.RecallEpoch.Key(p, records.RecallMemories))
	if at.First.Stream != 0 {
		keys = append(keys, records.RecallStream.Key(p, records.RecallMemories, at.First.Stream))
	}
	if _, err := t.Look(keys...); err != nil {
		return err
	}
	_, err := svc.Change(t, p, records.RecallMemories, func() error {
		if err := svc.removePassages(t, p, doc.ID); err != nil {
			return err
		}
		if err := nextPlace(t, p, &at, doc.Created); err != nil {
			return err
		}
		docs := make([]rank.Document, len(passages))
		for i := range docs {
			docs[i] = doc
			docs[i].Place, docs[i].Terms, docs[i].Len = at.Place(uint64(i)), passages[i], lens[i]
		}
		var err error
		if at.Epoch, err = svc.AddDocuments(t, p, records.RecallMemories, docs, latin); err != nil {
			return err
		}
		if at.First.Stream == 0 {
			expectFree(t, p, &at)
		}
		return t.PutJSON(records.RecallMemory.Key(p, doc.ID), at)
	})
	return err
}

// HasDocument tells whether the index knows an id.
func HasDocument(t *records.Tx, p ident.Incarnation, id string) (bool, error) {
	got, err := t.Look(records.RecallMemory.Key(p, id))
	return err == nil && got[0].Value != nil, err
}

// nextPlace chooses where passages begin: in a session behind the last; without one at a place of their own that says
// but when it was changed, so that writers do not wait for one another.
func nextPlace(t *records.Tx, p ident.Incarnation, at *PassagesAt, changed time.Time) error {
	if at.First.Stream == 0 {
		var random [4]byte
		t.DB.Random(random[:])
		at.First.Pos = uint64(changed.UnixMilli())<<20 | uint64(binary.BigEndian.Uint32(random[:])>>12)
		return nil
	}
	key := records.RecallStream.Key(p, records.RecallMemories, at.First.Stream)
	got, err := t.Look(key)
	if err != nil {
		return err
	}
	at.First.Pos = 1
	if value := got[0].Value; len(value) == 8 {
		at.First.Pos = binary.BigEndian.Uint64(value)
	} else if got[0].Damaged || value != nil {
		return ErrBroken
	}
	t.Put(key, binary.BigEndian.AppendUint64(nil, at.First.Pos+at.Count))
	return nil
}

// expectFree has the batch fail where something stands at the places already.
func expectFree(t *records.Tx, p ident.Incarnation, at *PassagesAt) {
	for i := range at.Count {
		for _, key := range [][]byte{records.RecallFresh.Key(p, records.RecallMemories, at.Epoch, at.Place(i).Stream, at.Place(i).Pos),
			records.RecallFresh.Key(p, records.RecallMemories, max(at.Epoch, 1)-1, at.Place(i).Stream, at.Place(i).Pos),
			records.RecallDocument.Key(p, records.RecallMemories, at.Place(i).Stream, at.Place(i).Pos),
			records.RecallDead.Key(p, records.RecallMemories, at.Place(i).Stream, at.Place(i).Pos)} {
			t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: key})
		}
	}
}

// AddDocuments adds documents to those that wait for their block, under the epoch that it answers.
func (svc *Service) AddDocuments(t *records.Tx, p ident.Incarnation, space byte, docs []rank.Document, languages ...string) (
	epoch uint32, err error,
) {
	epochKey := records.RecallEpoch.Key(p, space)
	keys := foldKeys(p, space, languages...)
	got, err := t.Look(append(keys, epochKey)...)
	if err != nil {
		return 0, err
	}
	if epoch, err = readEpoch(got[len(keys)]); err != nil {
		return 0, err
	}
	for i := range docs {
		t.Put(records.RecallFresh.Key(p, space, epoch, docs[i].Place.Stream, docs[i].Place.Pos), docs[i].Append(nil))
	}
	// Keys that are there already most of the time would be slow to scan if every batch wrote them anew.
	for i, key := range keys {
		if got[i].Value == nil {
			t.Put(key, []byte{0})
		}
	}
	if svc.indexed.Add(1)%foldAt == 0 {
		svc.jobs.Poke(t.Tenant)
	}
	return epoch, nil
}

// foldKeys names the job that puts a space's documents into blocks, and notes of the languages that some were stemmed
// in. The job stays as long as the project, because what ends it could not tell whether a document comes just then.
func foldKeys(p ident.Incarnation, space byte, languages ...string) [][]byte {
	keys := [][]byte{records.FoldJob.Key(p, space)}
	for _, latin := range languages {
		if latin != "" {
			keys = append(keys, records.RecallLanguage.Key(p, space, latin))
		}
	}
	return keys
}

// readEpoch reads the epoch that documents are written in.
func readEpoch(it store.Item) (uint32, error) {
	switch {
	case len(it.Value) == 4:
		return binary.BigEndian.Uint32(it.Value), nil
	case it.Damaged || it.Value != nil:
		return 0, ErrBroken
	}
	return 0, nil
}
