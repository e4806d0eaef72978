package session

import (
	"context"
	"fmt"
	"net/url"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// Erased counts what an erasure deleted.
type Erased struct {
	SessionID string `json:"session_id"`
	Revision  uint64 `json:"revision"`
	Messages  uint64 `json:"messages"` // superseded and removed ones
	Changes   uint64 `json:"changes"`  // that former versions of messages were kept for
}

// Erase deletes for good what no longer belongs to a session: superseded and removed messages, former versions of changed
// ones, earlier versions of the summary, open turns, and the decisions that were made before the last of these changes.
// The session itself, its counts and its numbers stay as they are. Forks are sessions of their own. A long session takes
// several commits; after an error, another call continues. It returns not_found.
func (svc *Service) Erase(ctx context.Context, c ident.Caller, projectID, id string) (Erased, error) {
	out := Erased{SessionID: id}
	if !ident.ValidID(id) {
		return out, noSession(id)
	}
	unlock, err := svc.Lock(ctx, c.Tenant, projectID, id)
	if err != nil {
		return out, err
	}
	defer unlock()
	for more := true; more; {
		var size uint64
		var did Erased
		more, err = records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (more bool, err error) {
			did, size = Erased{}, 0
			p, h, open, err := svc.forAppend(t, c, projectID, id, false)
			if err != nil {
				return false, err
			}
			if more, err = svc.eraseSome(t, h, &did, &size); err != nil {
				return false, err
			}
			did.Revision = h.Revision
			if t.Writes() == 0 {
				return false, nil
			}
			if !more {
				if err := tenant.Audit(t, c, "session.erase", url.PathEscape(projectID)+"/"+url.PathEscape(id), out.with(&did).describe()); err != nil {
					return false, err
				}
			}
			return more, svc.putSession(t, p, id, h, open)
		})
		if err != nil {
			return out, err
		}
		out = out.with(&did)
		svc.db.Removed.Main.Store(true)
		svc.MessageUse.Add(c.Tenant, records.Amount{Bytes: -int64(size)})
	}
	p, h, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return out, err
	}
	x := h.Extent()
	for _, sinc := range []ident.Incarnation{Unborn(id), x.Incarnation} {
		if err := svc.PurgeDecisions(ctx, c.Tenant, p.Incarnation, sinc, func(seen transcript.Extent) bool {
			return seen.Edits == x.Edits && seen.Superseded.Equal(x.Superseded)
		}); err != nil {
			return out, err
		}
	}
	return out, nil
}

// with adds what another commit deleted.
func (e Erased) with(did *Erased) Erased {
	e.Messages += did.Messages
	e.Changes += did.Changes
	e.Revision = did.Revision
	return e
}

func (e Erased) describe() string {
	return fmt.Sprintf("%d superseded or removed messages, and what %d changes replaced", e.Messages, e.Changes)
}

// eraseSome collects the writes of one commit of an erasure, and reports whether another one has to follow.
func (svc *Service) eraseSome(t *records.Tx, h *Head, did *Erased, size *uint64) (more bool, err error) {
	for _, r := range h.Superseded {
		if r.Partial() {
			if err := svc.erasePart(t, h, r, did, size); err != nil {
				return false, err
			}
			continue
		}
		first, last := h.Absent.Turnwise().Stretch(r.Messages[0])
		for last = min(last, r.Messages[1]); first <= last; {
			if did.Messages >= transcript.EraseAtOnce {
				return true, nil
			}
			gone, n, err := svc.EraseMessages(t, h.Incarnation, first, last)
			if err != nil {
				return false, err
			}
			did.Messages += gone.Messages[1] + 1 - gone.Messages[0]
			*size += n
			h.Absent = h.Absent.Merge(gone)
			h.Bytes -= min(h.Bytes, n)
			first, last = h.Absent.Turnwise().Stretch(first)
			last = min(last, r.Messages[1])
		}
	}
	upto, n, err := svc.EraseChanges(t, h.Incarnation, h.Erased, h.Edits)
	if err != nil {
		return false, err
	}
	*size += n
	h.Bytes -= min(h.Bytes, n)
	did.Changes, h.Erased = uint64(upto-h.Erased), upto
	if h.Erased < h.Edits {
		return true, nil
	}
	if err := svc.eraseRest(t, h); err != nil {
		return false, err
	}
	if t.Writes() > 0 {
		h.forget()
	}
	return false, nil
}

// erasePart collects the writes that erase removed messages of a living turn.
func (svc *Service) erasePart(t *records.Tx, h *Head, r transcript.Run, did *Erased, size *uint64) error {
	was := h.Absent.Messages(r.Messages[1]) - h.Absent.Messages(r.Messages[0]-1)
	left := r.Messages[1] - r.Messages[0] + 1 - was
	if left == 0 {
		return nil
	}
	n, err := svc.ErasePart(t, h.Incarnation, r)
	if err != nil {
		return err
	}
	did.Messages += left
	*size += n
	h.Absent = h.Absent.Insert(r)
	h.Bytes -= min(h.Bytes, n)
	return nil
}

// eraseRest collects the writes that delete earlier versions of the summary, a summary in progress, and open turns.
func (svc *Service) eraseRest(t *records.Tx, h *Head) error {
	now := h.Covered()
	if now.Covers == 0 {
		now.Version++
	}
	for _, rng := range []store.Range{
		{From: records.Summary.Key(h.Incarnation, 0), To: records.Summary.Key(h.Incarnation, now.Version)},
		records.OpenTurn.Under(h.Incarnation),
	} {
		rng.KeysOnly = true
		for it, err := range svc.db.Scan(t.Ctx, t.Tenant, rng) {
			if err != nil {
				return err
			}
			t.Delete(it.Key)
		}
	}
	if t.Writes() > 0 {
		t.Delete(records.SummaryJob.Key(h.Incarnation))
	}
	return nil
}

// forget removes from a head what it knows of erased messages. Runs that are superseded are stored nowhere any more.
func (h *Head) forget() {
	h.Absent, h.Removed = h.Superseded, nil
	if h.Sent != nil {
		sent := *h.Sent
		sent.Edge, sent.Marked, sent.Edits = align.Edge{}, nil, nil
		h.Sent = &sent
	}
	h.Revision++
	h.Lineage = h.Lineage.Branch("erase", h.Revision)
}
