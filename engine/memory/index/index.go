// Package index keeps two inverted indexes for each project, one of its memories and one of its transcripts, and finds
// documents in them by their words. It knows documents only: the rooms memory and recall make documents of what they
// keep, and make memories and messages of the documents found.
//
// The hard idea is that a write stays small however large an index is, and waits for no other. A document is written as
// one fresh record, in the batch of what it stands for, so that it can be found at once; one that goes is marked as dead,
// and counts for nothing from then on. A job puts many fresh documents together into blocks, which hold the postings of
// one term by place, and takes many dead ones out. A query reads all three. Everything that changes blocks expects the
// space's corpus record unchanged and raises its version, so that blocks need no preconditions of their own.
//
// Fresh documents and marks lie under an epoch, which their writers expect and which moves on every so often. A query
// starts from the oldest epoch in use, because there it need not pass the deleted keys of documents that the job has done
// with. A document's record names its terms, so that taking it out removes exactly what was put in.
//
// A damaged record of an index never fails a request, because an index can be made again: see rebuild.go.
package index

import (
	"errors"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service keeps the indexes of all projects. Safe for concurrent use.
type Service struct {
	db       *records.DB
	jobs     *jobs.Service
	analyser Analyser
	added    atomic.Uint32 // batches with fresh documents: every so many wake the job
	tails    Kept

	// Sources make a damaged index again, by the kind of space.
	Sources map[byte]Source
}

// New makes the room. Whoever makes the rooms sets Sources.
func New(db *records.DB, work *jobs.Service, analyser Analyser) *Service {
	return &Service{db: db, jobs: work, analyser: analyser}
}

// Units are the room's background work: documents on their way into blocks, and damaged indexes that are built again.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{jobs.AnyJob(records.FoldJob.All(), svc.stepSpaces)}
}

// Analyser turns texts into terms.
type Analyser = rank.Analyser

// Holds tells whether a text holds a phrase, whatever is searched.
func (svc *Service) Holds(text, phrase string) bool { return svc.analyser.Holds(text, phrase) }

// SaysNothing tells whether a text has no words but stop words.
func (svc *Service) SaysNothing(text string) bool { return svc.analyser.SaysNothing(text) }

// ErrBroken is met where a record of an index is damaged. Change and the job answer it by building the space again.
var ErrBroken = errors.New("a record of a recall index is damaged")
