// Package transcript keeps what was said in sessions: the messages of their turns, in records that are written once and
// never changed. A reader finds here how a turn becomes records (turn.go), how a message is packed (message.go), how
// the newest messages of a session are read (transcript.go), and which calls still wait for a result (opencalls.go).
// What a session is, beside its messages, is the business of package session.
//
// The hard idea: a message is stored twice in part. Its header lies packed with the others of its turn, so that a
// window reads hundreds of messages in one record each turn, and once more in front of its body, so that a listing is
// one scan and a lost header record can be made again.
package transcript

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Service writes and reads messages.
type Service struct {
	db     *records.DB
	tokens Tokenizer
}

// New makes the room.
func New(db *records.DB, tokens Tokenizer) *Service { return &Service{db: db, tokens: tokens} }

// Extent is how far into a session a reader may look: its first turns and messages, which never change.
type Extent struct {
	Incarnation ident.Incarnation
	Turns       uint32
	Messages    uint64
}

// ReadHeaders gives the newest messages of an extent, ascending and without a gap: at least want of them, or all.
// It costs what it returns, however long the session is. A header record that is lost or damaged is made again from
// the bodies; a message of which nothing is left stands there with role 0. Where also is not nil, the record of its key
// is read in the same round trip. behind is the lineage of the session before the first of the messages; it is 0 where
// that cannot be read, and where none is wanted.
func (svc *Service) ReadHeaders(ctx context.Context, tenant string, x Extent, want int, also *store.Item) (
	hs []Header, behind Lineage, err error) {
	if x.Turns == 0 {
		return nil, 0, nil
	}
	perTurn := max(1, int(x.Messages/uint64(x.Turns))) // a guess, until turns were seen
	var newest [][]Header                              // turns, newest first
	have, before := 0, x.Turns+1
	for have < want && before > 1 {
		limit := max(1, (want-have+perTurn-1)/perTurn)
		q := store.Query{Ranges: []store.Range{{From: records.Headers.Key(x.Incarnation, 1),
			To: records.Headers.Key(x.Incarnation, before), Reverse: true, Limit: limit}}}
		if also != nil {
			q.Keys = [][]byte{also.Key}
		}
		r, err := svc.db.Store.Read(ctx, tenant, q)
		if err != nil {
			return nil, 0, err
		}
		if also != nil {
			*also, also = r.Keys[0], nil
		}
		for i, it := range r.Ranges[0] {
			turn := before - 1 - uint32(i)
			hs, before, err := parseTurn(it.Value) // a damaged item has no value
			if err != nil || string(it.Key) != string(records.Headers.Key(x.Incarnation, turn)) {
				hs, err = svc.headersFromBodies(ctx, tenant, x, want)
				return hs, 0, err
			}
			newest = append(newest, hs)
			have, behind = have+len(hs), before
		}
		got := uint32(len(r.Ranges[0]))
		if got < min(uint32(limit), before-1) {
			hs, err = svc.headersFromBodies(ctx, tenant, x, want)
			return hs, 0, err
		}
		before -= got
		perTurn = max(1, have/len(newest))
	}
	if also != nil { // no header had to be read
		if *also, err = svc.db.ReadItem(ctx, tenant, also.Key); err != nil {
			return nil, 0, err
		}
	}
	hs = make([]Header, 0, have)
	for _, turn := range slices.Backward(newest) {
		hs = append(hs, turn...)
	}
	return hs, behind, checkContiguous(hs, x.Messages)
}

// headersFromBodies makes the newest headers again from the bodies, where a header record is damaged or missing.
func (svc *Service) headersFromBodies(ctx context.Context, tenant string, x Extent, want int) ([]Header, error) {
	svc.db.Log.Error("a header record is damaged or missing; reading the bodies instead",
		"tenant", tenant, "session", x.Incarnation.String())
	first := uint64(1)
	if n := uint64(want); x.Messages > n {
		first = x.Messages - n + 1
	}
	bodies, err := svc.ReadBodies(ctx, tenant, x.Incarnation, first, x.Messages)
	if err != nil {
		return nil, err
	}
	out := make([]Header, len(bodies))
	turn := x.Turns
	for i, body := range slices.Backward(bodies) {
		if h, _, err := ParseBody(body); err == nil {
			out[i], turn = *h, h.Turn
		} else {
			seq := first + uint64(i)
			out[i] = Header{Seq: seq, Call: seq, Turn: turn}
		}
	}
	return out, nil
}

// checkContiguous holds the promise that a page is never silently short.
func checkContiguous(hs []Header, last uint64) error {
	if len(hs) == 0 {
		return nil
	}
	if got := hs[len(hs)-1].Seq; got != last {
		return fmt.Errorf("%w: the newest message is %d, the session says %d", records.ErrDamaged, got, last)
	}
	for i := 1; i < len(hs); i++ {
		if hs[i].Seq != hs[i-1].Seq+1 {
			return fmt.Errorf("%w: message %d is followed by %d", records.ErrDamaged, hs[i-1].Seq, hs[i].Seq)
		}
	}
	return nil
}

// BodiesAtOnce bounds the messages that one read of a long session brings to memory.
const BodiesAtOnce = 32

// ReadBodies gives the bodies of messages first to last, both included; nil where one is missing or damaged. ParseBody
// takes a body apart.
func (svc *Service) ReadBodies(ctx context.Context, tenant string, sinc ident.Incarnation, first, last uint64) (
	[][]byte, error) {
	rng := store.Range{From: records.Body.Key(sinc, first), To: records.Body.Key(sinc, last+1)}
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return nil, err
	}
	bodies := make([][]byte, last-first+1)
	for _, it := range r.Ranges[0] {
		_, seq, _ := records.Body.Split(it.Key)
		bodies[seq-first] = it.Value
	}
	return bodies, nil
}

// EachMessage visits the messages of an extent in order, for an export. It answers storage_damaged where one cannot be
// read.
func (svc *Service) EachMessage(ctx context.Context, tenant string, x Extent, visit func(*Header, *chat.Message) error,
) error {
	for first := uint64(1); first <= x.Messages; first += BodiesAtOnce {
		bodies, err := svc.ReadBodies(ctx, tenant, x.Incarnation, first, min(first+BodiesAtOnce-1, x.Messages))
		if err != nil {
			return err
		}
		for i, body := range bodies {
			h, m, err := ParseBody(body)
			if seq := first + uint64(i); err != nil || h.Seq != seq {
				return fault.Errorf(fault.Internal, "storage_damaged",
					"message %s cannot be read, so the export would not be whole", MessageID(x.Incarnation, seq))
			}
			if err := visit(h, m); err != nil {
				return err
			}
		}
	}
	return nil
}
