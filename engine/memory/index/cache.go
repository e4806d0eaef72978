package index

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"

	"github.com/seed-0906e6bc/mneme/engine/lru"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// A query reads what earlier queries read from memory: the blocks of terms, documents in blocks, and the terms that begin
// with a letter. What is cached belongs to one state of a space, and every change of its blocks makes another state (see
// stateName). A query looks first, and then reads the state together with everything that is not cached. If the state
// is another one, it reads everything again. So it never mixes states, whoever changed the space: this process or
// another server. What this process itself changes leaves the rest of the cache valid.

// Limits of the cache, in bytes: of what is cached of all spaces, and of the states that it belongs to.
const (
	cacheBytes  = 128 << 20
	statesBytes = 4 << 20
)

// cache is the part of indexes that a process keeps in memory. It is safe for concurrent use.
type cache struct {
	states *lru.Map[*cachedState]
	parts  *lru.Map[any] // cachedTerm, *united, []byte of a document, *dictionary
	last   atomic.Uint64 // number given to a state
}

// cachedState is the state of a space that cached parts belong to. Its mutex is held while parts are looked up, added or
// removed.
type cachedState struct {
	sync.Mutex
	name   string
	number uint64 // the beginning of the parts' keys; two states have the same only if they have a common history
}

func newCache() *cache {
	return &cache{states: lru.New(statesBytes, func() *cachedState { return new(cachedState) }),
		parts: lru.New[any](cacheBytes, func() any { return nil })}
}

// stateName identifies a state of a space's blocks: every change of blocks increments the corpus's version, and if
// versions start again, the space has another generation or the store another history.
func stateName(history string, job, corpus []byte) string {
	generation := job[:min(len(job), 1+generationSize)] // without the progress of a rebuild
	return fmt.Sprintf("%q %q %q", history, generation, corpus)
}

// state returns the cached state of a space.
func (c *cache) state(tenant string, s Space) *cachedState {
	name := append(append([]byte(tenant), 0), s.jobKey()...)
	cell := c.states.Cell(string(name))
	cell.Lock()
	defer cell.Unlock()
	return cell.Value
}

// current returns the name of the state.
func (s *cachedState) current() string {
	s.Lock()
	defer s.Unlock()
	return s.name
}

// become makes a state another one, to which nothing belongs yet.
func (c *cache) become(s *cachedState, name string) {
	s.Lock()
	defer s.Unlock()
	if s.name != name {
		s.name, s.number = name, c.last.Add(1)
	}
}

// The kinds of parts, which follow the number of the state in their keys.
const (
	blocksPart     = 'b' // then the term
	documentPart   = 'd' // then the place
	unitedPart     = 'u' // then several terms, which tell themselves whether it is of their blocks
	dictionaryPart = 't' // then a letter
)

// appendKey appends the key of a part.
func (s *cachedState) appendKey(b []byte, kind byte, of []byte) []byte {
	return append(append(binary.BigEndian.AppendUint64(b, s.number), kind), of...)
}

func (s *cachedState) key(kind byte, of []byte) string { return string(s.appendKey(nil, kind, of)) }

// look calls found with the parts that belong to the named state. names are the keys without the state.
func (c *cache) look(s *cachedState, name string, kind byte, names [][]byte, found func(i int, part any)) {
	s.Lock()
	defer s.Unlock()
	if s.name != name || name == "" {
		return
	}
	var room [128]byte
	for i, n := range names {
		if part, ok := c.parts.Get(s.appendKey(room[:0], kind, n)); ok {
			found(i, part)
		}
	}
}

// keep caches a part, if the state is still the named one.
func (c *cache) keep(s *cachedState, name string, kind byte, of []byte, part any, size int) {
	s.Lock()
	defer s.Unlock()
	if s.name == name && name != "" {
		c.parts.Put(s.key(kind, of), part, size)
	}
}

// addBlocks caches blocks of a term, if the state is still the named one.
func (c *cache) addBlocks(s *cachedState, name, term string, more cachedTerm) {
	s.Lock()
	defer s.Unlock()
	if s.name != name || name == "" {
		return
	}
	key := s.appendKey(nil, blocksPart, []byte(term))
	if part, ok := c.parts.Get(key); ok {
		all := maps.Clone(part.(cachedTerm))
		maps.Copy(all, more)
		more = all
	}
	c.parts.Put(string(key), more, more.size())
}

