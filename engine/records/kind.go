package records

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Sep ends a name inside a key, because no name holds a zero byte.
const Sep = 0

// SystemTenant holds what belongs to no tenant. No client may choose an id with a "!".
const SystemTenant = "!system"

// Where records of a kind may lie.
const (
	inTenant = iota
	inSystem
	inBoth
)

// A kind describes one sort of stored records: how a key is made of typed parts, where such a key may lie, and what is
// stored under it. Verify and docs/STORAGE.md follow from the kinds that kinds.go declares.
type kind struct {
	Name   string
	in     int
	prefix string
	length store.Length // what its values may be
	parts  []keyPart
	doc    string
}

// anyKind is a kind of any number of parts.
type anyKind interface {
	Base() *kind
	Is(key []byte) bool
}

// Kinds lists every kind in the order of its declaration.
var Kinds []anyKind

// declare puts a kind into the list. The parts are those of its key, in order.
func declare[K anyKind](k K, parts ...keyPart) K {
	k.Base().parts = parts
	Kinds = append(Kinds, k)
	return k
}

// system makes a kind lie in the system space; both makes it lie there and in the spaces of tenants.
func system[K anyKind](k K) K { k.Base().in = inSystem; return k }

func both[K anyKind](k K) K { k.Base().in = inBoth; return k }

// once says that the kind's values may be of any length and that none is ever put over another; rewritten, that one may be.
func once[K anyKind](k K) K { k.Base().length = store.Once; return k }

func rewritten[K anyKind](k K) K { k.Base().length = store.Rewritten; return k }

func (k *kind) Base() *kind { return k }

// liesIn tells whether the kind may lie in the space of a tenant.
func (k *kind) liesIn(tenant string) bool {
	return k.in == inBoth || k.in == inSystem == (tenant == SystemTenant)
}

// Is tells whether a key is of the kind.
func (k *kind) Is(key []byte) bool {
	rest, ok := k.cut(key)
	for i := range k.parts {
		if ok {
			rest, ok = k.parts[i].skip(rest)
		}
	}
	return ok && len(rest) == 0
}

// cut takes the prefix off a key.
func (k *kind) cut(key []byte) (rest []byte, ok bool) { return bytes.CutPrefix(key, []byte(k.prefix)) }

// All covers the kind's records, and those of other kinds whose keys go on where its prefix ends.
func (k *kind) All() store.Range { return PrefixRange([]byte(k.prefix)) }

// KindOf finds the kind of a key, or nil where there is none.
func KindOf(tenant string, key []byte) *kind {
	for _, k := range Kinds {
		if base := k.Base(); base.liesIn(tenant) && k.Is(key) {
			return base
		}
	}
	return nil
}

// lengths tells what the values of a key may be. It asks only the kinds of long values, by the first byte of their keys,
// because it is asked for every key that is written.
func lengths() func(key []byte) store.Length {
	var long [256][]anyKind
	for _, k := range Kinds {
		if base := k.Base(); base.length != store.Plain {
			long[base.prefix[0]] = append(long[base.prefix[0]], k)
		}
	}
	return func(key []byte) store.Length {
		if len(key) > 0 {
			for _, k := range long[key[0]] {
				if k.Is(key) {
					return k.Base().length
				}
			}
		}
		return store.Plain
	}
}

// maxPiece is the longest piece of a long value. It leaves room for the seal, so that every record can be copied as it lies.
const maxPiece = store.MaxValue - 64

// LongValues is a sealed store that takes values of any length under the keys of such kinds.
func LongValues(sealed store.Store) store.Store { return store.Long(sealed, lengths(), maxPiece) }

// keyPart is a part of a key without its type.
type keyPart struct {
	name string
	end  string                   // bytes that follow the part in every key
	size func(key []byte) (n int) // how much of the key's rest the part takes; negative where it is no such part
}

func (p *keyPart) skip(key []byte) (rest []byte, ok bool) {
	n := p.size(key)
	if n < 0 || n > len(key) {
		return nil, false
	}
	return bytes.CutPrefix(key[n:], []byte(p.end))
}

// part is a typed part of a key.
type part[T any] struct {
	keyPart
	len func(T) int
	put func(key []byte, v T) []byte
	get func(bytes []byte) T // of as many bytes as size said
}

// then puts a letter behind the part, which tells apart kinds of records that begin with the same parts.
func (p part[T]) then(end string) part[T] {
	p.end = end
	return p
}

func (p *part[T]) room(v T) int { return p.len(v) + len(p.end) }

func (p *part[T]) append(key []byte, v T) []byte { return append(p.put(key, v), p.end...) }

// take reads the part at the start of a key's rest.
func (p *part[T]) take(key []byte, into *T) (rest []byte, ok bool) {
	if rest, ok = p.skip(key); ok {
		*into = p.get(key[:len(key)-len(rest)-len(p.end)])
	}
	return rest, ok
}

// fixed is a part of n bytes.
func fixed[T any](name string, n int, put func([]byte, T) []byte, get func([]byte) T) part[T] {
	return part[T]{keyPart{name: name, size: func([]byte) int { return n }}, func(T) int { return n }, put, get}
}

// The parts of keys. Numbers are big-endian so that keys sort by them.

