package engine

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// How many memories are indexed again in one commit, and about how many bytes of the index that may write.
const (
	reindexChunk = 64
	reindexBytes = 2 << 20
)

var categoriesOfIndex = map[string]rank.Category{categoryCore: rank.Core, categoryDaily: rank.Daily,
	categoryConversation: rank.Conversation}

// doc is the memory as the index knows it, but for its words.
func (r *memoryRecord) doc() rank.Document {
	d := rank.Document{ID: r.Key, Category: categoriesOfIndex[r.Category], Session: r.session(), Group: r.Source,
		Tags: r.Tags, Importance: r.Importance, Created: r.UpdatedAt}
	if r.ExpiresAt != nil {
		d.Expires = *r.ExpiresAt
	}
	return d
}

// indexMemories indexes some of a project's memories again, after its index was dropped: those that were changed
// longest ago first, because in a session they stand in that order. One that is damaged is left out, and one that was
// changed since the index was dropped is there already.
func (e *Engine) indexMemories(ctx context.Context, tenant string, pinc incarnation, after string) (
	next string, err error,
) {
	p, prefix := &project{Incarnation: pinc}, kindMemoryTime.Under(pinc).From
	rng := prefixRange(prefix)
	if after != "" {
		rng.To = append(prefix[:len(prefix):len(prefix)], after...)
	}
	rng.Reverse, rng.KeysOnly, rng.Limit = true, true, reindexChunk
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return "", err
	}
	return update(ctx, e, Caller{Tenant: tenant}, Once{}, func(t *tx) (last string, err error) {
		for _, it := range r.Ranges[0] {
			if t.bytes() > reindexBytes {
				break
			}
			last = string(it.Key[len(prefix):])
			_, key := splitMemoryTime(it.Key)
			there, err := t.hasDocument(pinc, key)
			if err != nil {
				return "", err
			}
			rec, err := t.memory(p, key)
			if isDamagedMemory(err) {
				continue
			}
			if err == nil && rec != nil && !there {
				err = t.putDocument(pinc, rec.doc(), rec.Content)
			}
			if err != nil {
				return "", err
			}
		}
		return last, nil
	})
}
