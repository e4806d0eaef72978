package history

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// line is the chain of one agent's messages in a session that are not removed. It is immutable: only the holder of a
// history's newest line appends to the arrays, after the part that others see.
type line struct {
	said  []align.Hash
	chain []align.Hash // chain[i] covers i+1 messages
	turn  []uint32
	about []about
}

// about is what is known about a stored message without its body.
type about struct {
	seq     uint64
	created int64 // ms since 1970
	size    uint8 // see align.Side
	role    align.Role
}

// chained returns the rolling hash of the first n messages.
func (l line) chained(n int) align.Hash {
	if n == 0 {
		return align.Hash{}
	}
	return l.chain[n-1]
}

// Len and Message implement align.Stored.
func (l line) Len() int { return len(l.said) }

func (l line) Message(i int) align.Hash { return l.said[i] }

func (l line) with(h *transcript.Header) line {
	role := roleOf(h.Role, h.Calls > 0)
	return line{append(l.said, h.Said), append(l.chain, align.Roll(l.chained(len(l.said)), h.Said)), append(l.turn, h.Turn),
		append(l.about, about{h.Seq, h.Created, uint8(sizeOf(role, int(h.TextBytes))), role})}
}

// position converts an index in another line, whose messages are all in this line, to an index in this line.
func (l line) position(in line, at int) int {
	if at >= in.Len() {
		return l.Len()
	}
	i, _ := slices.BinarySearchFunc(l.about, in.about[at].seq, func(a about, seq uint64) int { return cmp.Compare(a.seq, seq) })
	return i
}

// start returns the index of the first message of the turn that message n continues, or n if it begins a turn.
func (l line) start(n int) int {
	if n == 0 || n >= len(l.turn) || l.turn[n-1] != l.turn[n] {
		return n
	}
	return slices.Index(l.turn, l.turn[n])
}

// lastStart returns the index where the newest turn begins.
func (l line) lastStart() int {
	if len(l.turn) == 0 {
		return 0
	}
	return slices.Index(l.turn, l.lastTurn())
}

// lastTurn returns the turn of the newest message, or 0 if there is none.
func (l line) lastTurn() uint32 {
	if len(l.turn) == 0 {
		return 0
	}
	return l.turn[len(l.turn)-1]
}

// history is a session as chains, one per agent.
type history struct {
	lineage    transcript.Lineage
	messages   uint64
	changes    uint32 // of messages in the middle; the lineage before the newest turns does not tell of later ones
	superseded transcript.Runs
	lines      lines
}

// lines are the chains of a session by delegation: without and with the messages that a client has removed.
type lines struct{ living, whole map[string]line }

// add adds the headers of newer messages.
func (l lines) add(hs []transcript.Header, removed transcript.Runs) {
	for i := range hs {
		h := &hs[i]
		if h.Said == (align.Hash{}) {
			continue
		}
		l.whole[h.Delegation] = l.whole[h.Delegation].with(h)
		if !removed.Message(h.Seq) {
			l.living[h.Delegation] = l.living[h.Delegation].with(h)
		}
	}
}

// Estimates of memory, in bytes.
const (
	messageSize = 2 * (2*len(align.Hash{}) + 4 + 24) // in both chains
	historySize = 512
)

func (h *history) weigh() int {
	n := historySize
	for _, l := range h.lines.whole {
		n += 128 + len(l.said)*messageSize
	}
	return n
}

// lines returns the chains of a session at the head just read. It reuses what was read before if only turns were added
// since, so a session that continues costs only what is new.
func (svc *Service) lines(ctx context.Context, tenant string, h *session.Head) (none lines, err error) {
	if h == nil || h.Messages == 0 {
		return none, nil
	}
	k, unlock := svc.histories.Locked(svc.key(tenant, string(h.Incarnation[:])))
	defer unlock()
	if k.Value.lineage == h.Lineage && k.Value.messages == h.Messages {
		return k.Value.lines, nil
	}
	next := &history{lineage: h.Lineage, messages: h.Messages, changes: h.Changes, lines: lines{map[string]line{}, map[string]line{}}}
	x := h.Extent()
	for _, r := range h.Removed {
		x.Superseded = x.Superseded.Without(r)
	}
	next.superseded = x.Superseded
	if old := k.Value; old.messages > 0 && h.Messages > old.messages && h.Changes == old.changes && x.Superseded.Equal(old.superseded) {
		added := int(h.Messages - old.messages)
		hs, behind, err := svc.sessions.ReadHeaders(ctx, tenant, x, added, nil)
		if err != nil {
			return none, err
		}
		if behind == old.lineage && len(hs) == added {
			maps.Copy(next.lines.living, old.lines.living)
			maps.Copy(next.lines.whole, old.lines.whole)
			next.lines.add(hs, h.Removed)
			svc.histories.Keep(k, next, next.weigh())
			return next.lines, nil
		}
	}
	hs, _, err := svc.sessions.ReadHeaders(ctx, tenant, x, int(x.LivingMessages()), nil)
	if err != nil {
		return none, err
	}
	next.lines.add(hs, h.Removed)
	svc.histories.Keep(k, next, next.weigh())
	return next.lines, nil
}

// key returns the cache key of a name of a tenant, for one incarnation of the store.
func (svc *Service) key(tenant, name string) string {
	return ident.Join(store.Epoch(svc.db.Store), tenant, name)
}
