package badgerstore

import "github.com/seed-0906e6bc/mneme/engine/store"

// A stored key is one byte for the tenant's length, the tenant and the key, so that no tenant's keys are a prefix of
// another's. The length is counted from lengthBase: no stored key then begins with '!', which Badger uses for its own
// keys, or with 0xff, so that every tenant's keys have a next prefix to seek back from.
const lengthBase = 0x40

func appendKey(dst []byte, tenant string, key []byte) []byte {
	dst = append(dst, lengthBase+byte(len(tenant)))
	dst = append(dst, tenant...)
	return append(dst, key...)
}

// prefixEnd returns the first stored key after all keys of a tenant.
func prefixEnd(tenant string) []byte {
	end := appendKey(nil, tenant, nil)
	for i := len(end) - 1; ; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
}

// storedKeys returns the batch with stored keys. The values are shared with the caller's batch.
func storedKeys(tenant string, b store.Batch) store.Batch {
	writes := len(b.Put) + len(b.Delete)
	size := (1 + len(tenant)) * (len(b.Expect) + writes)
	for _, e := range b.Expect {
		size += len(e.Key)
	}
	for _, p := range b.Put {
		size += len(p.Key)
	}
	for _, key := range b.Delete {
		size += len(key)
	}
	arena := make([]byte, 0, size)
	stored := func(key []byte) []byte {
		start := len(arena)
		arena = appendKey(arena, tenant, key)
		return arena[start:len(arena):len(arena)]
	}
	out := store.Batch{
		Expect: make([]store.Expect, len(b.Expect)),
		Put:    make([]store.Pair, len(b.Put)),
		Delete: make([][]byte, len(b.Delete)),
	}
	for i, e := range b.Expect {
		out.Expect[i] = store.Expect{Key: stored(e.Key), Value: e.Value}
	}
	for i, p := range b.Put {
		out.Put[i] = store.Pair{Key: stored(p.Key), Value: p.Value}
	}
	for i, key := range b.Delete {
		out.Delete[i] = stored(key)
	}
	return out
}
