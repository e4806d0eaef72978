package records

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
)

// MemoSize bounds what one memo remembers, in decoded records.
const MemoSize = 4096

// Memo spares decoding a record that is read for every request. It remembers values by the exact bytes that they came
// from, so that it never answers an old one. Callers must not change what they get. The zero value is ready.
type Memo[T any] struct {
	mu   sync.RWMutex
	last map[string]memoEntry[T]
}

type memoEntry[T any] struct {
	raw   []byte
	value *T
}

// Decode gives the value of a record's JSON. name says under what an earlier value is remembered: one that tells the
// record apart from others of the memo.
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

// Note remembers what Decode would give for a record's JSON, for who has just written it. Neither may change any more.
func (m *Memo[T]) Note(name string, raw []byte, value *T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.last) >= MemoSize || m.last == nil {
		m.last = make(map[string]memoEntry[T])
	}
	m.last[name] = memoEntry[T]{raw, value}
}

// Get reads one record as the function Get does. name is as in Decode.
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

// Peek gives the latest value under a name, or nil. The store may hold another one by now, so that it is good for a
// guess that is checked later.
func (m *Memo[T]) Peek(name string) *T {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.last[name].value
}
