package engine

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// How many memories are indexed again in one commit, and about how many bytes of the index that may write.
const (
	reindexChunk = 64
	reindexBytes = 2 << 20
)

var categoriesOfIndex = map[string]recall.Category{categoryCore: recall.Core, categoryDaily: recall.Daily,
	categoryConversation: recall.Conversation}

// doc is the memory as the index knows it, but for its words.
func (r *memoryRecord) doc() recall.Document {
	d := recall.Document{ID: r.Key, Category: categoriesOfIndex[r.Category], Session: r.session(), Group: r.Source, Tags: r.Tags,
		Importance: r.Importance, Created: r.UpdatedAt}
	if r.ExpiresAt != nil {
		d.Expires = *r.ExpiresAt
	}
	return d
}

// indexMemories indexes some of a project's memories again, after its index was dropped. One that is damaged is left out.
func (e *Engine) indexMemories(ctx context.Context, tenant string, pinc incarnation, after string) (next string, err error) {
	p := &project{Incarnation: pinc}
	rng := prefixRange(memoryPrefix('r', pinc))
	if after != "" {
		rng.From = prefixEnd(memoryParts(p, after))
	}
	rng.KeysOnly, rng.Limit = true, reindexChunk
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return "", err
	}
	return update(ctx, e, Caller{Tenant: tenant}, Once{}, func(t *tx) (last string, err error) {
		for _, it := range r.Ranges[0] {
			_, key, _ := splitMemoryKey(it.Key)
			if key == last {
				continue // another part of it
			}
			if t.bytes() > reindexBytes {
				break
			}
			last = key
			rec, err := t.memory(p, key)
			if isDamagedMemory(err) || err == nil && rec == nil {
				continue
			}
			if err != nil {
				return "", err
			}
			if err := t.putDocument(pinc, rec.doc(), rec.Content); err != nil {
				return "", err
			}
		}
		return last, nil
	})
}
