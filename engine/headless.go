package engine

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// deleteHeadless collects the writes that remove a session whose head is damaged. Which messages are its own was said by
// the head alone, so they are looked for later.
func (t *tx) deleteHeadless(p *project, session string) error {
	t.delete(kindSession.Key(p.Incarnation, session))
	t.delete(kindOpenCalls.Key(p.Incarnation, session))
	t.put(kindHeadlessJob.Key(p.Incarnation), []byte{0})
	return nil
}

// sweepHeadless finds the messages that belong to no session and has them swept, or leaves them to a later job where the
// head of another session is damaged: they may be that one's. What is written meanwhile is safe: a session's head, or
// the job of an import, is there before its messages are seen here.
func (e *Engine) sweepHeadless(ctx context.Context, tenant string, job store.Item) error {
	pinc, ok := kindHeadlessJob.Split(job.Key)
	if !ok {
		return errDamaged
	}
	orphans, err := e.messageOwners(ctx, tenant)
	if err != nil {
		return err
	}
	// Read jobs first: an import's last commit deletes its job and writes the head.
	for _, jobs := range []store.Range{kindSessionJob.All(), kindStagedSessionJob.All()} {
		for it, err := range e.scan(ctx, tenant, jobs) {
			if err != nil {
				return err
			}
			delete(orphans, incarnation(it.Key[len(it.Key)-8:]))
		}
	}
	damaged := false
	for it, err := range e.scan(ctx, tenant, kindSession.All()) {
		if err != nil {
			return err
		}
		var h head
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
		b.Put = append(b.Put, store.Pair{Key: kindSessionJob.Key(sinc), Value: pinc[:]})
		if len(b.Put) == sweepChunk { // the rest is found again
			b.Delete = nil
			break
		}
	}
	return e.commit(ctx, tenant, b)
}

// messageOwners are the incarnations that any messages are stored under.
func (e *Engine) messageOwners(ctx context.Context, tenant string) (map[incarnation]bool, error) {
	owners := map[incarnation]bool{}
	all := sessionRecords.All()
	for {
		first, err := e.firstKey(ctx, tenant, all)
		if err != nil || first == nil {
			return owners, err
		}
		sinc := incarnation(first.Key[2:])
		owners[sinc] = true
		all.From = sessionRecords.Under(sinc).To
	}
}
