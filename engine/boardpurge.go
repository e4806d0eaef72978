package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// purgeEntries, purgeTerms and purgeBytes bound what one commit removes of a board.
	purgeEntries = 128
	purgeTerms   = 6000
	purgeBytes   = 4 << 20
	// retentionPause is the least time between two looks for what is past a board's retention.
	retentionPause = time.Hour
)

// PurgeBoard deletes entries by age, with the notifications that they raised. What is written while it runs stays.
// It works in steps: where it fails halfway, the rest is still there and may be asked for again.
func (e *Engine) PurgeBoard(ctx context.Context, c Caller, id string, p BoardPurge) (BoardPurged, error) {
	out := BoardPurged{OlderThanDays: p.OlderThanDays}
	if p.OlderThanDays < 0 || p.OlderThanDays > maxRetentionDays {
		return out, invalidField("older_than_days", "out_of_range", "must be from 0 to %d", maxRetentionDays)
	}
	b, err := e.readBoard(ctx, c, id)
	if err != nil {
		return out, err
	}
	f, last := BoardFilter{IsChat: p.IsChat}, b.Last
	if p.OlderThanDays > 0 {
		until := e.now().AddDate(0, 0, -p.OlderThanDays)
		f.Until = &until
	}
	for first := true; ; first = false {
		n, err := changeBoard(ctx, e, c, Once{}, id, false, func(t *tx, b *board) (int, error) {
			if first {
				kinds := "all"
				if p.IsChat != nil {
					kinds = fmt.Sprintf("is_chat=%t", *p.IsChat)
				}
				if err := t.audit(c, "board.purge", id, fmt.Sprintf("older than %d days, %s", p.OlderThanDays, kinds)); err != nil {
					return 0, err
				}
			}
			return t.purge(b, &f, last)
		})
		out.DeletedEntries += n
		if err != nil || n == 0 {
			return out, err
		}
	}
}

// purge collects the writes that remove the oldest entries up to a number that a filter chooses, as many as one
// commit takes, and tells how many.
func (t *tx) purge(b *board, f *BoardFilter, last uint64) (int, error) {
	s, err := t.e.choose(t.ctx, t.tenant, b, f)
	if err != nil {
		return 0, err
	}
	s.last, s.counted = min(s.last, last), true // the count is not asked for
	seqs, _, err := s.page(t.ctx, t.e, t.tenant, b, true, 0, purgeEntries)
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	entries, err := t.e.readEntries(t.ctx, t.tenant, b, seqs, purgeBytes, true)
	if err != nil {
		return 0, err
	}
	return t.remove(b, entries)
}

// remove collects the writes that take entries off their board: their records, what they are found by, and the
// notifications that they raised. It takes as many as one commit can. A damaged one stays, until its board goes: what
// it is found by is not known.
func (t *tx) remove(b *board, entries []*storedEntry) (int, error) {
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
			key := string(kindPostings.Key(b.Incarnation, term, s.seq/blockSize))
			gone[key] = append(gone[key], s.seq)
		}
		t.delete(kindEntry.Key(b.Incarnation, s.seq))
		t.delete(kindEntryTime.Key(b.Incarnation, timeOf(s.Created), s.seq))
		b.Entries--
		if s.isChat() {
			b.Chat--
		}
		removed = append(removed, s)
	}
	if err := t.unindex(gone); err != nil {
		return 0, err
	}
	return len(removed), t.withdraw(b, removed)
}

// unindex takes numbers out of postings.
func (t *tx) unindex(gone map[string][]uint64) error {
	var q store.Query
	for key := range gone {
		q.Keys = append(q.Keys, []byte(key))
	}
	r, err := t.e.store.Read(t.ctx, t.tenant, q)
	if err != nil {
		return err
	}
	for _, it := range r.Keys {
		p, ok := decodePostings(it.Value)
		if !ok || it.Damaged {
			return errDamaged
		}
		for _, seq := range gone[string(it.Key)] {
			p.clear(seq)
		}
		if p.count() == 0 {
			t.delete(it.Key)
		} else {
			t.put(it.Key, p.encode())
		}
	}
	return nil
}

// withdraw deletes the notifications that entries raised and counts them out of their inboxes.
func (t *tx) withdraw(b *board, entries []*storedEntry) error {
	if !slices.ContainsFunc(entries, func(s *storedEntry) bool { return len(s.Notified) > 0 }) {
		return nil
	}
	agents, err := t.e.boardAgents(t.ctx, t.tenant, b)
	if err != nil {
		return err
	}
	of := map[incarnation]*agentRecord{}
	for _, a := range agents {
		of[a.Inbox] = a
	}
	changed := map[incarnation]*agentRecord{}
	for _, s := range entries {
		for _, n := range s.Notified {
			a := of[n.Inbox]
			if a == nil {
				continue // deleted with its inbox
			}
			t.delete(kindNotice.Key(b.Incarnation, n.Inbox, n.Seq))
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
		if err := t.putJSON(kindBoardAgent.Key(b.Incarnation, a.ID), a); err != nil {
			return err
		}
	}
	return nil
}

// schedule sets when retention looks at a board again; nil: never.
func (t *tx) schedule(b *board, due *time.Time) {
	switch {
	case b.Due != nil && due != nil && due.Equal(*b.Due):
		return
	case b.Due != nil:
		t.delete(kindBoardDueJob.Key(*b.Due, b.ID))
	}
	if b.Due = due; due != nil {
		t.put(kindBoardDueJob.Key(*due, b.ID), []byte{0})
	}
}

// expireBoard removes a chunk of what is past a board's retention. With the last one it is scheduled for when the next
// entry will be.
func (e *Engine) expireBoard(ctx context.Context, tenant string, job []byte) error {
	id := dueBoardID(job)
	_, err := changeBoard(ctx, e, Caller{Tenant: tenant}, Once{}, id, false, func(t *tx, b *board) (int, error) {
		if b.RetentionDays == nil || b.Due == nil || string(kindBoardDueJob.Key(*b.Due, id)) != string(job) {
			t.delete(job)
			return 0, nil
		}
		until := t.now.AddDate(0, 0, -*b.RetentionDays)
		n, err := t.purge(b, &BoardFilter{Until: &until}, b.Last)
		if err != nil || n > 0 {
			return n, err
		}
		return 0, t.scheduleNext(b)
	})
	switch gone := (*Error)(nil); {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.As(err, &gone) && gone.Kind == NotFound:
		return e.commit(ctx, tenant, store.Batch{Delete: [][]byte{job}})
	}
	// What keeps one board from being cleaned is not to keep the tenant's other work from being done.
	e.log.Error("retention of a board failed; it is tried again later", "tenant", tenant, "board", id, "error", err)
	_, err = changeBoard(ctx, e, Caller{Tenant: tenant}, Once{}, id, false, func(t *tx, b *board) (struct{}, error) {
		due := t.now.Add(retentionPause)
		t.schedule(b, &due)
		return struct{}{}, nil
	})
	return err
}

// scheduleNext sets a board's next look to when its oldest entry is past its time.
func (t *tx) scheduleNext(b *board) error {
	oldest, err := t.e.firstKey(t.ctx, t.tenant, kindEntryTime.Under(b.Incarnation))
	if err != nil {
		return err
	}
	at := t.now
	if oldest != nil {
		at = entryTimeAt(oldest.Key)
	}
	// Until is not included: the oldest is past its time a millisecond after its days are over.
	due := at.AddDate(0, 0, *b.RetentionDays).Add(time.Millisecond)
	if soonest := t.now.Add(retentionPause); due.Before(soonest) {
		due = soonest
	}
	t.schedule(b, &due)
	return nil
}
