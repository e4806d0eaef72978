package tokens

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
)

// Memo caches the cost of lists of tools: an agent sends the same list with each request, and counting it takes longer
// than the rest of a window. The zero value is ready to use and safe for concurrent use.
type Memo struct {
	mu     sync.RWMutex
	counts map[memoKey]int
}

type memoKey struct {
	sum    [sha256.Size]byte
	cl100k bool
}

// memoSize is the maximum number of cached lists. When it is full, the memo starts again.
const memoSize = 1024

// Tools is the function Tools, cached. ended reports whether counting was interrupted; the result is then not cached.
func (m *Memo) Tools(list []json.RawMessage, cl100k bool, count func(string) int, ended func() bool) (int, error) {
	if len(list) > MaxTools || bytesOf(list) > MaxToolBytes {
		return Tools(list, cl100k, count)
	}
	sum := sha256.New()
	for _, entry := range list {
		_, _ = sum.Write(entry)
		_, _ = sum.Write([]byte{0}) // never part of JSON
	}
	key := memoKey{[sha256.Size]byte(sum.Sum(nil)), cl100k}
	m.mu.RLock()
	tokens, ok := m.counts[key]
	m.mu.RUnlock()
	if ok {
		return tokens, nil
	}
	tokens, err := Tools(list, cl100k, count)
	if err != nil || ended() {
		return tokens, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil || len(m.counts) >= memoSize {
		m.counts = map[memoKey]int{}
	}
	m.counts[key] = tokens
	return tokens, nil
}
