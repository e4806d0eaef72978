package store

import (
	"context"
	"encoding/binary"
	"hash/crc32"
)

// sealSize is the length of a seal, in bytes.
const sealSize = 4

// Seal returns a store that protects every value of inner with a CRC-32C over tenant, key and value. An item whose
// value does not match its seal is read as Damaged, because a backend may return changed bytes without an error. Seal
// cannot detect that a backend lost a whole record; callers that need to know must number their records.
func Seal(inner Store) Store {
	return &sealed{beneath: beneath{inner}, table: crc32.MakeTable(crc32.Castagnoli)}
}

type sealed struct {
	beneath
	table *crc32.Table
}

func (s *sealed) Read(ctx context.Context, tenant string, q Query) (Result, error) {
	res, err := s.inner.Read(ctx, tenant, q)
	if err != nil {
		return Result{}, err
	}
	seed := s.seed(tenant)
	s.open(seed, res.Keys)
	for _, items := range res.Ranges {
		s.open(seed, items)
	}
	return res, nil
}

func (s *sealed) Commit(ctx context.Context, tenant string, b Batch) error {
	size := 0
	for _, e := range b.Expect {
		size += len(e.Value)
	}
	for _, p := range b.Put {
		size += len(p.Value)
	}
	if size > MaxBatch && !b.split {
		return ErrTooLarge // The inner store would also refuse it, but only after everything was copied.
	}
	var (
		seed  = s.seed(tenant)
		arena = make([]byte, 0, size+sealSize*(len(b.Expect)+len(b.Put)))
		out   = Batch{Delete: b.Delete, sealed: true, split: b.split}
	)
	guard := func(key, value []byte) []byte {
		start := len(arena)
		arena = append(arena, value...)
		arena = binary.LittleEndian.AppendUint32(arena, s.sum(seed, key, value))
		return arena[start:len(arena):len(arena)]
	}
	if len(b.Expect) > 0 {
		out.Expect = make([]Expect, len(b.Expect))
	}
	for i, e := range b.Expect {
		out.Expect[i] = Expect{Key: e.Key}
		if e.Value != nil {
			out.Expect[i].Value = guard(e.Key, e.Value)
		}
	}
	if len(b.Put) > 0 {
		out.Put = make([]Pair, len(b.Put))
	}
	for i, p := range b.Put {
		out.Put[i] = Pair{Key: p.Key, Value: guard(p.Key, p.Value)}
	}
	return s.inner.Commit(ctx, tenant, out)
}

// Snapshot implements Snapshotter if inner does. Items with a wrong seal are Damaged.
func (s *sealed) Snapshot(ctx context.Context, fn func(tenant string, it Item) error) error {
	var seed uint32
	last, first := "", true
	return Snapshot(ctx, s.inner, func(tenant string, it Item) error {
		if first || tenant != last {
			seed, last, first = s.seed(tenant), tenant, false
		}
		one := [1]Item{it}
		s.open(seed, one[:])
		return fn(tenant, one[0])
	})
}

// open removes the seals of items in place.
func (s *sealed) open(seed uint32, items []Item) {
	for i := range items {
		it := &items[i]
		if it.Value == nil {
			continue
		}
		n := len(it.Value) - sealSize
		if n < 0 || binary.LittleEndian.Uint32(it.Value[n:]) != s.sum(seed, it.Key, it.Value[:n]) {
			it.Value, it.Damaged = nil, true
			continue
		}
		it.Value = it.Value[:n:n]
	}
}

// seed starts a checksum with the tenant, so that a value under another tenant's key does not match.
func (s *sealed) seed(tenant string) uint32 {
	head := make([]byte, 0, 1+MaxTenant)
	head = append(head, byte(len(tenant)))
	return crc32.Update(0, s.table, append(head, tenant...))
}

// sum includes the key's length, so that different pairs of key and value are never the same sequence of bytes.
func (s *sealed) sum(seed uint32, key, value []byte) uint32 {
	return crc32.Update(crc32.Update(seed^uint32(len(key)), s.table, key), s.table, value)
}
