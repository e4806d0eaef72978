package index

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Space is one index of a project.
type Space struct {
	Project ident.Incarnation
	Kind    byte // records.RecallMemories or records.RecallTranscript
}

// Memories returns the index of a project's memories.
func Memories(project ident.Incarnation) Space { return Space{project, records.RecallMemories} }

// Transcripts returns the index of a project's messages.
func Transcripts(project ident.Incarnation) Space { return Space{project, records.RecallTranscript} }

// spaceOf returns the space of a job, given the job's key.
func spaceOf(job []byte) Space {
	project, kind, _ := records.FoldJob.Split(job)
	return Space{project, kind}
}

func (s Space) jobKey() []byte    { return records.FoldJob.Key(s.Project, s.Kind) }
func (s Space) corpusKey() []byte { return records.RecallCorpus.Key(s.Project, s.Kind) }
func (s Space) epochKey() []byte  { return records.RecallEpoch.Key(s.Project, s.Kind) }

// Number returns the number that represents a namespace in the places of the project's documents: 0 for the namespace
// without parts. It is a hash that also depends on the project's incarnation, so nobody can choose paths that have the
// same number.
func (s Space) Number(path string) uint64 {
	if path == "" {
		return 0
	}
	sum := sha256.Sum256(append(s.Project[:], path...))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// StreamKey returns the key of the record that says where a stream continues. A session's messages are all in one
// namespace, which that record names, so its key has the number 0.
func (s Space) StreamKey(at rank.Place) []byte {
	stream := streamOf(at)
	if s.Kind == records.RecallTranscript {
		stream.Namespace = 0
	}
	return records.RecallStream.Key(s.Project, s.Kind, stream)
}

// streamOf returns the stream of a place.
func streamOf(at rank.Place) records.Stream {
	return records.Stream{Namespace: at.Namespace, Number: at.Stream}
}

func (s Space) documentKey(at rank.Place) []byte {
	return records.RecallDocument.Key(s.Project, s.Kind, streamOf(at), at.Pos)
}

func (s Space) freshKey(epoch uint32, at rank.Place) []byte {
	return records.RecallFresh.Key(s.Project, s.Kind, epoch, streamOf(at), at.Pos)
}

func (s Space) deadKey(epoch uint32, at rank.Place) []byte {
	return records.RecallDead.Key(s.Project, s.Kind, epoch, streamOf(at), at.Pos)
}

func (s Space) blockKey(term string, at rank.Place) []byte {
	return records.RecallBlock.Key(s.Project, s.Kind, term, streamOf(at), at.Pos)
}

// blocks returns the range of all blocks of a term.
func (s Space) blocks(term string) store.Range {
	return records.RecallBlock.Under3(s.Project, s.Kind, term)
}

// block returns the range of the block for a place's posting: the last one that begins no later.
func (s Space) block(term string, at rank.Place) store.Range {
	return store.Range{From: s.blocks(term).From, To: append(s.blockKey(term, at), 0), Reverse: true, Limit: 1}
}

// fresh returns the range of the documents that wait for their block, from an epoch on.
func (s Space) fresh(oldest uint32) store.Range {
	rng := records.RecallFresh.Under2(s.Project, s.Kind)
	rng.From = records.RecallFresh.Under3(s.Project, s.Kind, oldest).From
	return rng
}

// dead returns the range of the marks of dead documents, from an epoch on.
func (s Space) dead(oldest uint32) store.Range {
	rng := records.RecallDead.Under2(s.Project, s.Kind)
	rng.From = records.RecallDead.Under3(s.Project, s.Kind, oldest).From
	return rng
}

// epochOf returns the epoch in the key of a fresh document, or of the mark of a dead one.
func epochOf(key []byte) uint32 { return binary.BigEndian.Uint32(key[len(key)-28:]) }

// deadMark returns the value of the mark of a dead document with that many words.
func deadMark(words uint32) []byte { return binary.BigEndian.AppendUint32(nil, words) }

// wordsOf returns the number of words of a dead document.
func wordsOf(mark store.Item) (words uint32, ok bool) {
	if len(mark.Value) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(mark.Value), true
}

// placeSize is the number of bytes of a place in a key.
const placeSize = 24

// placeOf returns the place at the end of a key.
func placeOf(key []byte) rank.Place {
	end := key[len(key)-placeSize:]
	return rank.Place{Namespace: binary.BigEndian.Uint64(end), Stream: binary.BigEndian.Uint64(end[8:]),
		Pos: binary.BigEndian.Uint64(end[16:])}
}

// there reports whether a key has a record, readable or not.
func there(it store.Item) bool { return it.Value != nil || it.Damaged }

// readEpoch reads the epoch that documents are written in. The first is 0.
func readEpoch(it store.Item) (uint32, error) {
	switch {
	case len(it.Value) == 4:
		return binary.BigEndian.Uint32(it.Value), nil
	case there(it):
		return 0, ErrBroken
	}
	return 0, nil
}

// corpusRecord describes the contents of the blocks of a space.
type corpusRecord struct {
	Version   uint64 `json:"version"`
	Analyser  int    `json:"analyser,omitempty"` // the version of the rules by which the documents were indexed
	Documents uint64 `json:"documents"`          // including dead ones
	Terms     uint64 `json:"terms"`              // of all documents together
	// Oldest is the first epoch that may have fresh documents, or marks of dead ones. Folded counts the documents put into
	// blocks or removed from them since the epoch last advanced.
	Oldest uint32 `json:"oldest,omitempty"`
	Folded int    `json:"folded,omitempty"`
}

func decodeCorpus(it store.Item) (c corpusRecord, err error) {
	if it.Damaged || it.Value != nil && (json.Unmarshal(it.Value, &c) != nil || c.Analyser != analyserVersion) {
		err = ErrBroken
	}
	return c, err
}

// analyserVersion is the version of the rules by which texts become terms. An index made by other rules is rebuilt.
const analyserVersion = 3

// readCorpus reads the corpus of a space, and returns it with its record.
func (svc *Service) readCorpus(ctx context.Context, tenant string, s Space) (it store.Item, c corpusRecord, err error) {
	if it, err = svc.db.ReadItem(ctx, tenant, s.corpusKey()); err == nil {
		c, err = decodeCorpus(it)
	}
	return it, c, err
}

// readDocument reads a stored document. It returns nil if the document is damaged. If terms is false, it leaves them
// out.
func readDocument(it store.Item, terms bool) *rank.Document {
	d, err := rank.ReadDocument(placeOf(it.Key), it.Value, terms)
	if err != nil {
		return nil
	}
	return d
}

// Change adds a change of a space to the batch. change must rely only on what the batch itself reads of the space.
// While the space is being dropped, Change does nothing and done is false: the source is indexed again afterwards. If
// change returns ErrBroken, the batch starts a rebuild of the space.
func (svc *Service) Change(t *records.Tx, s Space, change func() error) (done bool, err error) {
	job, err := t.Look(s.jobKey())
	if err != nil {
		return false, err
	}
	if stateOf(job[0]) == dropped {
		if job[0].Damaged {
			svc.startRebuild(t, s)
		}
		return false, nil
	}
	if err = change(); errors.Is(err, ErrBroken) {
		svc.startRebuild(t, s)
		return false, nil
	}
	return err == nil, err
}
