package history

import (
	"context"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// line is what lives of one agent's messages in a session, as a chain. It is immutable: only whoever holds the newest
// line of a history appends to the arrays, behind what others see.
type line struct {
	said  []align.Hash
	chain []align.Hash // of so many messages and one more
	turn  []uint32
}

// chained is the hash of the first n messages, rolled one after another.
func (l line) chained(n int) align.Hash {
	if n == 0 {
		return align.Hash{}
	}
	return l.chain[n-1]
}

// Len and Message make a line a align.Stored.
func (l line) Len() int { return len(l.said) }

func (l line) Message(i int) align.Hash { return l.said[i] }

func (l line) with(said align.Hash, turn uint32) line {
	return line{append(l.said, said), append(l.chain, align.Roll(l.chained(len(l.said)), said)), append(l.turn, turn)}
}

// start is where the turn begins that goes on behind so many messages; the number itself where none does.
func (l line) start(n int) int {
	if n == 0 || n >= len(l.turn) || l.turn[n-1] != l.turn[n] {
		return n
	}
	return slices.Index(l.turn, l.turn[n])
}

// lastStart is where the newest turn begins.
func (l line) lastStart() int {
	if len(l.turn) == 0 {
		return 0
	}
	return slices.Index(l.turn, l.lastTurn())
}

// lastTurn is that of the newest message; 0: there is none.
func (l line) lastTurn() uint32 {
	if len(l.turn) == 0 {
		return 0
	}
	return l.turn[len(l.turn)-1]
}

// history is a session as chains: one for each agent.
type history struct {
	lineage    transcript.Lineage
	messages   uint64
	superseded transcript.Runs
	lines      map[string]line // by delegation
}

// add takes up headers behind the newest.
func (h *history) add(hs []transcript.Header) {
	for i := range hs {
		if hs[i].Said != (align.Hash{}) {
			h.lines[hs[i].Delegation] = h.lines[hs[i].Delegation].with(hs[i].Said, hs[i].Turn)
		}
	}
}

// Estimates of memory, in bytes.
const (
	messageSize = 2*len(align.Hash{}) + 4
	historySize = 512
)

func (h *history) weigh() int {
	n := historySize
	for _, l := range h.lines {
		n += 128 + len(l.said)*messageSize
	}
	return n
}

// lines gives the chains of a session at the head just read. What was read of it before serves where the head came from
// it by turns alone, so that a session that goes on costs what is new.
func (svc *Service) lines(ctx context.Context, tenant string, h *session.Head) (map[string]line, error) {
	if h == nil || h.Messages == 0 {
		return nil, nil
	}
	k, unlock := svc.histories.Locked(svc.key(tenant, string(h.Incarnation[:])))
	defer unlock()
	if k.Value.lineage == h.Lineage && k.Value.messages == h.Messages {
		return k.Value.lines, nil
	}
	next := &history{lineage: h.Lineage, messages: h.Messages, superseded: h.Superseded, lines: map[string]line{}}
	x := h.Extent()
	if old := k.Value; old.messages > 0 && h.Messages > old.messages && h.Superseded.Equal(old.superseded) {
		added := int(h.Messages - old.messages)
		hs, behind, err := svc.sessions.ReadHeaders(ctx, tenant, x, added, nil)
		if err != nil {
			return nil, err
		}
		if behind == old.lineage && len(hs) == added {
			for name, l := range old.lines {
				next.lines[name] = l
			}
			next.add(hs)
			svc.histories.Keep(k, next, next.weigh())
			return next.lines, nil
		}
	}
	hs, _, err := svc.sessions.ReadHeaders(ctx, tenant, x, int(x.LivingMessages()), nil)
	if err != nil {
		return nil, err
	}
	next.add(hs)
	svc.histories.Keep(k, next, next.weigh())
	return next.lines, nil
}

// key is that of something that is remembered of a tenant, in one stretch of the store's history.
func (svc *Service) key(tenant, name string) string {
	return store.Epoch(svc.db.Store) + "/" + tenant + "/" + name
}
