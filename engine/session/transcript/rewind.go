package transcript

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// walkPiece is how many headers walkBack reads at once.
const walkPiece = 1024

// walkBack visits the headers of an extent, newest first.
func (svc *Service) walkBack(ctx context.Context, tenant string, x Extent) iter.Seq2[*Header, error] {
	return func(yield func(*Header, error) bool) {
		for x.LivingMessages() > 0 {
			hs, _, err := svc.ReadHeaders(ctx, tenant, x, walkPiece, nil)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range slices.Backward(hs) {
				if !yield(&hs[i], nil) {
					return
				}
			}
			x.Messages = hs[0].Seq - 1
		}
	}
}

// LastQuestion returns the number of the newest user message outside delegations in an extent, or 0 if there is none.
func (svc *Service) LastQuestion(ctx context.Context, tenant string, x Extent) (uint64, error) {
	for h, err := range svc.walkBack(ctx, tenant, x) {
		if err != nil {
			return 0, err
		}
		if h.Role == plan.RoleUser && h.Delegation == "" {
			return h.Seq, nil
		}
	}
	return 0, nil
}

// CountTokens adds up the tokens of an extent's messages.
func (svc *Service) CountTokens(ctx context.Context, tenant string, x Extent) (n [2]uint64, err error) {
	for h, err := range svc.walkBack(ctx, tenant, x) {
		if err != nil {
			return n, err
		}
		n[0] += uint64(h.Tokens[0])
		n[1] += uint64(h.Tokens[1])
	}
	return n, nil
}

// Unwound is what a rewind takes back.
type Unwound struct {
	Run              // zero if there is nothing to take back, because no living turn follows the one that is kept
	Living [2]uint64 // living turns and messages that are taken back
	Tokens [2]uint64 // of those messages
	Asked  uint64    // the newest remaining user message outside delegations; 0 if there is none
}

// Unwind computes what superseding all turns after a given one takes back of an extent, which must be the whole
// session. asked is the session's newest user message outside delegations. Unwind updates open: calls made by
// superseded messages are removed, and calls that superseded messages answered are open again. Its cost is proportional
// to what is taken back.
func (svc *Service) Unwind(ctx context.Context, tenant string, x Extent, turn uint32, asked uint64, open *OpenCalls) (
	u Unwound, err error) {
	var answers []Header // results that are taken back
	for h, err := range svc.walkBack(ctx, tenant, x) {
		if err != nil {
			return u, err
		}
		if h.Turn > turn {
			u.Living[1]++
			if h.Turn != u.Turns[0] {
				u.Living[0]++
			}
			u.Turns[0], u.Messages[0] = h.Turn, h.Seq
			for i, n := range h.Tokens {
				u.Tokens[i] += uint64(n)
			}
			if h.Call != h.Seq {
				answers = append(answers, *h)
			}
			continue
		}
		if u.Living[1] == 0 || asked < u.Messages[0] {
			break
		}
		if h.Role == plan.RoleUser && h.Delegation == "" {
			u.Asked = h.Seq
			break
		}
	}
	first := u.Messages[0]
	if first == 0 {
		return u, nil
	}
	if asked < first {
		u.Asked = asked
	}
	u.Turns[1], u.Messages[1] = x.Turns, x.Messages
	open.Calls = slices.DeleteFunc(open.Calls, func(c OpenCall) bool { return c.Seq >= first })
	answers = slices.DeleteFunc(answers, func(h Header) bool { return h.Call >= first })
	return u, svc.reopen(ctx, tenant, x, answers, open)
}