func u8(name string) part[byte] {
	return fixed(name+":1", 1, func(key []byte, v byte) []byte { return append(key, v) },
		func(b []byte) byte { return b[0] })
}

func u16(name string) part[uint16] {
	return fixed(name+":2", 2, binary.BigEndian.AppendUint16, binary.BigEndian.Uint16)
}

func u32(name string) part[uint32] {
	return fixed(name+":4", 4, binary.BigEndian.AppendUint32, binary.BigEndian.Uint32)
}

func u64(name string) part[uint64] {
	return fixed(name+":8", 8, binary.BigEndian.AppendUint64, binary.BigEndian.Uint64)
}

// oneOf is a byte among a few letters.
func oneOf(name, letters string) part[byte] {
	p := u8(name)
	p.name = name
	p.size = func(key []byte) int {
		if len(key) == 0 || strings.IndexByte(letters, key[0]) < 0 {
			return -1
		}
		return 1
	}
	return p
}

// inc is an incarnation.
func inc(name string) part[ident.Incarnation] {
	return fixed("<"+name+">", 8, func(key []byte, v ident.Incarnation) []byte { return append(key, v[:]...) },
		func(b []byte) ident.Incarnation { return ident.Incarnation(b) })
}

func bytes8(name string) part[[8]byte] {
	return fixed(name+":8", 8, func(key []byte, v [8]byte) []byte { return append(key, v[:]...) },
		func(b []byte) [8]byte { return [8]byte(b) })
}

func bytes14(name string) part[[14]byte] {
	return fixed(name+":14", 14, func(key []byte, v [14]byte) []byte { return append(key, v[:]...) },
		func(b []byte) [14]byte { return [14]byte(b) })
}

func bytes16(name string) part[[16]byte] {
	return fixed(name+":16", 16, func(key []byte, v [16]byte) []byte { return append(key, v[:]...) },
		func(b []byte) [16]byte { return [16]byte(b) })
}

func bytes32(name string) part[[32]byte] {
	return fixed(name+":32", 32, func(key []byte, v [32]byte) []byte { return append(key, v[:]...) },
		func(b []byte) [32]byte { return [32]byte(b) })
}

// earliestFirst is a time in milliseconds, so that the earliest comes first.
func earliestFirst(name string) part[time.Time] {
	return fixed(name+":8", 8,
		func(key []byte, at time.Time) []byte {
			return binary.BigEndian.AppendUint64(key, uint64(at.UnixMilli()))
		},
		func(b []byte) time.Time { return TimeOf(int64(binary.BigEndian.Uint64(b))) })
}

// newestFirst is a time in milliseconds that counts downwards, so that the newest comes first.
func newestFirst(name string) part[time.Time] {
	return fixed("-"+name+":8", 8,
		func(key []byte, at time.Time) []byte {
			return binary.BigEndian.AppendUint64(key, ^uint64(at.UnixMilli()))
		},
		func(b []byte) time.Time { return TimeOf(int64(^binary.BigEndian.Uint64(b))) })
}

// ended is a text with sep behind it, which holds no zero byte. An id is one that a client may choose.
func ended(name string, isID bool) part[string] {
	return part[string]{
		keyPart{name: name, size: func(key []byte) int {
			n := bytes.IndexByte(key, Sep)
			if n < 1 || isID && !ident.ValidID(string(key[:n])) {
				return -1
			}
			return n + 1
		}},
		func(v string) int { return len(v) + 1 },
		func(key []byte, v string) []byte { return append(append(key, v...), Sep) },
		func(b []byte) string { return string(b[:len(b)-1]) }}
}

// id is a client's id and sep; term is a term of an index and sep.
func id(name string) part[string]   { return ended(name, true) }
func term(name string) part[string] { return ended(name, false) }

// ending is a text that ends the key. An id is one that a client may choose.
func ending(name string, isID bool) part[string] {
	return part[string]{
		keyPart{name: name, size: func(key []byte) int {
			if len(key) == 0 || isID && !ident.ValidID(string(key)) {
				return -1
			}
			return len(key)
		}},
		func(v string) int { return len(v) },
		func(key []byte, v string) []byte { return append(key, v...) },
		func(b []byte) string { return string(b) }}
}

// lastID is a client's id that ends the key; anything is any text but the empty one.
func lastID(name string) part[string]   { return ending(name, true) }
func anything(name string) part[string] { return ending(name, false) }

// lastKey is another record's key, which ends the key.
func lastKey(name string) part[[]byte] {
	return part[[]byte]{
		keyPart{name: name, size: func(key []byte) int { return max(len(key), 1) }}, // an empty one is none
		func(v []byte) int { return len(v) },
		func(key, v []byte) []byte { return append(key, v...) },
		func(b []byte) []byte { return b }}
}

// PrefixRange covers all keys that begin with prefix.
func PrefixRange(prefix []byte) store.Range {
	return store.Range{From: prefix, To: prefixEnd(prefix)}
}

func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// TimeOf is a time that records keep in milliseconds since 1970.
func TimeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// Day numbers the days since 1970: decisions lie by day, so that retention removes whole ranges and a session's
// decisions are found with one range a day.
func Day(t time.Time) uint16 { return uint16(t.Unix() / 86400) }
