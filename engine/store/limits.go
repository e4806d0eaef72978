package store

import "bytes"

// The limits of every store. They are what the most limited backend can do atomically.
const (
	// MaxTenant is the longest tenant name, in bytes.
	MaxTenant = 128
	// MaxKey is the longest key, in bytes.
	MaxKey = 1 << 10
	// MaxValue is the longest value that a backend accepts, in bytes; Long splits longer ones.
	MaxValue = 512 << 10
	// MaxBatch is the maximum sum of key and value bytes of one Batch, including preconditions.
	MaxBatch = 8 << 20
	// MaxWrites is the maximum number of puts and deletes of one Batch.
	MaxWrites = 10_000
)

// CheckTenant returns ErrTooLarge for a tenant name longer than MaxTenant. Every backend's Read starts with it.
func CheckTenant(tenant string) error {
	if len(tenant) > MaxTenant {
		return ErrTooLarge
	}
	return nil
}

// Check returns ErrTooLarge, ErrMixed or ErrDuplicate for a batch that no store accepts. Every backend's Commit
// starts with it.
func (b Batch) Check(tenant string) error { return b.check(tenant, nil) }

// check is Check with a function, which may be nil, that tells which values may be longer than MaxValue.
func (b Batch) check(tenant string, length func(key []byte) Length) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	if len(b.Put)+len(b.Delete) > MaxWrites && !b.split {
		return ErrTooLarge
	}
	m := meter{length: length}
	most := MaxBatch
	if length != nil && len(b.Put) == 1 && len(b.Expect)+len(b.Delete) == 0 {
		most = MaxLong
	}
	if b.sealed {
		m.seal = sealSize
	}
	m.addAll(b)
	switch {
	case m.tooLarge || m.bytes > most && !b.split:
		return ErrTooLarge
	case m.loose && m.synced:
		return ErrMixed
	case b.writesTwice():
		return ErrDuplicate
	}
	return nil
}

// IsLoose reports whether the batch's keys are loose. After Check, either all are or none is.
func (b Batch) IsLoose() bool {
	switch {
	case len(b.Put) > 0:
		return IsLoose(b.Put[0].Key)
	case len(b.Delete) > 0:
		return IsLoose(b.Delete[0])
	case len(b.Expect) > 0:
		return IsLoose(b.Expect[0].Key)
	}
	return false
}

// meter adds up the content of a batch.
type meter struct {
	length        func(key []byte) Length // nil: all values are Plain
	seal          int
	bytes         int
	tooLarge      bool
	loose, synced bool
}

// Bytes returns the size that MaxBatch limits.
func (b Batch) Bytes() int {
	var m meter
	m.addAll(b)
	return m.bytes
}

func (m *meter) addAll(b Batch) {
	for _, e := range b.Expect {
		m.add(e.Key, e.Value)
	}
	for _, p := range b.Put {
		m.add(p.Key, p.Value)
	}
	for _, key := range b.Delete {
		m.add(key, nil)
	}
}

func (m *meter) add(key, value []byte) {
	size := len(value)
	if value != nil {
		size -= m.seal
	}
	if len(key) > MaxKey || size > MaxValue && (m.length == nil || m.length(key) == Plain) {
		m.tooLarge = true
	}
	m.bytes += len(key) + size
	if IsLoose(key) {
		m.loose = true
	} else {
		m.synced = true
	}
}

// writesTwice compares all pairs if that is cheaper than filling a set.
func (b Batch) writesTwice() bool {
	const few = 12
	n := len(b.Put) + len(b.Delete)
	key := func(i int) []byte {
		if i < len(b.Put) {
			return b.Put[i].Key
		}
		return b.Delete[i-len(b.Put)]
	}
	if n <= few {
		for i := range n {
			for j := range i {
				if bytes.Equal(key(i), key(j)) {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[string]struct{}, n)
	for i := range n {
		seen[string(key(i))] = struct{}{}
	}
	return len(seen) < n
}
