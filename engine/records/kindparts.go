package records

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// Sep ends a name inside a key. No name contains a zero byte.
const Sep = 0

// keyPart is a part of a key without its type.
type keyPart struct {
	name string
	end  string                   // bytes that follow the part in every key
	size func(key []byte) (n int) // the number of bytes of the part at the start of key; negative if it is not such a part
}

// skip removes the part from the start of key.
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
	get func(bytes []byte) T // gets as many bytes as size returned
}

// then puts a letter after the part. It distinguishes kinds of records that begin with the same parts.
func (p part[T]) then(end string) part[T] {
	p.end = end
	return p
}

// room returns the size of the part in a key.
func (p *part[T]) room(v T) int { return p.len(v) + len(p.end) }

func (p *part[T]) append(key []byte, v T) []byte { return append(p.put(key, v), p.end...) }

// take reads the part at the start of key.
func (p *part[T]) take(key []byte, into *T) (rest []byte, ok bool) {
	if rest, ok = p.skip(key); ok {
		*into = p.get(key[:len(key)-len(rest)-len(p.end)])
	}
	return rest, ok
}

// fixed returns a part of n bytes.
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

// oneOf returns a part that is one of a few letters.
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

// inc returns a part that is an incarnation.
func inc(name string) part[ident.Incarnation] {
	return fixed("<"+name+">", 8, func(key []byte, v ident.Incarnation) []byte { return append(key, v[:]...) },
		func(b []byte) ident.Incarnation { return ident.Incarnation(b) })
}

// array returns a part that is a hash or random bytes.
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

// earliestFirst returns a part that is a time in milliseconds.
func earliestFirst(name string) part[time.Time] {
	return fixed(name+":8", 8,
		func(key []byte, at time.Time) []byte {
			return binary.BigEndian.AppendUint64(key, uint64(at.UnixMilli()))
		},
		func(b []byte) time.Time { return TimeOf(int64(binary.BigEndian.Uint64(b))) })
}

// newestFirst returns a part that is a time in milliseconds, in descending order.
func newestFirst(name string) part[time.Time] {
	return fixed("-"+name+":8", 8,
		func(key []byte, at time.Time) []byte {
			return binary.BigEndian.AppendUint64(key, ^uint64(at.UnixMilli()))
		},
		func(b []byte) time.Time { return TimeOf(int64(^binary.BigEndian.Uint64(b))) })
}

// id returns a part that is a client's id, followed by Sep.
func id(name string) part[string] { return ended(name, ident.ValidID) }

// fullName returns a part that is a client's id with its namespace, followed by Sep.
func fullName(name string) part[string] { return ended(name, ident.ValidFullName) }

// term returns a part that is a term of an index, followed by Sep.
func term(name string) part[string] { return ended(name, nil) }

// ended returns a part that is a text followed by Sep. valid, if not nil, checks it.
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

// lastID returns a part that is a client's id at the end of the key.
func lastID(name string) part[string] { return ending(name, ident.ValidID) }

// lastFullName returns a part that is a client's id with its namespace, at the end of the key.
func lastFullName(name string) part[string] { return ending(name, ident.ValidFullName) }

// anything returns a part that is any non-empty text at the end of the key.
func anything(name string) part[string] { return ending(name, nil) }

// ending returns a part that is a text at the end of the key. valid, if not nil, checks it.
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

// lastKey returns a part that is another record's key, at the end of the key and never empty.
func lastKey(name string) part[[]byte] {
	return part[[]byte]{
		keyPart{name: name, size: func(key []byte) int { return max(len(key), 1) }},
		func(v []byte) int { return len(v) },
		func(key, v []byte) []byte { return append(key, v...) },
		func(b []byte) []byte { return b }}
}
