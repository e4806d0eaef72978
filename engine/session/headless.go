package session

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// deleteHeadless collects the writes that remove a session whose head is damaged. Which messages are its own was said by
// the head alone, so they are looked for later.
func deleteHeadless(t *records.Tx, p *project.Record, session string) error {
	t.Delete(records.Session.Key(p.Incarnation, session))
	t.Delete(records.OpenCalls.Key(p.Incarnation, session))
	t.Put(records.HeadlessJob.Key(p.Incarnation), []byte{0})
	return nil
}

// sweepHeadless finds the messages that belong to no session and has them swept, or leaves them to a later job where the
// head of another session is damaged: they may be that one's. What is written meanwhile is safe: a session's head, or
// the job of an import, is there before its messages are seen here.
func (svc *Service) sweepHeadless(ctx context.Context, tenant string, job store.Item) error {
	pinc, ok := records.HeadlessJob.Split(job.Key)
	if !ok {
		return records.ErrDamaged
	}
	orphans, err := svc.messageOwners(ctx, tenant)
	if err != nil {
		return err
	}
	// Read jobs first: an import's last commit deletes its job and writes the head.
	for _, jobs := range []store.Range{records.SessionJob.All(), records.StagedSessionJob.All()} {
		for it, err := range svc.db.Scan(ctx, tenant, jobs) {
			if err != nil {
				return err
			}
			delete(orphans, ident.Incarnation(it.Key[len(it.Key)-8:]))
		}
	}
	damaged := false
	for it, err := range svc.db.Scan(ctx, tenant, records.Session.All()) {
		if err != nil {
			return err
		}
		var h Head
		if it.Damaged || json.Unmarshal(it.Value, &h) != nil {
			damaged = true
		}
		delete(orphans, h.Incarnation)
	}
	b := store.Batch{Delete: [][]byte{job.Key}}
	for sinc := range orphans {
		if damaged {
			break
		}
		b.Put = append(b.Put, store.Pair{Key: records.SessionJob.Key(sinc), Value: pinc[:]})
		if len(b.Put) == records.SweepChunk { // the rest is found again
			b.Delete = nil
			break
		}
	}
	return svc.db.Commit(ctx, tenant, b)
}

// messageOwners are the incarnations that any messages are stored under.
func (svc *Service) messageOwners(ctx context.Context, tenant string) (map[ident.Incarnation]bool, error) {
	owners := map[ident.Incarnation]bool{}
	all := records.SessionRecords.All()
	for {
		first, err := svc.db.FirstKey(ctx, tenant, all)
		if err != nil || first == nil {
			return owners, err
		}
		sinc := ident.Incarnation(first.Key[2:])
		owners[sinc] = true
		all.From = records.SessionRecords.Under(sinc).To
	}
}
