package transcript

import (
	"cmp"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Copied is what a copy of a session's messages holds.
type Copied struct {
	Tokens [2]uint64
	Bytes  uint64 // of the bodies
	Asked  uint64 // the newest user message outside delegations
	Open   []OpenCall
}

// Copy writes the living messages of an extent under another incarnation. It copies record by record, so numbers and
// counts do not change. fits can refuse the total size before anything is written. It returns storage_damaged if a
// message or a header record cannot be read.
func (svc *Service) Copy(to *records.Staging, x Extent, sinc ident.Incarnation, fits func(bytes int64) error) (
	c Copied, err error) {
	w := to.W
	hs, _, err := svc.ReadHeaders(w.Ctx, w.Tenant, x, int(x.LivingMessages()), nil)
	if err != nil {
		return c, err
	}
	waiting := map[uint64]int{} // results still to come, by call message
	for i := range hs {
		h := &hs[i]
		for e, n := range h.Tokens {
			c.Tokens[e] += uint64(n)
		}
		c.Bytes += uint64(h.BodyBytes)
		if h.Role == plan.RoleUser && h.Delegation == "" {
			c.Asked = h.Seq
		}
		if h.Calls > 0 {
			waiting[h.Seq] = int(h.Calls)
		}
		if h.Call != h.Seq {
			waiting[h.Call]--
		}
	}
	if err := fits(int64(c.Bytes)); err != nil {
		return c, err
	}
	for first, last := range x.Superseded.Turnwise().Living(x.Messages) {
		if err := svc.copyHeaders(to, x, first, last, sinc); err != nil {
			return c, err
		}
	}
	var open OpenCalls
	for some := range slices.Chunk(hs, BodiesAtOnce) {
		if err := svc.copyBodies(to, x, some, sinc, func(body []byte) {
			if h, m, err := ParseBody(body); err == nil && waiting[h.Seq] > 0 {
				open.waitFor(h, m, hs)
			}
		}); err != nil {
			return c, err
		}
	}
	c.Open = open.Calls
	return c, nil
}

// waitFor notes those calls of a message that no header answers.
func (o *OpenCalls) waitFor(h *Header, m *chat.Message, hs []Header) {
	answered := make([]bool, len(m.Calls))
	for i := range hs {
		if r := &hs[i]; r.Call == h.Seq && r.Seq != h.Seq && int(r.CallIndex) < len(answered) {
			answered[r.CallIndex] = true
		}
	}
	for i, done := range answered {
		if !done {
			o.note(h, m, uint16(i))
		}
	}
}

// copyHeaders copies the header records of a range of messages.
func (svc *Service) copyHeaders(to *records.Staging, x Extent, first, last uint64, sinc ident.Incarnation) error {
	rng := store.Range{From: records.Headers.Key(x.Incarnation, first), To: records.Headers.Key(x.Incarnation, last+1)}
	next := first
	for it, err := range svc.db.Scan(to.W.Ctx, to.W.Tenant, rng) {
		if err != nil {
			return err
		}
		part, past, err := parseTurn(it.Value)
		if err != nil || part[0].Seq != next || !chained(it.Key, x, part) {
			return notWhole(x, next)
		}
		next = part[len(part)-1].Seq + 1
		packed := it.Value
		for i := range part {
			if x.Superseded.Part(part[i].Seq) {
				part[i], packed = part[i].blank(), nil
			}
		}
		if packed == nil {
			if packed, err = packTurn(part, past); err != nil {
				return err
			}
		}
		if err := to.Add(func(w *records.Tx) error {
			w.Put(records.Headers.Key(sinc, part[0].Seq), packed)
			return nil
		}); err != nil {
			return err
		}
	}
	if next <= last {
		return notWhole(x, next)
	}
	return nil
}

// copyBodies copies the bodies of some messages and passes each to show.
func (svc *Service) copyBodies(to *records.Staging, x Extent, some []Header, sinc ident.Incarnation, show func([]byte),
) error {
	keys := make([][]byte, len(some))
	for i := range some {
		keys[i] = records.Body.Key(x.Incarnation, some[i].Seq)
	}
	r, err := to.Read(store.Query{Keys: keys})
	if err != nil {
		return err
	}
	for i, it := range r.Keys {
		if it.Value == nil {
			return notWhole(x, some[i].Seq)
		}
		show(Sketch(it.Value))
		if whole, err := copyBlobs(to, x.Incarnation, sinc, it.Value); !whole {
			return cmp.Or(err, notWhole(x, some[i].Seq))
		}
		if err := to.Add(func(w *records.Tx) error {
			w.Put(records.Body.Key(sinc, some[i].Seq), it.Value)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func notWhole(x Extent, seq uint64) error {
	return fault.Errorf(fault.Internal, "storage_damaged",
		"message %s cannot be read, so the fork would not be whole", MessageID(x.Incarnation, seq))
}
