package records

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
)

// MemoSize is the maximum number of decoded records in one memo.
const MemoSize = 4096

// Memo caches the decoded form of records that are read for every request. It caches values by the exact bytes of the
// record, so it never returns an outdated one. Callers must not change the values. The zero value is ready to use.
type Memo[T any] struct {
	mu   sync.RWMutex
	last map[string]memoEntry[T]
}

type memoEntry[T any] struct {
	raw   []byte
	value *T
}

// Decode returns the value of a record's JSON. name is the cache key: it must distinguish the record from others in
// the memo.
func (m *Memo[T]) Decode(name string, raw []byte) (*T, error) {
	m.mu.RLock()
	prior, ok := m.last[name]
	m.mu.RUnlock()
	if ok && bytes.Equal(prior.raw, raw) {
		return prior.value, nil
	}
	value := new(T)
	if err := json.Unmarshal(raw, value); err != nil {
		return nil, err
	}
	m.Note(name, raw, value)
	return value, nil
}

// Note caches the value that Decode would return for a record's JSON, for callers that have just written it. Neither
// may change afterwards.
func (m *Memo[T]) Note(name string, raw []byte, value *T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.last) >= MemoSize || m.last == nil {
		m.last = make(map[string]memoEntry[T])
	}
	m.last[name] = memoEntry[T]{raw, value}
}

// Get reads one record like the function Get. name is as in Decode.
func (m *Memo[T]) Get(ctx context.Context, db *DB, tenant, name string, key []byte) (*T, error) {
	it, err := db.ReadItem(ctx, tenant, key)
	if err != nil || it.Value == nil {
		if it.Damaged {
			err = damaged(tenant, key)
		}
		return nil, err
	}
	return m.Decode(name, it.Value)
}

// Peek returns the latest value under a name, or nil. The store may hold another one by now, so use it only as a
// guess that is checked later.
func (m *Memo[T]) Peek(name string) *T {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.last[name].value
}
