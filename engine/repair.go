package engine

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// closeAtOnce bounds how many records one commit of CloseNumbered changes.
const closeAtOnce = 200

// CloseNumbered closes every session and board of a sealed store, and tells how many there are. It is for a store that
// lost acknowledged commits: what these added cannot be known, so that the next number of any session or board may have
// been given already. What is closed is read as before and takes no more.
func CloseNumbered(ctx context.Context, s store.Store) (sessions, boards int, err error) {
	type change struct {
		tenant string
		expect store.Expect
		put    store.Pair
	}
	var changes []change
	err = store.Snapshot(ctx, s, func(tenant string, it store.Item) error {
		kind := records.KindOf(tenant, it.Key)
		if it.Damaged || kind != records.Session && kind != records.Board {
			return nil
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(it.Value, &fields) != nil {
			return nil // Whoever asks for it is told that it is damaged, and nothing can be added to it.
		}
		fields["closed"] = json.RawMessage("true")
		value, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		if kind == records.Session {
			sessions++
		} else {
			boards++
		}
		key := append([]byte(nil), it.Key...)
		changes = append(changes, change{tenant, store.Expect{Key: key, Value: append([]byte(nil), it.Value...)},
			store.Pair{Key: key, Value: value}})
		return nil
	})
	for len(changes) > 0 && err == nil {
		var b store.Batch
		tenant := changes[0].tenant
		for len(changes) > 0 && changes[0].tenant == tenant && len(b.Put) < closeAtOnce {
			b.Expect = append(b.Expect, changes[0].expect)
			b.Put = append(b.Put, changes[0].put)
			changes = changes[1:]
		}
		err = s.Commit(ctx, tenant, b)
	}
	return sessions, boards, err
}
