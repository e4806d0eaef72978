// Package prompt looks at a rendered window as the prompt of a model: which thinking may be sent in it, where the
// breakpoints of a cache stand, and how much of it the provider knows from the window before.
//
// The hard idea is that a window has to be rendered before any of this can be said, because all of it depends on the
// very blocks that are sent. So Amend looks at what a builder made and says what to leave out, and the window is built
// again until there is nothing to amend. Each round leaves more out, so there are few.
//
// Everything here follows from its arguments.
package prompt

import (
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// Entry is what is known of one entry of a window, a message or a notice.
type Entry struct {
	Tokens uint32
	// Made is the place that the message was made behind; the zero Place: nobody knows.
	Made prefix.Place
	// Pending is the index of a pending message in its request; -1 for all others.
	Pending int
	// Reply says that a model made the message.
	Reply bool
	// Changed says that it is not shown as it was made.
	Changed bool
	// Loop says that it belongs to a turn that waits for the model to go on.
	Loop bool
}

// CacheControl says what becomes of posted breakpoints.
type CacheControl string

// What a request may ask for.
const (
	Keep  CacheControl = "keep"  // the latest stay, as many as the provider takes
	Strip CacheControl = "strip" // none stays
	Auto  CacheControl = "auto"  // Mneme sets its own where the stable prefix ends
)

// Valid tells whether a request may ask for it; "" is Keep.
func (c CacheControl) Valid() bool { return c == "" || c == Keep || c == Strip || c == Auto }

// maxBreakpoints is how many breakpoints Anthropic takes in one request.
const maxBreakpoints = 4

// Input is what a window is held against.
type Input struct {
	Format  render.Format
	Control CacheControl
	Tools   prefix.Hash   // the zero Hash: not said
	Taken   int           // breakpoints that the request has elsewhere
	Before  *prefix.Trace // the window before; nil: there is none
	Whole   bool          // it is the whole, unchanged transcript
	Again   bool          // it is a replay: what follows from the window before is known from Answers
	Answers
	Entry func(item int32) Entry // each entry of the window
}

// Sheet holds windows against their inputs, one after the other. The zero Sheet is ready for Begin.
type Sheet struct {
	Input
	Result

	edits   render.Edits
	staying []int // the thinking blocks of the last round, by their number among all
	total   int   // thinking blocks that the window would have
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

// Begin begins with another window. The memory of the one before is used again.
func (s *Sheet) Begin(in Input) {
	*s = Sheet{Input: in, staying: s.staying[:0], blocks: s.blocks[:0], of: s.of[:0], keep: s.keep[:0],
		shorts: s.shorts[:0], replies: s.replies[:0]}
}

// Answers are what a replay cannot work out again, because the window before is gone.
type Answers struct {
	// Made are the places of pending messages that think, by their index in the request.
	Made map[int]prefix.Place
	// Breakpoints are the parts that Mneme gave breakpoints.
	Breakpoints []int
}

// Result is what the sheet says of a window once there is nothing to amend.
type Result struct {
	End      prefix.Place
	Stripped []int32 // the items that lost thinking, ascending, with one entry for each block
	Strange  []int32 // the items whose reasoning the provider may drop, because it was made behind another prompt
	Loop     bool    // some of the stripped belongs to an open tool loop
}

// Amend looks at the window that b has built with the edits so far. It tells whether b.Edits are others now, so that the
// window must be built again.
func (s *Sheet) Amend(b *render.Builder, w *render.Window) (again bool) {
	if s.think(b, w) {
		return true
	}
	if s.Format != render.AnthropicMessages || s.marked {
		return false
	}
	s.marked = true
	return s.mark(b, w)
}

// think holds each thinking block against the law.
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
	if s.staying = left; !again {
		return false
	}
	s.edits.Thinking = make([]bool, s.total)
	for _, n := range left {
		s.edits.Thinking[n] = true
	}
	b.Edits = s.edits
	return true
}

// start begins a walk along a window.
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

// walk goes along a window's parts and notes its thinking: where each block stands, and where it was made.
func (s *Sheet) walk(now *prefix.Walk, parts []render.Placed) {
	s.blocks, s.of, s.replies = s.blocks[:0], s.of[:0], s.replies[:0]
	o := origins{Sheet: s}
	e, item, start := Entry{Pending: -1}, int32(-2), prefix.Place{}
	for i := range parts {
		p := &parts[i]
		if p.Item != item {
			was := e.Pending
			if e = (Entry{Pending: -1}); p.Item >= 0 {
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
			o.made = prefix.Walk{} // thinking behind a text that is another now
		}
		now.Add(&p.Part)
		if o.made.Known() {
			o.made.Add(&p.Part)
		}
	}
}

// origins works out where the messages of a window were made.
type origins struct {
	*Sheet
	made prefix.Walk // of the current message
	held bool        // the window before showed one of the pending replies
	new  bool        // a pending reply was met that it did not show
}

// enter comes to the entry e, whose parts the given ones begin with; was is the pending message before it. Where the
// request does not say where a pending reply was made, the window before may: it knows of the replies that it showed,
// and the first that it did not show was made behind its end. Later ones were made by adding to that one.
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

// note keeps where a pending message that thinks was made.
func (s *Sheet) note(pending int, made prefix.Place) {
	if s.Made == nil {
		s.Made = map[int]prefix.Place{}
	}
	if _, ok := s.Made[pending]; !ok {
		s.Made[pending] = made
	}
}

// mark settles the breakpoints.
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

// systemPart stands for the system prompt among breakpoints.
const systemPart = -1

// ends are where a prompt is worth being kept: behind the system prompt, which outlives a cut, where the window before
// ended, which is what the provider has, and at the end, which the next window begins with.
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
