package history

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// loop is the open part of a turn: the messages since the last stored turn, up to a reply that calls tools. It follows
// the first keep messages of a chain, whose hash is base, so it remains valid however the session continues.
type loop struct {
	session, agent string
	incarnation    ident.Incarnation // of the session; zero if it did not exist yet
	keep           int
	base           align.Hash
	begins         bool        // the client's own history begins with it
	given          uint32      // the turn numbers that the session had assigned when the loop began
	response       *responseID // its id in the store; nil if it is kept only in memory
	said           saying      // including decisions and hidden messages
	shown          []align.Hash
}

// behind reports whether the loop follows messages of a place.
func (l *loop) behind(p *place) bool {
	if l.keep > p.line.Len() || l.incarnation != p.incarnation() && l.keep > 0 {
		return false
	}
	return p.line.chained(l.keep) == l.base
}

// of reports whether the loop is the beginning of another one, whose session may have become a fork since.
func (l *loop) of(longer *loop) bool {
	return l.agent == longer.agent && l.keep == longer.keep && l.base == longer.base &&
		len(l.shown) <= len(longer.shown) && slices.Equal(l.shown, longer.shown[:len(l.shown)])
}

// holds reports whether the loop has messages that the client does not have.
func (l *loop) holds() bool { return len(l.shown) < len(l.said.parsed) }

// old returns an open turn without messages: it stands for the messages before it.
func old(p *place, agent string, keep int) *loop {
	return &loop{session: p.id, agent: agent, incarnation: p.incarnation(), keep: keep, base: p.line.chained(keep),
		given: p.line.lastTurn()}
}

// loops are the open turns of a session and its forks, newest first, and the requests that made the newest turns.
type loops struct {
	open   []*loop
	bodies []body
}

// body identifies the request that a turn was made of.
type body struct {
	session string
	turn    uint32
	hash    [32]byte
}

// Limits of what is remembered of a session and its forks.
const (
	maxLoops  = 16
	maxBodies = 64
)

func (ls *loops) weigh() int {
	n := 64 + len(ls.bodies)*96
	for _, l := range ls.open {
		n += 256 + len(l.shown)*messageSize
		for _, raw := range l.said.raw {
			n += 2 * len(raw) // the raw message and the parsed one
		}
	}
	return n
}

// with returns the loops with l added. It replaces the loops that l continues.
func (ls *loops) with(l *loop) *loops {
	out := ls.without(l)
	out.open = append([]*loop{l}, out.open[:min(len(out.open), maxLoops-1)]...)
	return out
}

// stored returns the loops after a commit: the turn is no longer open, and its request is known.
func (ls *loops) stored(turn *loop, b body) *loops {
	out := ls.without(turn)
	out.bodies = append([]body{b}, ls.bodies[:min(len(ls.bodies), maxBodies-1)]...)
	return out
}

func (ls *loops) without(turn *loop) *loops {
	out := &loops{bodies: ls.bodies}
	for _, l := range ls.open {
		if !l.of(turn) {
			out.open = append(out.open, l)
		}
	}
	return out
}

// body returns the hash of the request that a turn was made of, if it is known.
func (ls *loops) body(session string, turn uint32) (hash [32]byte, known bool) {
	for _, b := range ls.bodies {
		if b.session == session && b.turn == turn {
			return b.hash, true
		}
	}
	return hash, false
}

// path is a line up to some message, followed by a loop. It implements align.Stored.
type path struct {
	line  line
	keep  int
	shown []align.Hash
}

func pathOf(in line, l *loop) path {
	if l == nil {
		return path{line: in, keep: in.Len()}
	}
	return path{line: in, keep: l.keep, shown: l.shown}
}

func (p path) Len() int { return p.keep + len(p.shown) }

func (p path) Message(i int) align.Hash {
	if i >= p.keep {
		return p.shown[i-p.keep]
	}
	return p.line.Message(i)
}

// again returns what a client sent, starting with a message that the loop begins with: as it was sent now, but with the
// hidden messages in between and with the decisions of the replies. A reply after hidden messages stays as it was
// stored, because the client's copy has thinking that was made after other messages.
func (l *loop) again(said saying) (out []*transcript.Element) {
	said = said.marked()
	at, from := l.keep, l.keep
	for i := range l.said.parsed {
		if m := &l.said.parsed[i]; m.Hidden || i > 0 && l.said.parsed[i-1].Hidden {
			out = append(append(out, said.cut(from, at)...), l.said.cut(i, i+1)...)
			if !m.Hidden {
				at++
			}
			from = at
		} else {
			if m.Decision != "" {
				index := said.parsed[at].Index
				said.read[index] = said.read[index].Decided(m.Decision)
			}
			at++
		}
	}
	return append(out, said.cut(from, len(said.parsed))...)
}

// openTurns returns the open turns of a request's session.
func (svc *Service) openTurns(c ident.Caller, x *Exchange) *loops {
	ls, unlock := svc.loops.Locked(svc.loopsKey(c, x))
	defer unlock()
	return ls.Value
}

// remember changes what is remembered of the open turns of a request's session.
func (svc *Service) remember(c ident.Caller, x *Exchange, change func(*loops) *loops) {
	ls, unlock := svc.loops.Locked(svc.loopsKey(c, x))
	defer unlock()
	next := change(ls.Value)
	svc.loops.Keep(ls, next, next.weigh())
}

func (svc *Service) loopsKey(c ident.Caller, x *Exchange) string {
	return svc.key(c.Tenant, string(x.Project.Incarnation[:])+x.base)
}
