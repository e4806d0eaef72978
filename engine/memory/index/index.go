// Package index keeps two inverted indexes for each project, one of its memories and one of its transcripts, and
// searches them by words. It knows only documents: packages memory and recall make documents from what they store, and
// turn the documents found into memories and messages.
//
// A write stays small however large an index is, and waits for no other write. A document is written as one fresh
// record, in the batch that writes its memory or message, so that it can be found at once. A deleted document is marked
// as dead, and no longer counts. A job moves many fresh documents into blocks, which hold the postings of one term by
// place, and removes many dead ones. A query reads all three. Every change of blocks expects the space's corpus record
// unchanged and increments its version, so blocks need no preconditions.
//
// Keys of fresh documents and marks begin with an epoch, which their writers expect and which advances regularly. A
// query starts from the oldest epoch in use, so it does not scan the deleted keys of documents that the job has
// finished with. A document's record lists its terms, so removing it removes exactly what was added.
//
// A damaged record of an index never fails a request, because an index can be rebuilt: see rebuild.go.
package index

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service keeps the indexes of all projects. It is safe for concurrent use.
type Service struct {
	db       *records.DB
	jobs     *jobs.Service
	analyser Analyser
	added    atomic.Uint32 // batches with fresh documents; the job is woken after every foldAt of them
	tails    Kept
	cache    *cache

	// Sources rebuild a damaged index, by the kind of space.
	Sources map[byte]Source
}

// New returns a Service. The caller sets Sources.
func New(db *records.DB, work *jobs.Service, analyser Analyser) *Service {
	return &Service{db: db, jobs: work, analyser: analyser, cache: newCache()}
}

// Units returns the background work: moving documents into blocks, and rebuilding damaged indexes.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{jobs.AnyJob(records.FoldJob.All(), svc.stepSpaces)}
}

// Analyser turns texts into terms.
type Analyser = rank.Analyser

// Holds reports whether a text contains a phrase, whatever is searched.
func (svc *Service) Holds(text, phrase string) bool { return svc.analyser.Holds(text, phrase) }

// TermOf returns the term of a single word in the language that it seems to be in, or "" if it is a stop word or none.
func (svc *Service) TermOf(word string) string {
	words := svc.analyser.Search(word, nil, false).Words
	if len(words) != 1 || len(words[0].Terms) == 0 || strings.HasPrefix(words[0].Terms[0], rank.StopMark) {
		return ""
	}
	return words[0].Terms[0]
}

// SaysNothing reports whether a text has no words other than stop words.
func (svc *Service) SaysNothing(text string) bool { return svc.analyser.SaysNothing(text) }

// ErrBroken is returned for a damaged record of an index. Change and the job respond by rebuilding the space.
var ErrBroken = errors.New("a record of a recall index is damaged")
