package index

// This file caches the last block of each term from one fold of an index to the next. A fold mostly adds after these
// blocks, and finding them in the store costs more than the rest of the fold, because a database skips the earlier
// versions of a block one by one.

import (
	"bytes"
	"strings"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// room limits the cache, in bytes of terms, keys and blocks, while folds follow one another. Once there is nothing more
	// to fold, only a cache of restRoom bytes is kept.
	room     = 64 << 20
	restRoom = 10 << 20
	// overhead is the additional cost of a tail.
	overhead = 128
)

// Kept holds the tails left by the latest fold of any index in the process. The zero value is empty. It is safe for
// concurrent use.
type Kept struct{ latest atomic.Pointer[Tails] }

// Tails are the last blocks of an index's terms in one state of the index. Only one fold at a time uses them.
type Tails struct {
	state string
	of    map[string]Tail
	size  int
}

// Tail is the last of a term's blocks that begin in a stream or before it, or the zero Item if there is none.
type Tail struct {
	Stream records.Stream
	store.Item
}

// Take returns the tails left by the latest fold, if they belong to this state, and otherwise empty ones.
func (k *Kept) Take(state string) *Tails {
	if t := k.latest.Swap(nil); t != nil && t.state == state {
		return t
	}
	return &Tails{of: map[string]Tail{}}
}

// Leave leaves the tails that a fold took to the next one, with the changed tails, for the state that the fold has
// made. It is called once that state is stored.
func (k *Kept) Leave(t *Tails, state string, changed map[string]Tail) {
	for term, tail := range changed {
		// The data that was read shares memory with everything from the same read, and a term shares memory with those
		// of its document.
		tail.Key, tail.Value = bytes.Clone(tail.Key), bytes.Clone(tail.Value)
		if before, known := t.of[term]; known {
			t.size -= cost(term, before)
		}
		t.of[strings.Clone(term)] = tail
		t.size += cost(term, tail)
	}
	if t.size > room {
		clear(t.of)
		t.size = 0
	}
	t.state = state
	k.latest.Store(t)
}

// Rest drops the tails left by the latest fold if they are many.
func (k *Kept) Rest() {
	if t := k.latest.Load(); t != nil && t.size > restRoom {
		k.latest.CompareAndSwap(t, nil)
	}
}

func cost(term string, t Tail) int { return len(term) + len(t.Key) + len(t.Value) + overhead }

// Find returns a term's tail in a stream, if it is cached.
func (t *Tails) Find(term string, stream records.Stream) (block store.Item, known bool) {
	tail, known := t.of[term]
	return tail.Item, known && tail.Stream == stream
}
