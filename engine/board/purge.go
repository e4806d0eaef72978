package board

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

const (
	// purgeEntries, purgeTerms and purgeBytes bound what one commit removes of a board.
	purgeEntries = 128
	purgeTerms   = 6000
	purgeBytes   = 4 << 20
	// retentionPause is the least time between two looks for what is past a board's retention.
	retentionPause = time.Hour
)

// Purge deletes entries by age, with the notifications that they raised. What is written while it runs stays.
// It works in steps: where it fails halfway, the rest is still there and may be asked for again.
func (svc *Service) Purge(ctx context.Context, c access.Caller, id string, p Purge) (Purged, error) {
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
		until := svc.db.Now().AddDate(0, 0, -p.OlderThanDays)
		f.Until = &until
	}
	for first := true; ; first = false {
		n, err := change(ctx, svc, c, access.Once{}, id, false, func(t *records.Tx, b *Record) (int, error) {
			if first {
				kinds := "all"
				if p.IsChat != nil {
					kinds = fmt.Sprintf("is_chat=%t", *p.IsChat)
				}
				if err := tenant.Audit(t, c, "board.purge", id, fmt.Sprintf("older than %d days, %s", p.OlderThanDays, kinds)); err != nil {
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

// purge collects the writes that remove the oldest entries up to a number that a filter chooses, as many as one
// commit takes, and tells how many.
func (svc *Service) purge(t *records.Tx, b *Record, f *Filter, last uint64) (int, error) {
	s, err := svc.choose(t.Ctx, t.Tenant, b, f)
	if err != nil {
		return 0, err
	}
	s.last, s.counted = min(s.last, last), true // the count is not asked for
	seqs, _, err := s.page(t.Ctx, svc, t.Tenant, b, true, 0, purgeEntries)
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	entries, err := svc.readEntries(t.Ctx, t.Tenant, b, seqs, purgeBytes, true)
	if err != nil {
		return 0, err
	}
	return svc.remove(t, b, entries)
}

// remove collects the writes that take entries off their board: their records, what they are found by, and the
// notifications that they raised. It takes as many as one commit can. A damaged one stays, until its board goes: what
// it is found by is not known.
func (svc *Service) remove(t *records.Tx, b *Record, entries []*storedEntry) (int, error) {
	var removed []*storedEntry
	gone := map[string][]uint64{} // by the key of their postings
	for _, s := range entries {
		if s.damaged {
			continue
		}
		terms := s.terms(wordsOf(s.content, maxWords))
		if removed != nil && len(gone)+len(terms) > purgeTerms {
			break
		}
		for _, term := range terms {
			key := string(records.Postings.Key(b.Incarnation, term, s.seq/blockSize))
			gone[key] = append(gone[key], s.seq)
		}
		t.Delete(records.Entry.Key(b.Incarnation, s.seq))
		t.Delete(records.EntryTime.Key(b.Incarnation, records.TimeOf(s.Created), s.seq))
		b.Entries--
		if s.isChat() {
			b.Chat--
		}
		removed = append(removed, s)
	}
	if err := unindex(t, gone); err != nil {
		return 0, err
	}
	return len(removed), svc.withdraw(t, b, removed)
}

// unindex takes numbers out of postings.
func unindex(t *records.Tx, gone map[string][]uint64) error {
	var q store.Query
	for key := range gone {
		q.Keys = append(q.Keys, []byte(key))
	}
	r, err := t.DB.Store.Read(t.Ctx, t.Tenant, q)
	if err != nil {
		return err
	}
	for _, it := range r.Keys {
		p, ok := decodePostings(it.Value)
		if !ok || it.Damaged {
			return records.ErrDamaged
		}
		for _, seq := range gone[string(it.Key)] {
			p.clear(seq)
		}
		if p.count() == 0 {
			t.Delete(it.Key)
		} else {
			t.Put(it.Key, p.encode())
		}
	}
	return nil
}

// withdraw deletes the notifications that entries raised and counts them out of their inboxes.
func (svc *Service) withdraw(t *records.Tx, b *Record, entries []*storedEntry) error {
	if !slices.ContainsFunc(entries, func(s *storedEntry) bool { return len(s.Notified) > 0 }) {
		return nil
	}
	agents, err := svc.agents(t.Ctx, t.Tenant, b)
	if err != nil {
		return err
	}
	of := map[ident.Incarnation]*agentRecord{}
	for _, a := range agents {
		of[a.Inbox] = a
	}
	changed := map[ident.Incarnation]*agentRecord{}
	for _, s := range entries {
		for _, n := range s.Notified {
			a := of[n.Inbox]
			if a == nil {
				continue // deleted with its inbox
			}
			t.Delete(records.Notice.Key(b.Incarnation, n.Inbox, n.Seq))
			changed[n.Inbox] = a
			a.Notices--
			if n.Seq > a.Acked {
				a.Unread--
			}
			if n.Kind == noticeMention {
				a.Mentions--
			}
		}
	}
	for _, a := range changed {
		if err := t.PutJSON(records.BoardAgent.Key(b.Incarnation, a.ID), a); err != nil {
			return err
		}
	}
	return nil
}

// schedule sets when retention looks at a board again; nil: never.
func schedule(t *records.Tx, b *Record, due *time.Time) {
	switch {
	case b.Due != nil && due != nil && due.Equal(*b.Due):
		return
	case b.Due != nil:
		t.Delete(records.BoardDueJob.Key(*b.Due, b.ID))
	}
	if b.Due = due; due != nil {
		t.Put(records.BoardDueJob.Key(*due, b.ID), []byte{0})
	}
}

// expire removes a chunk of what is past a board's retention. With the last one it is scheduled for when the next
// entry will be.
func (svc *Service) expire(ctx context.Context, tenant string, job []byte) error {
	id := dueID(job)
	_, err := change(ctx, svc, access.Caller{Tenant: tenant}, access.Once{}, id, false, func(t *records.Tx, b *Record) (int, error) {
		if b.RetentionDays == nil || b.Due == nil || string(records.BoardDueJob.Key(*b.Due, id)) != string(job) {
			t.Delete(job)
			return 0, nil
		}
		until := t.Now.AddDate(0, 0, -*b.RetentionDays)
		n, err := svc.purge(t, b, &Filter{Until: &until}, b.Last)
		if err != nil || n > 0 {
			return n, err
		}
		return 0, scheduleNext(t, b)
	})
	switch gone := (*fault.Error)(nil); {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.As(err, &gone) && gone.Kind == fault.NotFound:
		return svc.db.Commit(ctx, tenant, store.Batch{Delete: [][]byte{job}})
	}
	// What keeps one board from being cleaned is not to keep the tenant's other work from being done.
	svc.db.Log.Error("retention of a board failed; it is tried again later", "tenant", tenant, "board", id, "error", err)
	_, err = change(ctx, svc, access.Caller{Tenant: tenant}, access.Once{}, id, false, func(t *records.Tx, b *Record) (struct{}, error) {
		due := t.Now.Add(retentionPause)
		schedule(t, b, &due)
		return struct{}{}, nil
	})
	return err
}

// scheduleNext sets a board's next look to when its oldest entry is past its time.
func scheduleNext(t *records.Tx, b *Record) error {
	oldest, err := t.DB.FirstKey(t.Ctx, t.Tenant, records.EntryTime.Under(b.Incarnation))
	if err != nil {
		return err
	}
	at := t.Now
	if oldest != nil {
		at = entryTimeAt(oldest.Key)
	}
	// Until is not included: the oldest is past its time a millisecond after its days are over.
	due := at.AddDate(0, 0, *b.RetentionDays).Add(time.Millisecond)
	if soonest := t.Now.Add(retentionPause); due.Before(soonest) {
		due = soonest
	}
	schedule(t, b, &due)
	return nil
}
