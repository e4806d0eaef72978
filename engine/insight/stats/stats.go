// Package stats counts what a project does, hour by hour: its turns, its windows, their tokens and how long they took.
//
// Each server counts in memory and writes what has changed every ten seconds. Servers that share a store need no
// coordination: the key of a record consists of the project, the hour and a random id of the server, and the record
// holds that server's whole count of the hour. No two servers write the same record, writing one twice does no harm,
// and readers add them up.
package stats

import (
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// Record is what one server counted in one hour for one project.
type Record struct {
	Sums
	Took Histogram `json:"took,omitempty"` // of windows, in microseconds
}

// Sums are counts that can be added up.
type Sums struct {
	Turns     uint64                 `json:"turns"`
	Windows   uint64                 `json:"windows"`
	TokensIn  uint64                 `json:"tokens_in"`
	TokensOut uint64                 `json:"tokens_out"`
	Prefix    uint64                 `json:"prefix_tokens"` // of TokensIn, the part that the previous window started with, too
	LeftOut   decision.LeftOut       `json:"left_out"`
	Cuts      uint64                 `json:"cuts"`
	Failures  map[plan.Status]uint64 `json:"failures"` // failed steps
	Calls     Calls                  `json:"calls"`
}

// Calls are model calls through the proxy, with the providers' token counts if they were reported.
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

// Turn is what is counted of a committed turn.
type Turn struct {
	Continues bool   // it continued the previous turn
	Answered  uint64 // tokens of the messages that the model wrote
}

func (t Turn) countIn(r *Record) {
	r.TokensOut += t.Answered
	if !t.Continues {
		r.Turns++
	}
}

// Window is what is counted of a window.
type Window struct {
	Tokens  uint64
	Prefix  uint64 // tokens that the previous window started with, too
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

// Call is what is counted of a finished model call; the zero Call if the provider reported nothing.
type Call decision.Spent

func (c Call) countIn(r *Record) { r.Calls.add(Calls{Count: 1, Usage: decision.Spent(c)}) }

// Service counts what projects do, and returns the counts.
type Service struct {
	db       *records.DB
	projects *project.Service
	most     int // maximum number of hours of projects in memory

	mu      sync.Mutex
	held    map[place]*count
	writer  [8]byte // part of the keys of new counts
	named   bool    // writer is set
	dropped uint32  // the newest hour of which a count of this writer was dropped from memory
	lost    uint64  // not counted, because memory was full
}

// place is an hour of a project.
type place struct {
	tenant  string
	project ident.Incarnation
	hour    uint32 // since 1970
}

// count is what this server counted at a place, under one writer id.
type count struct {
	Record
	writer [8]byte
	dirty  bool // changed since it was written
}

// mostHeld is the default maximum number of counts in memory. A count takes about a kilobyte.
const mostHeld = 20_000

// New returns a Service.
func New(db *records.DB, projects *project.Service) *Service {
	return &Service{db: db, projects: projects, most: mostHeld, held: map[place]*count{}}
}

// Count counts a turn, a window or a call of a project at the current time.
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
		// Writing a count replaces the writer's whole record of that hour. If a count of that hour was dropped from
		// memory, a new one must not replace its record, so it gets another writer id.
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
