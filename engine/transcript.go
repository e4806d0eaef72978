package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// extent is how far into a session a reader may look: its first turns and messages, which never change.
type extent struct {
	incarnation incarnation
	turns       uint32
	messages    uint64
}

func (h *head) extent() extent { return extent{h.Incarnation, h.Turns, h.Messages} }

// readHeaders gives the newest messages of an extent, ascending and without a gap: at least want of them, or all.
// It costs what it returns, however long the session is. A header record that is lost or damaged is made again from
// the bodies; a message of which nothing is left stands there with role 0. Where also is not nil, the record of its key
// is read in the same round trip.
func (e *Engine) readHeaders(ctx context.Context, tenant string, x extent, want int, also *store.Item) ([]header, error) {
	if x.turns == 0 {
		return nil, nil
	}
	perTurn := max(1, int(x.messages/uint64(x.turns))) // a guess, until turns were seen
	var newest [][]header                              // turns, newest first
	have, before := 0, x.turns+1
	for have < want && before > 1 {
		limit := max(1, (want-have+perTurn-1)/perTurn)
		rng := store.Range{From: kindHeaders.Key(x.incarnation, 1), To: kindHeaders.Key(x.incarnation, before), Reverse: true,
			Limit: limit}
		q := store.Query{Ranges: []store.Range{rng}}
		if also != nil {
			q.Keys = [][]byte{also.Key}
		}
		r, err := e.store.Read(ctx, tenant, q)
		if err != nil {
			return nil, err
		}
		if also != nil {
			*also, also = r.Keys[0], nil
		}
		for i, it := range r.Ranges[0] {
			turn := before - 1 - uint32(i)
			hs, _, err := parseHeaders(it.Value) // a damaged item has no value
			if err != nil || len(hs) == 0 || string(it.Key) != string(kindHeaders.Key(x.incarnation, turn)) {
				return e.headersFromBodies(ctx, tenant, x, want)
			}
			newest = append(newest, hs)
			have += len(hs)
		}
		got := uint32(len(r.Ranges[0]))
		if got < min(uint32(limit), before-1) {
			return e.headersFromBodies(ctx, tenant, x, want)
		}
		before -= got
		perTurn = max(1, have/len(newest))
	}
	out := make([]header, 0, have)
	for _, hs := range slices.Backward(newest) {
		out = append(out, hs...)
	}
	return out, checkContiguous(out, x.messages)
}

// headersFromBodies makes the newest headers again from the bodies, where a header record is damaged or missing.
func (e *Engine) headersFromBodies(ctx context.Context, tenant string, x extent, want int) ([]header, error) {
	e.log.Error("a header record is damaged or missing; reading the bodies instead",
		"tenant", tenant, "session", x.incarnation.String())
	first := uint64(1)
	if n := uint64(want); x.messages > n {
		first = x.messages - n + 1
	}
	bodies, err := e.readBodies(ctx, tenant, x.incarnation, first, x.messages)
	if err != nil {
		return nil, err
	}
	out := make([]header, len(bodies))
	turn := x.turns
	for i, body := range slices.Backward(bodies) {
		if h, _, err := parseBody(body); err == nil {
			out[i], turn = *h, h.turn
		} else {
			seq := first + uint64(i)
			out[i] = header{seq: seq, call: seq, turn: turn}
		}
	}
	return out, nil
}

// checkContiguous holds the promise that a page is never silently short.
func checkContiguous(hs []header, last uint64) error {
	if len(hs) == 0 {
		return nil
	}
	if got := hs[len(hs)-1].seq; got != last {
		return fmt.Errorf("%w: the newest message is %d, the session says %d", errDamaged, got, last)
	}
	for i := 1; i < len(hs); i++ {
		if hs[i].seq != hs[i-1].seq+1 {
			return fmt.Errorf("%w: message %d is followed by %d", errDamaged, hs[i-1].seq, hs[i].seq)
		}
	}
	return nil
}

// readBodies gives the bodies of messages first..last; nil where one is missing or damaged.
func (e *Engine) readBodies(ctx context.Context, tenant string, sinc incarnation, first, last uint64) ([][]byte,
	error) {
	rng := store.Range{From: kindBody.Key(sinc, first), To: kindBody.Key(sinc, last+1)}
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return nil, err
	}
	bodies := make([][]byte, last-first+1)
	for _, it := range r.Ranges[0] {
		bodies[bodySeq(it.Key)-first] = it.Value
	}
	return bodies, nil
}

// lost tells whether nothing is known of a message any more.
func (h *header) lost() bool { return h.role == 0 }