// grow counts the size of a term again, because some of its blocks were decoded.
func (c *cache) grow(s *cachedState, name string, b termBlocks) {
	c.look(s, name, blocksPart, [][]byte{[]byte(b.term)}, func(_ int, part any) {
		c.parts.Put(s.key(blocksPart, []byte(b.term)), part, part.(cachedTerm).size())
	})
}

// advance records that this process changed the space from one state to another, in which the blocks of these terms and
// the documents at these places are different.
func (c *cache) advance(s *cachedState, from, to string, terms []string, places []rank.Place) {
	s.Lock()
	defer s.Unlock()
	if s.name != from || from == "" {
		return
	}
	s.name = to
	letters := map[string][]string{}
	for _, term := range terms {
		c.parts.Remove(s.key(blocksPart, []byte(term)))
		letters[firstLetter(term)] = append(letters[firstLetter(term)], term)
	}
	for _, at := range places {
		c.parts.Remove(s.key(documentPart, appendPlace(nil, at)))
	}
	for letter, more := range letters {
		key := s.appendKey(nil, dictionaryPart, []byte(letter))
		if d, ok := c.parts.Get(key); ok {
			with := d.(*dictionary).with(more)
			c.parts.Put(string(key), with, with.size())
		}
	}
}

// subset is some of a term's blocks: all, or those that may hold postings of a namespace.
type subset struct {
	all       bool
	namespace uint64
}

// termBlocks are some of a term's blocks.
type termBlocks struct {
	term    string
	items   []store.Item
	decoded *atomic.Pointer[postings] // of the items, once they are; nil if they are not cached
}

// first returns the first block.
func (b termBlocks) first() termBlocks {
	return termBlocks{term: b.term, items: b.items[:min(len(b.items), 1)]}
}

// cachedTerm is the cached blocks of a term by subset. It is never changed.
type cachedTerm map[subset]termBlocks

const postingSize = int(unsafe.Sizeof(rank.Posting{}))

// size returns the size of a cached term in bytes.
func (t cachedTerm) size() (n int) {
	for _, b := range t {
		for _, it := range b.items {
			n += len(it.Key) + len(it.Value) + itemSize
		}
		if p := b.decoded.Load(); p != nil {
			n += len(p.list) * postingSize
		}
	}
	return n
}

func firstLetter(term string) string {
	_, size := utf8.DecodeRuneInString(term)
	return term[:size]
}

// appendPlace appends a place as it ends keys.
func appendPlace(b []byte, at rank.Place) []byte {
	b = binary.BigEndian.AppendUint64(b, at.Namespace)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, at.Stream), at.Pos)
}

// dictionary is the terms in blocks that begin with a letter, sorted. It may have terms whose last block is gone.
type dictionary struct {
	terms []string
	whole bool // otherwise there are more terms after the last one
}

// with returns a dictionary with more terms. Terms after the last one of an incomplete dictionary are left out.
func (d *dictionary) with(more []string) *dictionary {
	all := slices.Clone(d.terms)
	for _, term := range more {
		all = append(all, strings.Clone(term)) // It may be part of a document.
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if !d.whole && len(d.terms) > 0 {
		at, _ := slices.BinarySearch(all, d.terms[len(d.terms)-1])
		all = all[:at+1]
	}
	return &dictionary{terms: all, whole: d.whole}
}

func (d *dictionary) size() (n int) {
	for _, term := range d.terms {
		n += len(term) + 16
	}
	return n
}

// beginning returns the terms with a prefix, and whether these are all.
func (d *dictionary) beginning(prefix string) (terms []string, all bool) {
	from, _ := slices.BinarySearch(d.terms, prefix)
	to := from
	for to < len(d.terms) && strings.HasPrefix(d.terms[to], prefix) {
		to++
	}
	return d.terms[from:to], d.whole || to < len(d.terms)
}

// ownItems returns a copy of items that shares no memory with anything else.
func ownItems(items []store.Item) []store.Item {
	size := 0
	for _, it := range items {
		size += len(it.Key) + len(it.Value)
	}
	all := make([]byte, 0, size)
	copied := func(b []byte) []byte {
		all = append(all, b...)
		return all[len(all)-len(b) : len(all) : len(all)]
	}
	out := make([]store.Item, len(items))
	for i, it := range items {
		out[i] = store.Item{Key: copied(it.Key), Value: copied(it.Value)}
	}
	return out
}

// itemSize is the size of an item besides its key and value, in bytes.
const itemSize = 56
