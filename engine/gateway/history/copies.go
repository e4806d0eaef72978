package history

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// copiesOf returns the same changes for the session and its forks, as far as they have copies of what a request changes
// or removes. A fork is a copy, so recall would otherwise find there what is gone here. Copies of edited messages get
// the new versions. Copies of removed messages are removed, and so are the turns of removed calls.
func (x *Exchange) copiesOf(f *found, e *editing, places []place) (out []session.Copy) {
	gone, edits := x.goneFrom(f, e), map[int]*transcript.Edit{}
	for _, v := range e.change.Edits {
		i := slices.IndexFunc(f.stored.all.about, func(a about) bool { return a.seq == v.Seq })
		edits[i] = v
		gone[f.stored.all.said[i]] = append(gone[f.stored.all.said[i]], i)
	}
	if len(gone) == 0 {
		return nil
	}
	for i := range places {
		p := &places[i]
		if p.id == f.id || p.head == nil {
			continue
		}
		c := session.Copy{SessionID: p.id, Revision: p.revision()}
		for at := range p.line.said {
			of := x.copyOf(f, gone, p.line, at)
			if of < 0 {
				continue
			}
			if v := edits[of]; v != nil {
				c.Edits = append(c.Edits, &transcript.Edit{Seq: p.line.about[at].seq, Format: v.Format, Elements: v.Elements})
			} else {
				c.Remove = p.line.withRunOf(c.Remove, at)
			}
		}
		if c.Edits != nil || c.Remove != nil {
			out = append(out, c)
		}
	}
	return out
}

// withRunOf adds a message to runs: the message itself, or its turn if it is a call or a result. The turn may be the last
// of them already.
func (l line) withRunOf(runs []transcript.Run, at int) []transcript.Run {
	turn, n := l.turn[at], len(runs)
	if n > 0 && runs[n-1].Turns == [2]uint32{turn, turn} {
		return runs
	}
	if role := l.about[at].role; role != align.Call && role != align.Result {
		seq := l.about[at].seq
		if n > 0 && runs[n-1].Turns[1] == turn && runs[n-1].Messages[1]+1 == seq {
			runs[n-1].Messages[1] = seq
			return runs
		}
		return append(runs, transcript.Part(turn, seq, seq))
	}
	first := slices.Index(l.turn, turn)
	last := first
	for last+1 < l.Len() && l.turn[last+1] == turn {
		last++
	}
	return append(runs, transcript.Run{Turns: [2]uint32{turn, turn}, Messages: [2]uint64{l.about[first].seq, l.about[last].seq}})
}

// goneFrom returns the messages of a line that a request removes, by hash with their indices.
func (x *Exchange) goneFrom(f *found, e *editing) map[align.Hash][]int {
	s, out, end := f.stored, map[align.Hash][]int{}, f.aligned.Keep
	for _, p := range f.aligned.Pairs { // Behind a rewritten part of the line the request may agree with it again.
		end = max(end, p.Stored+1)
	}
	for i, h := range s.all.said[:min(s.upto, end)] {
		if s.lives(i) && (i >= f.aligned.Keep || e.removes(s, i)) && !slices.Contains(x.said.hashes, h) {
			out[h] = append(out[h], i)
		}
	}
	return out
}

// minCopied is the number of characters from which on equal texts with an equal neighbour are copies.
const minCopied = 16

// copyOf returns which of the messages that are gone a message of another line is a copy of, as an index; -1 if of
// none.
func (x *Exchange) copyOf(f *found, gone map[align.Hash][]int, in line, at int) int {
	all := f.stored.all
	beside := func(i, by int) bool {
		return i+by >= 0 && i+by < all.Len() && at+by >= 0 && at+by < in.Len() && all.said[i+by] == in.said[at+by]
	}
	of := gone[in.said[at]]
	n := slices.IndexFunc(of, func(i int) bool {
		return in.about[at].seq == all.about[i].seq || in.about[at].size >= minCopied && (beside(i, -1) || beside(i, 1))
	})
	if n < 0 {
		return -1
	}
	return of[n]
}
