package board

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// Purge asks to delete entries older than a number of days.
type Purge struct {
	OlderThanDays int   // 0 deletes entries of any age
	IsChat        *bool // nil deletes both chat and other entries
}

// Purged is the result of a Purge.
type Purged struct {
	DeletedEntries int `json:"deleted_entries"`
	OlderThanDays  int `json:"older_than_days"`
}

// commitEntries, commitTerms and purgeBytes limit what one commit removes from a board. The first two also limit what
// one commit of an import adds.
const (
	commitEntries = 128
	commitTerms   = 6000
	purgeBytes    = 4 << 20
)

// Purge deletes entries by age, with their notifications. Entries that are written in the meantime are kept. It works
// in steps: if it fails halfway, the rest remains and the request can be repeated. It returns out_of_range for the
// days.
func (svc *Service) Purge(ctx context.Context, c ident.Caller, id string, p Purge) (Purged, error) {
	out := Purged{OlderThanDays: p.OlderThanDays}
	if p.OlderThanDays < 0 || p.OlderThanDays > maxRetentionDays {
		return out, fault.InvalidField("older_than_days", "out_of_range", "must be from 0 to %d", maxRetentionDays)
	}
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return out, err
	}
	f, last := Filter{IsChat: p.IsChat}, b.Last
	if p.OlderThanDays > 0 {
		until := svc.db.Settled().AddDate(0, 0, -p.OlderThanDays)
		f.Until = &until
	}
	for first := true; ; first = false {
		n, err := change(ctx, svc, c, ident.Once{}, id, existing, func(t *records.Tx, b *boardRecord) (int, error) {
			if first {
				kinds := "all"
				if p.IsChat != nil {
					kinds = fmt.Sprintf("is_chat=%t", *p.IsChat)
				}
				detail := fmt.Sprintf("older than %d days, %s", p.OlderThanDays, kinds)
				if err := tenant.Audit(t, c, "board.purge", id, detail); err != nil {
					return 0, err
				}
			}
			return svc.purge(t, b, &f, last)
		})
		out.DeletedEntries += n
		if err != nil || n == 0 {
			return out, err
		}
	}
}

// purge collects the deletions of the oldest entries that match a filter, up to the number last. It deletes as many as
// one commit may and returns how many.
func (svc *Service) purge(t *records.Tx, b *boardRecord, f *Filter, last uint64) (int, error) {
	s, err := svc.choose(t.Ctx, t.Tenant, b, f)
	if err != nil {
		return 0, err
	}
	s.Last, s.Counted = min(s.Last, last), true // the count is not needed
	seqs, _, err := s.Page(t.Ctx, true, 0, commitEntries)
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	entries, err := svc.readEntries(t.Ctx, t.Tenant, b, seqs, purgeBytes, true)
	if err != nil {
		return 0, err
	}
	return svc.remove(t, b, entries)
}

// remove collects the deletions of entries: their records, their index terms and their notifications. It deletes as
// many as one commit may. A damaged entry is kept until its board is deleted, because its index terms are unknown.
func (svc *Service) remove(t *records.Tx, b *boardRecord, entries []*Stored) (int, error) {
	var removed []*Stored
	gone := Places{}
	for _, e := range entries {
		if e.Damaged {
			continue
		}
		terms := e.Terms()
		if removed != nil && len(gone)+len(terms) > commitTerms {
			break
		}
		gone.Add(b.Incarnation, e.Seq, terms)
		e.Delete(t, &b.Series)
		removed = append(removed, e)
	}
	r, err := t.DB.Store.Read(t.Ctx, t.Tenant, store.Query{Keys: gone.Keys()})
	if err != nil {
		return 0, err
	}
	if err := gone.Clear(t, r.Keys); err != nil {
		return 0, err
	}
	return len(removed), svc.withdraw(t, b, removed)
}

// withdraw deletes the notifications of entries and removes them from the counts of their inboxes.
func (svc *Service) withdraw(t *records.Tx, b *boardRecord, entries []*Stored) error {
	if !slices.ContainsFunc(entries, func(e *Stored) bool { return len(e.Notified) > 0 }) {
		return nil
	}
	agents, err := svc.agents(t.Ctx, t.Tenant, b)
	if err != nil {
		return err
	}
	byInbox := map[ident.Incarnation]*agentRecord{}
	for _, a := range agents {
		byInbox[a.Inbox] = a
	}
	changed := map[*agentRecord]bool{}
	for _, e := range entries {
		for _, n := range e.Notified {
			a := byInbox[n.Inbox]
			if a == nil {
				continue // the agent was deleted with its inbox
			}
			t.Delete(records.Notice.Key(b.Incarnation, n.Inbox, n.Seq))
			a.Notices--
			if n.Seq > a.Acked {
				a.Unread--
			}
			if n.Kind == noticeMention {
				a.Mentions--
			}
			changed[a] = true
		}
	}
	for a := range changed {
		if err := a.put(t, b); err != nil {
			return err
		}
	}
	return nil
}
