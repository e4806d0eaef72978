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
	"context"
	"errors"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/fair"
	"github.com/seed-0906e6bc/mneme/engine/fault"
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
	lines    *fair.Lines   // of those who change what is in blocks already, by space

	// Sources make a damaged index again, by the kind of space.
	Sources map[byte]Source
}

// New makes the room. Whoever makes the rooms sets Sources.
func New(db *records.DB, work *jobs.Service, analyser Analyser) *Service {
	return &Service{db: db, jobs: work, analyser: analyser, lines: fair.NewLines(maxWaiting)}
}

// maxWaiting bounds the writers that wait for one space. A commit takes about a millisecond on an embedded store, so
// that the last of them waits well within a request's time.
const maxWaiting = 256

// Queue waits for the turn to change what is in a space already: to overwrite or take out a document, or to put fresh
// ones into blocks. All of these write the space's corpus record, so that without turns most of them would lose to
// another one and begin again. Adding a document needs no turn. Queue answers contended where too many wait.
func (svc *Service) Queue(ctx context.Context, tenant string, s Space) (leave func(), err error) {
	leave, err = svc.lines.Enter(ctx, tenant+"\x00"+string(s.Project[:])+string(s.Kind))
	if errors.Is(err, fair.ErrFull) {
		err = fault.Errorf(fault.Unavailable, "contended",
			"%d writers wait for this project's memories already; try again", maxWaiting)
	}
	return leave, err
}

// Units are the room's background work: documents on their way into blocks, and damaged indexes that are built again.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{jobs.AnyJob(records.FoldJob.All(), svc.stepSpaces)}
}

// Analyser turns texts into terms.
type Analyser = rank.Analyser

// Holds tells whether a text holds a phrase, whatever is searched.
func (svc *Service) Holds(text, phrase string) bool { return svc.analyser.Holds(text, phrase) }

// ErrBroken is met where a record of an index is damaged. Change and the job answer it by building the space again.
var ErrBroken = errors.New("a record of a recall index is damaged")
