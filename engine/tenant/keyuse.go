package tenant

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// useFlush is the minimum time between two writes of a key's last use. A use that was not written yet is lost with the
// process.
const useFlush = time.Minute

// keyUses records when keys were last used. The zero value is ready to use.
type keyUses struct {
	mu   sync.Mutex
	last map[string]keyUse // by tenant/key
}

type keyUse struct{ used, written int64 } // ms since 1970

// note records a use and reports whether it should be written now.
func (u *keyUses) note(name string, now int64) (write bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	use, ok := u.last[name]
	if !ok && len(u.last) >= records.MemoSize || u.last == nil {
		u.last = make(map[string]keyUse) // each key's use is then written again at its next use
	}
	use.used = max(use.used, now)
	if write = now-use.written >= useFlush.Milliseconds(); write {
		use.written = now
	}
	u.last[name] = use
	return write
}

func (u *keyUses) of(name string) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last[name].used
}

// noteUse records that a key was used. If writing fails, it only logs the error: that is no reason to refuse the
// request.
func (svc *Service) noteUse(ctx context.Context, tenant, id string, now time.Time) {
	if !svc.keyUses.note(ident.Join(tenant, id), now.UnixMilli()) {
		return
	}
	value := binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli()))
	err := svc.db.Commit(ctx, tenant, store.Batch{Put: []store.Pair{{Key: records.KeyUse.Key(id), Value: value}}})
	if err != nil {
		svc.db.Log.Warn("the last use of a key was not written", "tenant", tenant, "key", id, "error", err)
	}
}

// fillUses sets LastUsedAt of each key, including uses that this process has not written yet.
func (svc *Service) fillUses(ctx context.Context, tenant string, keys []Key) error {
	if len(keys) == 0 {
		return nil
	}
	names := make([][]byte, len(keys))
	for i := range keys {
		names[i] = records.KeyUse.Key(keys[i].ID)
	}
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: names})
	if err != nil {
		return err
	}
	for i := range keys {
		last := svc.keyUses.of(ident.Join(tenant, keys[i].ID))
		if v := r.Keys[i].Value; len(v) == 8 {
			last = max(last, int64(binary.BigEndian.Uint64(v)))
		}
		if last > 0 {
			at := records.TimeOf(last)
			keys[i].LastUsedAt = &at
		}
	}
	return nil
}
