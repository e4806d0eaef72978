package index

// This part of the package remembers, from one fold of an index to the next, the last block of each term. A fold mostly adds
// behind them, and to look for them in the store costs more than all else of it, because a database passes the earlier
// versions of a block one by one.

import (
	"bytes"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// room bounds what is remembered, in bytes of terms, keys and blocks.
	room = 10 << 20
	// overhead is what a tail costs besides these.
	overhead = 128
)

// Kept is what the latest fold of any index in the process left. The zero value is empty. Safe for concurrent use.
type Kept struct{ latest atomic.Pointer[Tails] }

// Tails are the last blocks of an index's terms in one state of the index. They belong to one fold at a time.
type Tails struct {
	state string
	of    map[string]Tail
	size  int
}

// Tail is the last of a term's blocks that begin in a stream or before it, the zero Item where there is none.
type Tail struct {
	Stream uint64
	store.Item
}

// Take gives what the latest fold left, if it left it of this state, and else none.
func (k *Kept) Take(state string) *Tails {
	if t := k.latest.Swap(nil); t != nil && t.state == state {
		return t
	}
	return &Tails{of: map[string]Tail{}}
}

// Leave leaves to the next fold what this one took, with the tails that it has changed, as those of the state that it
// has made. It is called once that is stored.
func (k *Kept) Leave(t *Tails, state string, changed map[string]Tail) {
	for term, tail := range changed {
		// What was read shares its memory with all that the same read gave.
		tail.Key, tail.Value = bytes.Clone(tail.Key), bytes.Clone(tail.Value)
		if before, known := t.of[term]; known {
			t.size -= cost(term, before)
		}
		t.of[term] = tail
		t.size += cost(term, tail)
	}
	if t.size > room {
		clear(t.of)
		t.size = 0
	}
	t.state = state
	k.latest.Store(t)
}

func cost(term string, t Tail) int { return len(term) + len(t.Key) + len(t.Value) + overhead }

// Find gives a term's tail in a stream, if it is remembered.
func (t *Tails) Find(term string, stream uint64) (block store.Item, known bool) {
	tail, known := t.of[term]
	return tail.Item, known && tail.Stream == stream
}
