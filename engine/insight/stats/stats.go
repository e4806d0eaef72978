// Package stats counts what a project does, hour by hour: its turns, its windows, their tokens and how long they took.
//
// Each server counts in memory and writes every ten seconds what has changed. The hard idea is that servers over one
// store need not agree: a record is named by project, hour and the server's own random id, and holds that server's whole
// count of the hour, so that no two servers write the same record, writing one twice does no harm, and who asks adds
// them up.
package stats

import (
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// Record is what one server counted in one hour of one project.
type Record struct {
	Sums
	Took Histogram `json:"took,omitempty"` // of windows, in microseconds
}

// Sums are counts that add up.
type Sums struct {
	Turns     uint64                 `json:"turns"`
	Windows   uint64                 `json:"windows"`
	TokensIn  uint64                 `json:"tokens_in"`
	TokensOut uint64                 `json:"tokens_out"`
	Prefix    uint64                 `json:"prefix_tokens"` // of TokensIn: what the window before began with, too
	LeftOut   decision.LeftOut       `json:"left_out"`
	Cuts      uint64                 `json:"cuts"`
	Failures  map[plan.Status]uint64 `json:"failures"` // steps that ended otherwise than well
	Calls     Calls                  `json:"calls"`
}

// Calls are model calls that came through the proxy, with what providers counted of those that told it.
type Calls struct {
	Count uint64         `json:"count"`
	Usage decision.Spent `json:"usage"`
}

// merge adds another record.
func (r *Record) merge(o *Record) {
	r.Turns += o.Turns
	r.Windows += o.Windows
	r.TokensIn += o.TokensIn
	r.TokensOut += o.TokensOut
	r.Prefix += o.Prefix
	r.Calls.add(o.Calls)
	r.LeftOut.Count += o.LeftOut.Count
	r.LeftOut.Tokens += o.LeftOut.Tokens
	r.Cuts += o.Cuts
	for status, n := range o.Failures {
		r.fail(status, n)
	}
	for bin, n := range o.Took {
		r.Took.add(bin, n)
	}
}

func (r *Record) fail(status plan.Status, n uint64) {
	if r.Failures == nil {
		r.Failures = map[plan.Status]uint64{}
	}
	r.Failures[status] += n
}

func (c *Calls) add(o Calls) {
	c.Count += o.Count
	c.Usage.Input += o.Usage.Input
	c.Usage.Cached += o.Usage.Cached
	c.Usage.Written += o.Usage.Written
	c.Usage.Output += o.Usage.Output
}

// Turn says of a turn that was committed what is counted of it.
type Turn struct {
	Continues bool   // it went on with the turn before
	Answered  uint64 // tokens of the messages that the model wrote
}

func (t Turn) countIn(r *Record) {
	if r.TokensOut += t.Answered; !t.Continues {
		r.Turns++
	}
}

// Window says of a window that was answered what is counted of it.
type Window struct {
	Tokens  uint64
	Prefix  uint64 // tokens that the window before began with, too
	LeftOut decision.LeftOut
	Cut     bool
	Steps   []decision.Step
	Micros  uint64 // how long it took
}

func (w Window) countIn(r *Record) {
	r.Windows++
	r.TokensIn += w.Tokens
	r.Prefix += w.Prefix
	r.LeftOut.Count += w.LeftOut.Count
	r.LeftOut.Tokens += w.LeftOut.Tokens
	if w.Cut {
		r.Cuts++
	}
	for i := range w.Steps {
		if ended := w.Steps[i].Outcome; ended != plan.StatusOK {
			r.fail(ended, 1)
		}
	}
	r.Took.add(binOf(w.Micros), 1)
}

// Call says of a model call that has ended what its provider counted; the zero Call is of one that told nothing.
type Call decision.Spent

func (c Call) countIn(r *Record) { r.Calls.add(Calls{Count: 1, Usage: decision.Spent(c)}) }

// Service counts, and answers what was counted.
type Service struct {
	db       *records.DB
	projects *project.Service
	most     int // hours of projects that are held in memory

	mu      sync.Mutex
	held    map[place]*count
	writer  [8]byte // names the records of counts that begin now
	named   bool    // writer is set
	dropped uint32  // the newest hour of which a count of this writer is held no more
	lost    uint64  // what was not counted, because too much was held
}

// place is an hour of a project.
type place struct {
	tenant  string
	project ident.Incarnation
	hour    uint32 // since 1970
}

// count is what this server counted at a place, under one name.
type count struct {
	Record
	writer [8]byte
	dirty  bool // it has changed since it was written
}

// mostHeld bounds what is held in memory: a count takes about a kilobyte.
const mostHeld = 20_000

// New makes the room.
func New(db *records.DB, projects *project.Service) *Service {
	return &Service{db: db, projects: projects, most: mostHeld, held: map[place]*count{}}
}

// Count counts a turn, a window or a call of a project now.
func (svc *Service) Count(tenant string, pinc ident.Incarnation, what interface{ countIn(*Record) }) {
	at := place{tenant, pinc, hourOf(svc.db.Now())}
	svc.mu.Lock()
	defer svc.mu.Unlock()
	c := svc.held[at]
	if c == nil {
		if len(svc.held) >= svc.most {
			svc.lost++
			return
		}
		// A writer's record of an hour is written whole. Where a count of that hour was let go, a new one must not replace
		// it, so it gets another name.
		if !svc.named || at.hour <= svc.dropped {
			svc.db.Random(svc.writer[:])
			svc.named, svc.dropped = true, 0
		}
		c = &count{writer: svc.writer}
		svc.held[at] = c
	}
	what.countIn(&c.Record)
	c.dirty = true
}
