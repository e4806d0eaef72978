package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"
)

// memoSize bounds the decoded records that one memo remembers.
const memoSize = 4096

// memo spares decoding a record that is read for every request: it remembers values by the exact bytes they came
// from, so it can never be stale. Callers must not change what they get. The zero value is ready.
type memo[T any] struct {
	mu   sync.RWMutex
	last map[string]memoEntry[T]
}

type memoEntry[T any] struct {
	raw   []byte
	value *T
}

// decode gives the value of a record's JSON. name is only where to look for an earlier decoding.
func (m *memo[T]) decode(name string, raw []byte) (*T, error) {
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.last) >= memoSize || m.last == nil {
		m.last = make(map[string]memoEntry[T])
	}
	m.last[name] = memoEntry[T]{raw, value}
	return value, nil
}

// get reads one record, nil where there is none. name is as in decode.
func (m *memo[T]) get(ctx context.Context, e *Engine, tenant, name string, key []byte) (*T, error) {
	it, err := e.readItem(ctx, tenant, key)
	if err != nil || it.Value == nil {
		if it.Damaged {
			err = damaged(tenant, key)
		}
		return nil, err
	}
	return m.decode(name, it.Value)
}

// peek gives the latest value under a name, which may be stale: good for a guess that is checked later.
func (m *memo[T]) peek(name string) *T {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.last[name].value
}

// known remembers keys that this process has written, so that it need not write them again. The zero value is ready.
type known struct {
	mu   sync.Mutex
	keys map[string]time.Time // when it is to be written once more; zero: never
}

func (k *known) has(key string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	again, ok := k.keys[key]
	return ok && (again.IsZero() || now.Before(again))
}

// add notes that a key was written, which, the first time, is to be done again at a time.
func (k *known) add(key string, again time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil || len(k.keys) >= memoSize {
		k.keys = map[string]time.Time{}
	}
	if _, ok := k.keys[key]; ok {
		again = time.Time{}
	}
	k.keys[key] = again
}
