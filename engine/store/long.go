package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// Length says how long the values of a key may be, and whether they may be replaced.
type Length uint8

const (
	// Plain values have at most MaxValue bytes.
	Plain Length = iota
	// Once is a value of any length under a key that is only put while it is absent, again with the same value, or with an
	// Expect of the value that it replaces.
	Once
	// Rewritten is a value of any length that may replace another. A Put or Delete of such a key is cheapest with an
	// Expect of the old value, because Long then need not look up its length.
	Rewritten
)

// MaxLong is the longest value that Long accepts, in bytes, if it is the only write of its batch. In other batches,
// MaxBatch limits the values.
const MaxLong = 9 << 20

// ErrReserved is returned for keys that Long uses for the rests of long values.
var ErrReserved = errors.New("key is reserved for the rests of long values")

// ErrChanged ends a Snapshot of Long that reached a long value that was changed after the walk began.
var ErrChanged = errors.New("a long value was changed behind the walk")

// restPrefix begins the keys of the rests of synced values, and looseRests those of loose values.
const (
	restPrefix = "\xff\xff\xff\xff"
	looseRests = string(rune(Loose)) + restPrefix
)

const (
	digestSize = 16
	headSize   = 4 + digestSize
	// longAttempts limits the attempts of a read or a commit that conflicts with writers of the same long value.
	longAttempts = 64
)

// Long returns a store that accepts values of any length that fits into one batch. length tells which keys may have
// them.
//
// A value shorter than piece is stored in inner unchanged, without extra cost. Of a longer value, the head is stored
// under its key. The head has exactly piece bytes: the length of the value, a digest of it, and its beginning. The
// remainder is stored in rests, records that begin with the same digest, so that a reader, which fetches them in a
// second read, never joins pieces of two values. A batch writes all pieces together and removes the rests of the old
// value. The batch's Expect of that key tells how many there are. Without an Expect, Long looks up their keys, except
// for a Put of a key that is written Once.
//
// Long wraps Seal, which protects each piece. Backups copy pieces unchanged, from the store below Long.
func Long(inner Store, length func(key []byte) Length, piece int) Store {
	return &long{beneath: beneath{inner}, length: length, piece: piece}
}

type long struct {
	beneath
	length func(key []byte) Length
	piece  int
}

type digest = [digestSize]byte

func digestOf(value []byte) digest {
	sum := sha256.Sum256(value)
	return digest(sum[:digestSize])
}

// rests returns the number of rests of a value of that many bytes.
func (s *long) rests(size int) int {
	if size < s.piece {
		return 0
	}
	each := s.piece - digestSize
	return (size - (s.piece - headSize) + each - 1) / each
}

func restKey(key []byte, n int) []byte {
	prefix := restPrefix
	if IsLoose(key) {
		prefix = looseRests
	}
	out := make([]byte, 0, len(prefix)+len(key)+2)
	return binary.BigEndian.AppendUint16(append(append(out, prefix...), key...), uint16(n))
}

// splitRest returns the key and the number of a rest; ok is false if the key is not that of a rest.
func splitRest(rest []byte) (key []byte, n int, ok bool) {
	after, ok := bytes.CutPrefix(rest, []byte(restPrefix))
	if !ok {
		after, ok = bytes.CutPrefix(rest, []byte(looseRests))
	}
	if !ok || len(after) < 2 {
		return nil, 0, false
	}
	end := len(after) - 2
	return after[:end], int(binary.BigEndian.Uint16(after[end:])), true
}

// head returns the record under the key of a long value: its length in 4 bytes, its digest, and its beginning.
func (s *long) head(value []byte) []byte {
	sum := digestOf(value)
	out := binary.BigEndian.AppendUint32(make([]byte, 0, s.piece), uint32(len(value)))
	return append(append(out, sum[:]...), value[:s.piece-headSize]...)
}

// isHead reports whether an item is the head of a long value. No other value of such a key has this length.
func (s *long) isHead(it *Item) bool { return len(it.Value) == s.piece && s.length(it.Key) != Plain }

