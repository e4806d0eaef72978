package transcript

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// A message that a client has edited keeps its number, its turn and its place. Its new form replaces its body and its
// header, and a change record keeps the old body, so that decisions made before can be replayed.

// The limits of what one commit changes, in forks too. More has to be stored as turns.
const (
	MaxEdits     = 256
	MaxEditBytes = 1 << 20 // of the old and the new bodies
)

// Edit is a new version of a stored message, with the same role.
type Edit struct {
	Seq      uint64 // of the message
	Format   chat.Format
	Elements []*Element // of the new version
	turn     *Turn      // of the one message that they hold, measured
}

// Change is the record of a change: what undoes it.
type Change struct {
	At       int64    `json:"at"`       // ms since 1970
	Revision uint64   `json:"revision"` // of the session, before the change
	Items    []Former `json:"items"`
}

// Former is what a message was before a change.
type Former struct {
	Seq uint64 `json:"seq"`
	Was []byte `json:"was"` // its body record
}

// Changed sums up a change.
type Changed struct {
	First  uint64   // the first changed message; 0 if there is none
	Tokens [2]int64 // that the messages have more than before, in each of project.Encodings
	Bytes  uint64   // of the new bodies
	Sum    uint64   // a hash of the change
}

// Prepare parses and measures a new version. It returns invalid_messages if its elements are not one message.
func (svc *Service) Prepare(ctx context.Context, e *Edit) error {
	if e.turn != nil {
		return nil
	}
	t, _ := TurnOf(e.Elements, ModeRepair)
	if t == nil {
		parsed, _, err := ParseRepaired(e.Format, Raw(e.Elements))
		if err != nil {
			return err
		}
		t = &Turn{Messages: parsed}
	}
	if len(t.Messages) != 1 || len(t.Messages[0].Calls) > 0 {
		return fault.Errorf(fault.Invalid, "invalid_messages", "a new version of a message must be one message without calls")
	}
	if err := svc.Measure(ctx, t); err != nil {
		return err
	}
	e.turn = t
	return nil
}

// Bytes returns the size of a prepared version.
func (e *Edit) Bytes() int64 { return e.turn.Bytes() }

// ChangeMessages collects the writes that give messages of an extent, which must be the whole session, new versions:
// their bodies, their headers, and the session's nth change record. Messages that are damaged, or whose role differs,
// stay as they are.
func (svc *Service) ChangeMessages(tx *records.Tx, x Extent, revision uint64, n uint32, edits []*Edit) (c Changed, err error) {
	keys := make([][]byte, len(edits))
	for i, e := range edits {
		keys[i] = records.Body.Key(x.Incarnation, e.Seq)
	}
	bodies, err := tx.Look(keys...)
	if err != nil {
		return c, err
	}
	record := Change{At: tx.Now.UnixMilli(), Revision: revision}
	for i, e := range edits {
		done, err := svc.changeMessage(tx, x, e, bodies[i].Value, &c)
		if err != nil {
			return c, err
		}
		if done {
			record.Items = append(record.Items, Former{e.Seq, bodies[i].Value})
		}
	}
	if record.Items == nil {
		return c, nil
	}
	raw, err := json.Marshal(&record)
	if err != nil {
		return c, err
	}
	after := sha256.New()
	_, _ = after.Write(raw)
	for _, p := range tx.Batch.Put {
		_, _ = after.Write(p.Value)
	}
	c.Sum = binary.LittleEndian.Uint64(after.Sum(nil))
	tx.Put(records.Change.Key(x.Incarnation, n), raw)
	return c, nil
}

