package transcript

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// EraseAtOnce is about how many messages one commit erases.
const EraseAtOnce = 2000

// EraseMessages collects the writes that delete messages first to last, or the first of them, whole turns or parts of
// turns: their bodies, headers and blobs. It returns what it deletes, and the size of the bodies. It returns
// records.ErrDamaged if it cannot read which turns they belong to.
func (svc *Service) EraseMessages(t *records.Tx, sinc ident.Incarnation, first, last uint64) (run Run, size uint64, err error) {
	run.Messages = [2]uint64{first, first - 1}
	rng := store.Range{From: records.Headers.Key(sinc, first), To: records.Headers.Key(sinc, last+1)}
	for it, err := range svc.db.Scan(t.Ctx, t.Tenant, rng) {
		if err != nil {
			return run, 0, err
		}
		part, _, err := parseTurn(it.Value)
		if err != nil || part[0].Seq != run.Messages[1]+1 || !chained(it.Key, Extent{Incarnation: sinc}, part) {
			break
		}
		t.Delete(slices.Clone(it.Key))
		if run.Turns[0] == 0 {
			run.Turns[0] = part[0].Turn
		}
		run.Turns[1], run.Messages[1] = part[0].Turn, part[len(part)-1].Seq
		for i := range part {
			t.Delete(records.Body.Key(sinc, part[i].Seq))
			size += uint64(part[i].BodyBytes)
		}
		if run.Messages[1]-first >= EraseAtOnce {
			break
		}
	}
	if run.Turns[0] == 0 {
		return run, 0, fmt.Errorf("%w: the headers of messages to erase", records.ErrDamaged)
	}
	bodies := store.Range{From: records.Body.Key(sinc, first), To: records.Body.Key(sinc, run.Messages[1]+1), Limit: BodiesAtOnce}
	for it, err := range svc.db.Scan(t.Ctx, t.Tenant, bodies) {
		if err != nil {
			return run, 0, err
		}
		deleteBlobs(t, sinc, it.Value)
	}
	return run, size, nil
}

// ErasePart collects the writes that delete some messages of a living turn: their bodies and blobs. The record of the
// turn's headers keeps only their numbers. It returns the size of the bodies. It returns records.ErrDamaged if it cannot
// read the record.
func (svc *Service) ErasePart(t *records.Tx, sinc ident.Incarnation, r Run) (size uint64, err error) {
	for seq := r.Messages[0]; seq <= r.Messages[1]; {
		key, hs, past, err := svc.headersWith(t, Extent{Incarnation: sinc}, seq)
		if err != nil {
			return size, err
		}
		if hs == nil {
			return size, fmt.Errorf("%w: the headers of messages to erase", records.ErrDamaged)
		}
		for i := range hs {
			if h := &hs[i]; r.Messages[0] <= h.Seq && h.Seq <= r.Messages[1] {
				size += uint64(h.BodyBytes)
				*h = h.blank()
			}
		}
		packed, err := packTurn(hs, past)
		if err != nil {
			return size, err
		}
		t.Put(key, packed)
		seq = hs[len(hs)-1].Seq + 1
	}
	bodies := store.Range{From: records.Body.Key(sinc, r.Messages[0]), To: records.Body.Key(sinc, r.Messages[1]+1)}
	for it, err := range svc.db.Scan(t.Ctx, t.Tenant, bodies) {
		if err != nil {
			return size, err
		}
		deleteBlobs(t, sinc, it.Value)
		t.Delete(slices.Clone(it.Key))
	}
	return size, nil
}

// EraseChanges collects the writes that delete the records of changes after the nth, up to the uptoth or EraseAtOnce of
// them, with the blobs of former versions. It returns the number of the last, and the size of the former versions in bytes.
func (svc *Service) EraseChanges(t *records.Tx, sinc ident.Incarnation, n, upto uint32) (last uint32, size uint64, err error) {
	upto = min(upto, n+EraseAtOnce)
	for ; n < upto; n++ {
		c, err := svc.ReadChange(t.Ctx, t.Tenant, sinc, n+1)
		if err == nil && c != nil {
			for _, item := range c.Items {
				deleteBlobs(t, sinc, item.Was)
				if h, _, err := ParseBody(Sketch(item.Was)); err == nil {
					size += uint64(h.BodyBytes)
				}
			}
		} else if err != nil && !errors.Is(err, records.ErrDamaged) {
			return n, size, err
		}
		t.Delete(records.Change.Key(sinc, n+1))
	}
	return n, size, nil
}

// deleteBlobs deletes the blobs that a body refers to.
func deleteBlobs(t *records.Tx, sinc ident.Incarnation, body []byte) {
	holes, _, _ := holesOf(body)
	for _, h := range holes {
		t.Delete(records.Blob.Key(sinc, h.id))
	}
}

// Merge returns the runs with one more, which lies within none of them. It joins runs between which there are no
// messages.
func (rs Runs) Merge(r Run) (out Runs) {
	for _, next := range rs.Insert(r) {
		if n := len(out); n > 0 && out[n-1].Partial() == next.Partial() && out[n-1].Messages[1]+1 == next.Messages[0] &&
			(!next.Partial() || out[n-1].Turns == next.Turns) {
			out[n-1].Messages[1] = next.Messages[1]
			out[n-1].Turns[1] = max(out[n-1].Turns[1], next.Turns[1])
			continue
		}
		out = append(out, next)
	}
	return out
}
