package history

import (
	"context"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// copied are turns of a session that hold copies of messages which a request changes or removes elsewhere.
type copied struct {
	session  string
	revision uint64
	turns    []transcript.Run
}

// copiesOf finds the turns that hold what a request changes or removes, in the session and its forks: a fork is a copy, so
// what is gone from one would still be recalled from the other.
func (x *Exchange) copiesOf(f *found, e *editing, places []place) (out []copied) {
	gone := x.goneFrom(f, e)
	if len(gone) == 0 {
		return nil
	}
	for i := range places {
		p := &places[i]
		if p.id == f.id || p.head == nil {
			continue
		}
		c := copied{session: p.id, revision: p.revision()}
		for at := range p.line.said {
			if !x.copies(f, gone, p.line, at) {
				continue
			}
			turn := p.line.turn[at]
			if n := len(c.turns); n > 0 && c.turns[n-1].Turns[1] == turn {
				continue
			}
			first := slices.Index(p.line.turn, turn)
			last := first
			for last+1 < p.line.Len() && p.line.turn[last+1] == turn {
				last++
			}
			c.turns = append(c.turns, transcript.Run{Turns: [2]uint32{turn, turn},
				Messages: [2]uint64{p.line.about[first].seq, p.line.about[last].seq}})
		}
		if c.turns != nil {
			out = append(out, c)
		}
	}
	return out
}

// goneFrom returns the messages of a line that a request changes or removes, by hash with their indices.
func (x *Exchange) goneFrom(f *found, e *editing) map[align.Hash][]int {
	s, out := f.stored, map[align.Hash][]int{}
	for i, h := range s.all.said[:min(s.upto, f.aligned.Keep)] {
		if s.lives(i) && e.removes(s, i) && !slices.Contains(x.said.hashes, h) {
			out[h] = append(out[h], i)
		}
	}
	return out
}

// minCopied is the number of characters from which on equal texts with an equal neighbour are copies.
const minCopied = 16

// copies reports whether a message of another line is a copy of one that is gone.
func (x *Exchange) copies(f *found, gone map[align.Hash][]int, in line, at int) bool {
	all := f.stored.all
	beside := func(i, by int) bool {
		return i+by >= 0 && i+by < all.Len() && at+by >= 0 && at+by < in.Len() && all.said[i+by] == in.said[at+by]
	}
	return slices.ContainsFunc(gone[in.said[at]], func(i int) bool {
		return in.about[at].seq == all.about[i].seq || in.about[at].size >= minCopied && (beside(i, -1) || beside(i, 1))
	})
}

// removeCopies removes the copies that a commit needs gone. It comes first, so that a crash in between leaves too little
// and not too much.
func (svc *Service) removeCopies(ctx context.Context, c ident.Caller, projectID string, f *found) error {
	for _, of := range f.gone {
		if err := svc.sessions.RemoveTurns(ctx, c, projectID, of.session, of.revision, of.turns); err != nil {
			return err
		}
	}
	return nil
}
