// Package index keeps two inverted indexes for each project, one of its memories and one of its transcripts, and finds
// documents in them by their words. It knows documents only: the rooms memory and recall make documents of what they
// keep, and make memories and messages of the documents found.
//
// The hard idea is that a write stays small however large an index is. A document is written as one fresh record, in
// the batch of what it stands for, so that it can be found at once. A job puts many fresh documents together into
// blocks, which hold the postings of one term by place. A query reads both. Everything that changes blocks expects the
// space's corpus record unchanged and raises its version, so that blocks need no preconditions of their own.
//
// Fresh documents lie under an epoch, which their writers expect and which moves on every so often. A query starts from
// the oldest epoch in use, because there it need not pass the deleted keys of documents that are in blocks already. A
// document's record names its terms, so that taking it out removes exactly what was put in.
//
// A damaged record of an index never fails a request, because an index can be made again: see rebuild.go.
package index

import (
	"errors"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service keeps the indexes of all projects. Safe for concurrent use.
type Service struct {
	db       *records.DB
	jobs     *jobs.Service
	analyser Analyser
	added    atomic.Uint32 // batches with fresh documents: every so many wake the job

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

// Analyser turns texts into terms. It is safe for concurrent use. Terms are at most 512 bytes and hold no zero byte.
type Analyser interface {
	// Document gives a text's terms in order, and the language that its Latin words were stemmed in, "" without any.
	Document(text string) (terms []string, latin string)
	// Query gives the words of a query that say something, each with its terms in all of the languages named.
	Query(text string, languages []string) []rank.Word
}

// Document gives the terms of a text as the index has them, and the language that its Latin words were stemmed in.
func (svc *Service) Document(text string) (terms []string, latin string) {
	return svc.analyser.Document(text)
}

// ErrBroken is met where a record of an index is damaged. Change and the job answer it by building the space again.
var ErrBroken = errors.New("a record of a recall index is damaged")