// Read answers a query as inner does, and fetches the rests of long values in a second read. If rests do not match
// their head, another writer was active in between, and everything is read again. If they do not match the same head
// again, the value is damaged.
func (s *long) Read(ctx context.Context, tenant string, q Query) (Result, error) {
	query, joins := cutRanges(q)
	var failed map[string]digest
	for range longAttempts {
		res, err := s.inner.Read(ctx, tenant, query)
		if err != nil {
			return Result{}, err
		}
		if joins != nil {
			res.Ranges = joins.merge(res.Ranges)
		}
		heads := s.heads(nil, res.Keys)
		for _, items := range res.Ranges {
			heads = s.heads(heads, items)
		}
		if len(heads) == 0 {
			return res, nil
		}
		if failed == nil {
			failed = map[string]digest{}
		}
		if again, err := s.join(ctx, tenant, heads, failed); err != nil || !again {
			return res, err
		}
	}
	return Result{}, ErrUnavailable
}

// heads appends the items that are heads of long values.
func (s *long) heads(dst []*Item, items []Item) []*Item {
	for i := range items {
		if s.isHead(&items[i]) {
			dst = append(dst, &items[i])
		}
	}
	return dst
}

// join completes heads in place with their rests. It adds a head whose rests do not match to failed, and sets again
// to ask for another read. If failed already has it, with the same digest, the value is damaged.
func (s *long) join(ctx context.Context, tenant string, heads []*Item, failed map[string]digest,
) (again bool, err error) {
	var q Query
	for _, it := range heads {
		for n := range s.restsOf(it.Value) {
			q.Keys = append(q.Keys, restKey(it.Key, n+1))
		}
	}
	res, err := s.inner.Read(ctx, tenant, q)
	if err != nil {
		return false, err
	}
	rests := res.Keys
	for _, it := range heads {
		n := s.restsOf(it.Value)
		whole := joined(it.Value, rests[:n])
		sum := digest(it.Value[4:])
		switch before, known := failed[string(it.Key)]; {
		case whole != nil:
			it.Value = whole
		case known && before == sum:
			it.Value, it.Damaged = nil, true
		default:
			failed[string(it.Key)], again = sum, true
		}
		rests = rests[n:]
	}
	return again, nil
}

// restsOf returns the number of rests that a head names, or none if its length is not that of a long value.
func (s *long) restsOf(head []byte) int {
	if size := binary.BigEndian.Uint32(head); size <= MaxLong {
		return s.rests(int(size))
	}
	return 0
}

// joined returns the value for its pieces, or nil if they do not belong together.
func joined(head []byte, rests []Item) []byte {
	size := int(binary.BigEndian.Uint32(head))
	if len(rests) == 0 {
		return nil
	}
	whole := append(make([]byte, 0, size), head[headSize:]...)
	for _, it := range rests {
		after, ok := bytes.CutPrefix(it.Value, head[4:headSize])
		if !ok || len(whole)+len(after) > size {
			return nil
		}
		whole = append(whole, after...)
	}
	if len(whole) != size {
		return nil
	}
	return whole
}

// Snapshot passes on inner's walk, with long values joined. It reads their rests separately; if a value was changed
// after the walk began, it ends with ErrChanged. A rest that belongs to no value is passed on as a record.
func (s *long) Snapshot(ctx context.Context, fn func(tenant string, it Item) error) error {
	var at string
	owned := map[string]int{} // by key: the number of rests of its value
	return Snapshot(ctx, s.inner, func(tenant string, it Item) error {
		if tenant != at {
			at = tenant
			clear(owned)
		}
		if key, n, ok := splitRest(it.Key); ok && n <= owned[string(key)] {
			return nil
		}
		switch {
		case it.Damaged && s.length(it.Key) != Plain:
			owned[string(it.Key)] = 1<<16 - 1 // All rests of a damaged head belong to it.
		case s.isHead(&it):
			owned[string(it.Key)] = s.restsOf(it.Value)
			whole := it
			again, err := s.join(ctx, tenant, []*Item{&whole}, map[string]digest{})
			if err != nil {
				return err
			}
			if again {
				res, err := s.Read(ctx, tenant, Query{Keys: [][]byte{bytes.Clone(it.Key)}})
				if err != nil {
					return err
				}
				if whole = res.Keys[0]; !whole.Damaged {
					return ErrChanged
				}
			}
			it = whole
		}
		return fn(tenant, it)
	})
}
