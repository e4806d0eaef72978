// Package transcript stores the messages of sessions. turn.go turns a turn into records, message.go encodes a message,
// change.go replaces messages that clients have edited, this file reads the newest messages of a session, and
// opencalls.go tracks calls that still wait for a result. Package session manages everything else about sessions.
//
// A message's header is stored twice: packed together with the other headers of its turn, so that a window reads
// hundreds of messages with one record per turn, and once more in front of the message's body, so that a listing is a
// single scan and a lost header record can be rebuilt.
package transcript

import (
	"context"
	"slices"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Service reads and writes messages.
type Service struct {
	db     *records.DB
	tokens Tokenizer
	usual  func() usual
}

// New returns a Service.
func New(db *records.DB, tokens Tokenizer) *Service {
	svc := &Service{db: db, tokens: tokens}
	svc.usual = sync.OnceValue(svc.countUsual)
	return svc
}

// Extent is the part of a session that a reader may see: its first turns and messages, without the superseded ones.
type Extent struct {
	Incarnation ident.Incarnation
	Turns       uint32 // numbers assigned, like Messages
	Messages    uint64
	Superseded  Runs
	Edits       uint32 // the number of changes of messages that a reader may see; see Change
}

// LivingTurns returns the number of turns that are not superseded.
func (x *Extent) LivingTurns() uint32 { return x.Turns - x.Superseded.Turns(x.Turns) }

// LivingMessages returns the number of messages that are not superseded.
func (x *Extent) LivingMessages() uint64 { return x.Messages - x.Superseded.Messages(x.Messages) }

// LastTurn returns the number of the newest turn that is not superseded; 0 if there is none.
func (x *Extent) LastTurn() uint32 { return x.Superseded.LastTurn(x.Turns) }

// ReadHeaders returns the newest messages of an extent in ascending order, without gaps other than superseded messages:
// at least want of them, or all. Its cost depends only on what it returns, not on the length of the session or the
// number of rewinds. A lost or damaged header record is rebuilt from the bodies; a message that is lost altogether has
// role 0. If also is not nil, the record with its key is read in the same round trip. behind is the session's lineage
// before the first of the messages; 0 if it cannot be read or was not asked for.
func (svc *Service) ReadHeaders(ctx context.Context, tenant string, x Extent, want int, also *store.Item) (
	hs []Header, behind Lineage, err error) {
	perPart := max(1, int(x.LivingMessages())/max(1, int(x.LivingTurns()))) // a guess until some were read
	var newest [][]Header                                                   // parts of turns, newest first
	have, upto := 0, x.Messages
	whole := x // The record of a living turn holds the headers of its superseded messages, too.
	whole.Superseded = x.Superseded.Turnwise()
	for have < want && x.Superseded.LastMessage(upto) > 0 {
		q, stretches := query(whole, upto, want-have, perPart)
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
		for i, stretch := range stretches {
			next := stretch[1] // the message that the next part must end with
			for _, it := range r.Ranges[i] {
				part, before, err := parseTurn(it.Value) // a damaged item has no value
				if err != nil || part[len(part)-1].Seq < next || !chained(it.Key, x, part) {
					hs, err = svc.headersFromBodies(ctx, tenant, x, want)
					return hs, 0, err
				}
				behind, next = before.Lineage, part[0].Seq-1
				part = slices.DeleteFunc(part, func(h Header) bool { return h.Seq > upto || x.Superseded.Part(h.Seq) })
				newest = append(newest, part)
				have += len(part)
			}
			if limit := q.Ranges[i].Limit; next >= stretch[0] && (limit == 0 || len(r.Ranges[i]) < limit) {
				hs, err = svc.headersFromBodies(ctx, tenant, x, want)
				return hs, 0, err
			}
			upto = next
		}
		perPart = max(1, have/len(newest))
	}
	if also != nil { // no header had to be read
		if *also, err = svc.db.ReadItem(ctx, tenant, also.Key); err != nil {
			return nil, 0, err
		}
	}
	hs = make([]Header, 0, have)
	for _, part := range slices.Backward(newest) {
		hs = append(hs, part...)
	}
	return hs, behind, nil
}

// query returns a query for the header records of about want messages of an extent, up to and including one, and the
// stretches that it reads: all stretches that are wanted whole, and of the next one as much as the expected number of
// messages in each record (perPart) suggests.
func query(x Extent, upto uint64, want, perPart int) (q store.Query, stretches [][2]uint64) {
	for first, last := range x.Superseded.Living(upto) {
		rng := store.Range{From: records.Headers.Key(x.Incarnation, first), To: records.Headers.Key(x.Incarnation, last+1),
			Reverse: true}
		size := last - first + 1
		if size > uint64(want) {
			rng.Limit = max(1, (want+perPart-1)/perPart)
		}
		q.Ranges, stretches = append(q.Ranges, rng), append(stretches, [2]uint64{first, last})
		if size >= uint64(want) {
			break
		}
		want -= int(size)
	}
	return q, stretches
}

// chained reports whether a part of a turn is stored under its own key and its messages are consecutive.
func chained(key []byte, x Extent, part []Header) bool {
	for i := 1; i < len(part); i++ {
		if part[i].Seq != part[i-1].Seq+1 {
			return false
		}
	}
	return string(key) == string(records.Headers.Key(x.Incarnation, part[0].Seq))
}

// headersFromBodies rebuilds the newest headers from the bodies, if a header record is damaged or missing.
func (svc *Service) headersFromBodies(ctx context.Context, tenant string, x Extent, want int) ([]Header, error) {
	svc.db.Log.Error("a header record is damaged or missing; reading the bodies instead",
		"tenant", tenant, "session", x.Incarnation.String())
	var out []Header // newest first
	turn := x.LastTurn()
	for first, last := range x.Superseded.Living(x.Messages) {
		left := uint64(want - len(out))
		if left == 0 {
			break
		}
		if last-first >= left {
			first = last - left + 1
		}
		bodies, err := svc.ReadBodies(ctx, tenant, x.Incarnation, first, last)
		if err != nil {
			return nil, err
		}
		for i, body := range slices.Backward(bodies) {
			seq := first + uint64(i)
			if h, _, err := ParseBody(body); err == nil && h.Seq == seq {
				out, turn = append(out, *h), h.Turn
			} else {
				out = append(out, Header{Seq: seq, Call: seq, Turn: turn})
			}
		}
	}
	slices.Reverse(out)
	return out, nil
}

// BodiesAtOnce is the maximum number of messages that one read of a long session loads into memory.
const BodiesAtOnce = 32

// ReadBodies returns the bodies of messages first to last, inclusive; nil for those that are missing or damaged. Decode
// them with ParseBody.
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
	return bodies, svc.Fill(ctx, tenant, sinc, bodies)
}

// EachMessage visits the messages of an extent in order, including superseded ones, for an export. It skips absent
// runs, which are not stored. It returns storage_damaged if a message cannot be read.
func (svc *Service) EachMessage(ctx context.Context, tenant string, x Extent, absent Runs,
	visit func(*Header, *chat.Message) error) error {
	for first, end := absent.Stretch(1); first <= x.Messages; first, end = absent.Stretch(first) {
		last := min(first+BodiesAtOnce-1, end, x.Messages)
		bodies, err := svc.ReadBodies(ctx, tenant, x.Incarnation, first, last)
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
		first = last + 1
	}
	return nil
}
