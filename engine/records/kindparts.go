package records

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// Sep ends a name inside a key. No name holds a zero byte.
const Sep = 0

// keyPart is a part of a key without its type.
type keyPart struct {
	name string
	end  string                   // bytes that follow the part in every key
	size func(key []byte) (n int) // how much of the key's rest the part takes; negative where it is no such part
}

// skip takes the part off the start of a key's rest.
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

// room is how many bytes the part takes in a key.
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

// Numbers are big-endian, so that keys sort by them.

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
	p := fixed(name, 1, func(key []byte, v byte) []byte { return append(key, v) }, func(b []byte) byte { return b[0] })
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

// array is a hash or random bytes.
func array[T [8]byte | [14]byte | [16]byte | [32]byte](name string) part[T] {
	n := len(*new(T))
	return fixed(fmt.Sprintf("%s:%d", name, n), n,
		func(key []byte, v T) []byte {
			for i := range n {
				key = append(key, v[i])
			}
			return key
		},
		func(b []byte) (v T) {
			for i := range n {
				v[i] = b[i]
			}
			return v
		})
}

// earliestFirst is a time in milliseconds.
func earliestFirst(name string) part[time.Time] {
	return fixed(name+":8", 8,
		func(key []byte, at time.Time) []byte {
			return binary.BigEndian.AppendUint64(key, uint64(at.UnixMilli()))
		},
		func(b []byte) time.Time { return TimeOf(int64(binary.BigEndian.Uint64(b))) })
}

// newestFirst is a time in milliseconds that counts downwards.
func newestFirst(name string) part[time.Time] {
	return fixed("-"+name+":8", 8,
		func(key []byte, at time.Time) []byte {
			return binary.BigEndian.AppendUint64(key, ^uint64(at.UnixMilli()))
		},
		func(b []byte) time.Time { return TimeOf(int64(^binary.BigEndian.Uint64(b))) })
}

// id is a client's id with Sep behind it.
func id(name string) part[string] { return ended(name, ident.ValidID) }

// fullName is a client's id with its namespace, and Sep behind it.
func fullName(name string) part[string] { return ended(name, ident.ValidFullName) }

// term is a term of an index with Sep behind it.
func term(name string) part[string] { return ended(name, nil) }

// ended is a text with Sep behind it, which valid judges where it is not nil.
func ended(name string, valid func(string) bool) part[string] {
	return part[string]{
		keyPart{name: name, size: func(key []byte) int {
			n := bytes.IndexByte(key, Sep)
			if n < 1 || valid != nil && !valid(string(key[:n])) {
				return -1
			}
			return n + 1
		}},
		func(v string) int { return len(v) + 1 },
		func(key []byte, v string) []byte { return append(append(key, v...), Sep) },
		func(b []byte) string { return string(b[:len(b)-1]) }}
}

// lastID is a client's id that ends the key.
func lastID(name string) part[string] { return ending(name, ident.ValidID) }

// lastFullName is a client's id with its namespace. It ends the key.
func lastFullName(name string) part[string] { return ending(name, ident.ValidFullName) }

// anything is any text but the empty one. It ends the key.
func anything(name string) part[string] { return ending(name, nil) }

// ending is a text that ends the key, which valid judges where it is not nil.
func ending(name string, valid func(string) bool) part[string] {
	return part[string]{
		keyPart{name: name, size: func(key []byte) int {
			if len(key) == 0 || valid != nil && !valid(string(key)) {
				return -1
			}
			return len(key)
		}},
		func(v string) int { return len(v) },
		func(key []byte, v string) []byte { return append(key, v...) },
		func(b []byte) string { return string(b) }}
}

// lastKey is another record's key, which ends the key and is never empty.
func lastKey(name string) part[[]byte] {
	return part[[]byte]{
		keyPart{name: name, size: func(key []byte) int { return max(len(key), 1) }},
		func(v []byte) int { return len(v) },
		func(key, v []byte) []byte { return append(key, v...) },
		func(b []byte) []byte { return b }}
}