// reopen marks the calls that these results answered as open.
func (svc *Service) reopen(ctx context.Context, tenant string, x Extent, answers []Header, open *OpenCalls) error {
	for some := range slices.Chunk(answers, records.MaxOfOneRead) {
		q := store.Query{Keys: make([][]byte, len(some))}
		for i := range some {
			q.Keys[i] = records.Body.Key(x.Incarnation, some[i].Call)
		}
		r, err := svc.db.Store.Read(ctx, tenant, q)
		if err != nil {
			return err
		}
		for i := range some {
			h, m, err := ParseBody(Sketch(r.Keys[i].Value))
			if err == nil && int(some[i].CallIndex) < len(m.Calls) { // otherwise its id is lost
				open.note(h, m, some[i].CallIndex)
			}
		}
	}
	slices.SortFunc(open.Calls, func(a, b OpenCall) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Index, b.Index))
	})
	return nil
}

// Until returns the part of an extent that ends with a turn, or with the newest living turn before it, and the tokens
// of its messages; all are the tokens of the whole extent. It finds the end by binary search, with one read per step.
// If the headers at the end are damaged, it returns no tokens.
func (svc *Service) Until(ctx context.Context, tenant string, x Extent, all [2]uint64, turn uint32) (
	out Extent, tokens [2]uint64, err error) {
	if turn >= x.Turns {
		return x, all, nil
	}
	out.Incarnation, out.Edits = x.Incarnation, x.Edits
	low, high := uint64(0), x.LivingMessages() // bounds for the number of living messages before the end
	end := uint64(0)                           // the newest message of the turns before it
	for low < high {
		seq := x.Superseded.Nth((low + high) / 2)
		part, past, err := svc.partOf(ctx, tenant, x, seq)
		if err != nil {
			return out, tokens, err
		}
		if first, last := &part[0], &part[len(part)-1]; first.Turn > turn {
			high = first.Seq - 1 - x.Superseded.Messages(first.Seq-1)
		} else {
			low, end = last.Seq-x.Superseded.Messages(last.Seq), last.Seq
			out.Turns, tokens = first.Turn, past.with(part)
		}
	}
	if low == 0 {
		return out, tokens, nil
	}
	out.Messages = end
	out.Superseded = x.Superseded.Upto(out.Messages)
	for _, r := range out.Superseded { // a turn may continue after later ones that are superseded
		out.Turns = max(out.Turns, r.Turns[1])
	}
	return out, tokens, nil
}

// with returns the tokens up to and including a part of a turn; zero if the state before is unknown.
func (p *Past) with(part []Header) (n [2]uint64) {
	if p == nil {
		return n
	}
	n = p.Tokens
	for i := range part {
		n[0] += uint64(part[i].Tokens[0])
		n[1] += uint64(part[i].Tokens[1])
	}
	return n
}

// PartBounds returns the first and the last message of the part of a turn that contains a message.
func (svc *Service) PartBounds(ctx context.Context, tenant string, x Extent, seq uint64) (first, last uint64, err error) {
	part, _, err := svc.partOf(ctx, tenant, x, seq)
	if err != nil {
		return 0, 0, err
	}
	return part[0].Seq, part[len(part)-1].Seq, nil
}

// partOf returns the headers of the part of a turn that contains a message, and the state before it. If only the
// message's body can be read, it returns that message's header.
func (svc *Service) partOf(ctx context.Context, tenant string, x Extent, seq uint64) ([]Header, *Past, error) {
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{{
		From: records.Headers.Key(x.Incarnation, 1), To: records.Headers.Key(x.Incarnation, seq+1), Reverse: true, Limit: 1}}})
	if err != nil {
		return nil, nil, err
	}
	if found := r.Ranges[0]; len(found) == 1 {
		part, past, err := parseTurn(found[0].Value)
		if err == nil && chained(found[0].Key, x, part) && part[0].Seq <= seq && seq <= part[len(part)-1].Seq {
			return part, &past, nil
		}
	}
	bodies, err := svc.ReadBodies(ctx, tenant, x.Incarnation, seq, seq)
	if err != nil {
		return nil, nil, err
	}
	h, _, err := ParseBody(bodies[0])
	if err != nil || h.Seq != seq {
		return nil, nil, records.ErrDamaged
	}
	return []Header{*h}, nil, nil
}