// changeMessage collects the writes of one new version and adds to the sums. was is the body so far.
func (svc *Service) changeMessage(tx *records.Tx, x Extent, e *Edit, was []byte, c *Changed) (bool, error) {
	key, hs, past, err := svc.headersWith(tx, x, e.Seq)
	if err != nil || hs == nil {
		return false, err
	}
	old := &hs[e.Seq-hs[0].Seq]
	if in, _, err := ParseBody(Sketch(was)); err != nil || in.Seq != e.Seq || in.Calls > 0 {
		return false, nil
	}
	h := e.turn.headers[0]
	if h.Role != old.Role || h.Kind != old.Kind {
		return false, nil
	}
	h.Seq, h.Call, h.CallIndex, h.Tool, h.Turn, h.Created = old.Seq, old.Call, old.CallIndex, old.Tool, old.Turn, old.Created
	h.Agent, h.Delegation, h.Tags, h.Sources = old.Agent, old.Delegation, old.Tags, old.Sources
	svc.countQuestion(&h)
	m := &e.turn.Messages[0].Message
	h.BodyBytes = uint32(len(appendHeaders(nil, h.withoutLiterals())) + 1 + len(m.Raw))
	for i := range h.Tokens {
		c.Tokens[i] += int64(h.Tokens[i]) - int64(old.Tokens[i])
	}
	c.Bytes += uint64(h.BodyBytes)
	if c.First == 0 || h.Seq < c.First {
		c.First = h.Seq
	}
	*old = h
	tx.Put(records.Body.Key(x.Incarnation, h.Seq), appendBody(make([]byte, 0, int(h.BodyBytes)), &h, m))
	packed, err := packTurn(hs, past)
	if err == nil {
		tx.Put(key, packed)
	}
	return true, err
}

// headersWith reads the header record that holds a message, as the change leaves it. It returns no headers if the record
// is damaged or missing.
func (svc *Service) headersWith(tx *records.Tx, x Extent, seq uint64) (key []byte, hs []Header, past Past, err error) {
	r, err := svc.db.Store.Read(tx.Ctx, tx.Tenant, store.Query{Ranges: []store.Range{{
		From: records.Headers.Key(x.Incarnation, 1), To: records.Headers.Key(x.Incarnation, seq+1), Reverse: true, Limit: 1}}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return nil, nil, past, err
	}
	key = r.Ranges[0][0].Key
	its, err := tx.Look(key)
	if err != nil || its[0].Damaged {
		return nil, nil, past, err
	}
	hs, past, err = parseTurn(its[0].Value)
	if err != nil || !chained(key, x, hs) || seq > hs[len(hs)-1].Seq {
		return nil, nil, past, nil
	}
	return key, hs, past, nil
}

// packTurn encodes the header record of a turn, without literals if it would be too long with them: then windows find
// the literals when they need them. It returns turn_too_large.
func packTurn(headers []Header, before Past) ([]byte, error) {
	packed := before.append(appendHeaders(make([]byte, 0, len(headers)*(2*headerSize+literal.MaxPacked/2)), headers))
	if len(packed) > store.MaxValue {
		for i := range headers {
			headers[i].Literals = ""
		}
		packed = before.append(appendHeaders(nil, headers))
	}
	if len(packed) > store.MaxValue {
		return nil, fault.Errorf(fault.TooLarge, "turn_too_large",
			"the turn's names and tags take %d bytes, at most %d are possible", len(packed), store.MaxValue)
	}
	return packed, nil
}

// ReadChange returns a change of a session; nil if its record is not stored. It returns records.ErrDamaged.
func (svc *Service) ReadChange(ctx context.Context, tenant string, sinc ident.Incarnation, n uint32) (*Change, error) {
	it, err := svc.db.ReadItem(ctx, tenant, records.Change.Key(sinc, n))
	if err != nil || it.Value == nil && !it.Damaged {
		return nil, err
	}
	c := new(Change)
	if it.Damaged || json.Unmarshal(it.Value, c) != nil {
		return nil, fmt.Errorf("%w: a change of a session", records.ErrDamaged)
	}
	return c, nil
}

// Formers are body records of messages by their numbers.
type Formers map[uint64][]byte

// Undo returns the versions of messages after the session's first n changes, for those messages that were changed
// later. upto is the current number of changes. It returns nil and false if one of the later changes is no longer
// stored.
func (svc *Service) Undo(ctx context.Context, tenant string, sinc ident.Incarnation, n, upto uint32) (Formers, bool, error) {
	out := Formers{}
	for ; n < upto; n++ {
		c, err := svc.ReadChange(ctx, tenant, sinc, n+1)
		if err != nil || c == nil {
			return nil, false, err
		}
		for _, item := range c.Items {
			if _, known := out[item.Seq]; !known {
				out[item.Seq] = item.Was
			}
		}
	}
	return out, true, nil
}

// Restore replaces the headers of messages that were changed.
func (f Formers) Restore(hs []Header) {
	for i := range hs {
		if was, ok := f[hs[i].Seq]; ok {
			if h, _, err := ParseBody(Sketch(was)); err == nil {
				hs[i] = *h
			}
		}
	}
}
