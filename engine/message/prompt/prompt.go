// Package prompt examines a rendered window as the prompt of a model: which thinking may be sent in it, where its cache
// breakpoints are, and how much of it the provider knows from the previous window.
//
// All of this depends on the exact blocks that are sent, so the window must be rendered first. Amend examines a
// rendered window and says what to leave out. The window is then rendered again, until there is nothing to amend. Each
// round leaves out more, so there are few rounds.
//
// All results depend on the arguments only.
package prompt

import (
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// Entry describes one entry of a window, a message or a notice.
type Entry struct {
	Tokens uint32
	// Made is the place at which the message was made; the zero Place if unknown.
	Made prefix.Place
	// Pending is the index of a pending message in its request; -1 for all other entries.
	Pending int
	// Reply means that a model wrote the message.
	Reply bool
	// Changed means that the message is not shown as it was written.
	Changed bool
	// Loop means that the message belongs to a turn that is waiting for the model to continue.
	Loop bool
}

// CacheControl says what to do with posted breakpoints.
type CacheControl string

// The values that a request may use.
const (
	Keep  CacheControl = "keep"  // keep the last ones, as many as the provider allows
	Strip CacheControl = "strip" // remove all
	Auto  CacheControl = "auto"  // Mneme sets breakpoints where the stable prefix ends
)

// Valid reports whether the value is valid; "" means Keep.
func (c CacheControl) Valid() bool { return c == "" || c == Keep || c == Strip || c == Auto }

// maxBreakpoints is the maximum number of breakpoints that Anthropic allows in one request.
const maxBreakpoints = 4

// Input is what a window is examined with.
type Input struct {
	Format  render.Format
	Control CacheControl
	Tools   prefix.Hash   // the zero Hash if unknown
	Taken   int           // breakpoints elsewhere in the request
	Before  *prefix.Trace // the previous window; nil if there is none
	Whole   bool          // the window is the whole, unchanged transcript
	Again   bool          // a replay: what depends on the previous window is taken from Answers
	Answers
	Entry func(item int32) Entry // returns each entry of the window
}

// Sheet examines windows, one after the other. The zero Sheet is ready for Begin.
type Sheet struct {
	Input
	Result

	edits   render.Edits
	staying []int // indexes of the thinking blocks left after the last round, among all
	total   int   // number of thinking blocks without edits
	rounds  int
	marked  bool
	blocks  []prefix.Block
	of      []int32 // by block: its item
	keep    []bool
	shorts  []uint32
	replies []shownReply // of the last round
}

// shownReply is a pending reply that the window shows.
type shownReply struct {
	id      uint64
	pending int
}

// Begin starts with another window. It reuses the memory of the previous one.
func (s *Sheet) Begin(in Input) {
	*s = Sheet{Input: in, staying: s.staying[:0], blocks: s.blocks[:0], of: s.of[:0], keep: s.keep[:0],
		shorts: s.shorts[:0], replies: s.replies[:0]}
}

// Answers are results that a replay cannot compute again, because the previous window is gone.
type Answers struct {
	// Made are the places of pending messages with thinking, by index in the request.
	Made map[int]prefix.Place
	// Breakpoints are the parts to which Mneme added breakpoints.
	Breakpoints []int
}

// Result is the outcome once there is nothing to amend.
type Result struct {
	End      prefix.Place
	Stripped []int32 // the items that lost thinking, ascending, one entry per block
	Strange  []int32 // the items whose reasoning the provider may drop, because it was made after another prompt
	Loop     bool    // some of Stripped belongs to an open tool loop
}

// Amend examines the window that b has built with the current edits. It reports whether it changed b.Edits, so that the
// window must be built again.
func (s *Sheet) Amend(b *render.Builder, w *render.Window) (again bool) {
	if b.Cited && b.Uncited && !b.Edits.Uncited {
		b.Edits.Uncited = true
		return true
	}
	if s.think(b, w) {
		return true
	}
	if s.Format != render.AnthropicMessages || s.marked {
		return false
	}
	s.marked = true
	return s.mark(b, w)
}

// think applies the validity rule to each thinking block.
func (s *Sheet) think(b *render.Builder, w *render.Window) (again bool) {
	walk := s.start(w)
	s.walk(&walk, b.Parts)
	s.End = walk.Place
	if s.rounds++; s.rounds == 1 {
		s.total, s.staying = len(s.blocks), s.staying[:0]
		for i := range s.blocks {
			s.staying = append(s.staying, i)
		}
	}
	if len(s.blocks) == 0 || s.marked {
		return false
	}
	s.keep = prefix.Keep(s.keep, s.blocks, s.Whole)
	if s.Format != render.AnthropicMessages {
		for i, ok := range s.keep {
			if !ok {
				s.Strange = append(s.Strange, s.of[i])
			}
		}
		return false
	}
	left := s.staying[:0]
	for i, ok := range s.keep {
		if ok {
			left = append(left, s.staying[i])
			continue
		}
		s.Stripped = append(s.Stripped, s.of[i])
		s.Loop = s.Loop || s.Entry(s.of[i]).Loop
		again = true
	}
	s.staying = left
	if !again {
		return false
	}
	s.edits.Thinking = make([]bool, s.total)
	for _, n := range left {
		s.edits.Thinking[n] = true
	}
	b.Edits = s.edits
	return true
}

// start returns a walk at the beginning of a window.
func (s *Sheet) start(w *render.Window) prefix.Walk {
	var system prefix.Hash
	switch {
	case len(w.SystemBlocks) > 0:
		system = prefix.List(w.SystemBlocks)
	case w.System != "":
		system = prefix.Text(w.System)
	}
	return prefix.Start(system, s.Tools)
}

// walk goes over a window's parts and records its thinking: the position of each block, and where it was made.
func (s *Sheet) walk(now *prefix.Walk, parts []render.Placed) {
	s.blocks, s.of, s.replies = s.blocks[:0], s.of[:0], s.replies[:0]
	o := origins{Sheet: s}
	e, item, start := Entry{Pending: -1}, int32(-2), prefix.Place{}
	for i := range parts {
		p := &parts[i]
		if p.Item != item {
			was := e.Pending
			e = (Entry{Pending: -1})
			if p.Item >= 0 {
				e = s.Entry(p.Item)
			}
			item = p.Item
			o.enter(was, &e, now, parts[i:])
			start = o.made.Place
		}
		if p.Kind == prefix.Thinking {
			s.blocks = append(s.blocks, prefix.Block{Now: now.Place, Made: o.made.Place, ID: p.ID()})
			s.of = append(s.of, item)
			if e.Pending >= 0 && start.Known() && !s.Again {
				s.note(e.Pending, start)
			}
		} else if e.Changed {
			o.made = prefix.Walk{} // thinking after a text that has changed
		}
		now.Add(&p.Part)
		if o.made.Known() {
			o.made.Add(&p.Part)
		}
	}
}

// origins determines where the messages of a window were made.
type origins struct {
	*Sheet
	made prefix.Walk // of the current message
	held bool        // the window before showed one of the pending replies
	new  bool        // a pending reply was met that it did not show
}

// enter starts on the entry e, with whose parts the given ones begin; was is the pending message before it. If the
// request does not say where a pending reply was made, the previous window may: it knows the replies that it showed,
// and the first one that it did not show was made after its end. Each later one was made after that and the messages in
// between.
func (o *origins) enter(was int, e *Entry, now *prefix.Walk, parts []render.Placed) {
	var before *prefix.Reply
	first := false
	if e.Pending >= 0 && e.Reply {
		id := replyID(parts)
		o.replies = append(o.replies, shownReply{id: id, pending: e.Pending})
		before = o.Before.Reply(id)
		o.held = o.held || before != nil
		first = before == nil && !o.new
		o.new = o.new || before == nil
	}
	if place, ok := o.Made[e.Pending]; ok && o.Again {
		o.made = prefix.From(place)
		return
	}
	switch {
	case e.Made.Known():
		o.made = prefix.From(e.Made)
	case before != nil && before.Made.Known():
		o.made = prefix.From(before.Made)
	case first && o.Before != nil && o.Before.End.Known() && (o.held || o.Before.End.Equal(&now.Place)):
		o.made = prefix.From(o.Before.End)
	case e.Pending < 0 || was < 0:
		o.made = prefix.Walk{}
	}
}

// replyID identifies the message that the parts begin with. Thinking does not count, because it may be left out.
func replyID(parts []render.Placed) uint64 {
	last := 0
	for i := range parts {
		if parts[i].Item != parts[0].Item {
			break
		}
		if parts[i].Kind != prefix.Thinking {
			last = i
		}
	}
	return parts[last].ID()
}

// note records where a pending message with thinking was made.
func (s *Sheet) note(pending int, made prefix.Place) {
	if s.Made == nil {
		s.Made = map[int]prefix.Place{}
	}
	if _, ok := s.Made[pending]; !ok {
		s.Made[pending] = made
	}
}

// mark decides on the breakpoints.
func (s *Sheet) mark(b *render.Builder, w *render.Window) (again bool) {
	room := max(0, maxBreakpoints-s.Taken)
	keep := make([]bool, len(b.Marks))
	if s.Control == Keep {
		keep = render.LatestMarks(b.Marks, room)
	}
	for _, ok := range keep {
		again = again || !ok
	}
	if again {
		s.edits.Marks = keep
	}
	if s.Control == Auto {
		if !s.Again {
			s.Breakpoints = s.ends(b, w, room)
		}
		s.edits.Breakpoints = s.Breakpoints
		if n := len(s.Breakpoints); n > 0 && s.Breakpoints[0] == systemPart {
			s.edits.SystemBreakpoint, s.edits.Breakpoints = true, s.Breakpoints[1:]
		}
		again = true
	}
	b.Edits = s.edits
	return again
}

// systemPart represents the system prompt in a list of breakpoints.
const systemPart = -1

// ends returns the positions after which a prompt is worth caching: the system prompt, which survives a cut; the end of
// the previous window, which the provider has cached; and the end, which the next window starts with.
func (s *Sheet) ends(b *render.Builder, w *render.Window, room int) []int {
	var at []int
	s.list(b, w)
	if w.System != "" {
		at = append(at, systemPart)
	}
	for _, end := range [...]int{s.Shared(b) - 1, len(b.Parts)} {
		for end--; end >= 0; end-- {
			if p := &b.Parts[end]; p.Kind != prefix.Thinking && p.Item >= 0 {
				break
			}
		}
		if end >= 0 && (len(at) == 0 || at[len(at)-1] < end) {
			at = append(at, end)
		}
	}
	if len(at) > room {
		at = at[len(at)-room:]
	}
	return at
}
