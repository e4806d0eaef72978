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
	"slices"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Service writes and reads messages.
type Service struct {
	db     *records.DB
	tokens Tokenizer
	usual  func() usual
}

// New makes the room.
func New(db *records.DB, tokens Tokenizer) *Service {
	svc := &Service{db: db, tokens: tokens}
	svc.usual = sync.OnceValue(svc.countUsual)
	return svc
}

// Extent is how far into a session a reader may look: its first turns and messages, which never change, without those
// that were superseded.
type Extent struct {
	Incarnation ident.Incarnation
	Turns       uint32 // numbers given, as are Messages
	Messages    uint64
	Superseded  Runs
}

// LivingTurns counts the turns that are not superseded.
func (x *Extent) LivingTurns() uint32 { return x.Turns - x.Superseded.Turns(x.Turns) }

// LivingMessages counts the messages that are not superseded.
func (x *Extent) LivingMessages() uint64 { return x.Messages - x.Superseded.Messages(x.Messages) }

// LastTurn is the number of the newest turn that is not superseded; 0: there is none.
func (x *Extent) LastTurn() uint32 { return x.Superseded.LastTurn(x.Turns) }

// ReadHeaders gives the newest messages of an extent, ascending and with no gap but superseded ones: at least want of
// them, or all. It costs what it returns, however long the session is and however often it was rewound. A header record
// that is lost or damaged is made again from the bodies; a message of which nothing is left stands there with role 0.
// Where also is not nil, the record of its key is read in the same round trip. behind is the lineage of the session
// before the first of the messages; it is 0 where that cannot be read, and where none is wanted.
func (svc *Service) ReadHeaders(ctx context.Context, tenant string, x Extent, want int, also *store.Item) (
	hs []Header, behind Lineage, err error) {
	perPart := max(1, int(x.LivingMessages())/max(1, int(x.LivingTurns()))) // a guess, until some were seen
	var newest [][]Header                                                   // parts of turns, newest first
	have, upto := 0, x.Messages
	for have < want && x.Superseded.LastMessage(upto) > 0 {
		q, stretches := query(x, upto, want-have, perPart)
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
				if err != nil || part[len(part)-1].Seq != next || !chained(it.Key, x, part) {
					hs, err = svc.headersFromBodies(ctx, tenant, x, want)
					return hs, 0, err
				}
				newest = append(newest, part)
				have, behind, next = have+len(part), before.Lineage, part[0].Seq-1
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

// query reads the header records of about so many messages of an extent up to one, and says of which stretches: all of
// those that are wanted whole, and so much of the next as a guess of the messages in each record tells.
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

// chained tells whether a part of a turn lies under its key, and its messages follow one another.
func chained(key []byte, x Extent, part []Header) bool {
	for i := 1; i < len(part); i++ {
		if part[i].Seq != part[i-1].Seq+1 {
			return false
		}
	}
	return string(key) == string(records.Headers.Key(x.Incarnation, part[0].Seq))
}

// headersFromBodies makes the newest headers again from the bodies, where a header record is damaged or missing.
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

// EachMessage visits the messages of an extent in order, superseded ones too, for an export: all but those of absent
// runs, which are stored nowhere. It answers storage_damaged where one cannot be read.
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
