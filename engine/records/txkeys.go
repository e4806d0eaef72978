package records

import "bytes"

// txKey is what a Tx knows about a key.
type txKey struct {
	key []byte
	// was is the stored value if the key was read, and nil if there was none. The precondition is in the batch, unless
	// the record is damaged.
	was           []byte
	read, damaged bool
	// The key's write is Batch.Put[put-1] or Batch.Delete[deleted-1]. 0 means that there is none.
	put, deleted int32
}

// txKeys are the keys that a Tx has read or written. A typical change has about ten, for which a linear search is
// faster than hashing. Long changes use a map.
type txKeys struct {
	list []txKey
	at   map[string]int // the key's index in the list; nil while the list is short
}

const (
	firstTxKeys = 12
	fewTxKeys   = 24
)

// find returns what is known about a key, or nil. The result is valid until the next call of of.
func (k *txKeys) find(key []byte) *txKey {
	if k.at != nil {
		if i, ok := k.at[string(key)]; ok {
			return &k.list[i]
		}
		return nil
	}
	for i := range k.list {
		if bytes.Equal(k.list[i].key, key) {
			return &k.list[i]
		}
	}
	return nil
}

// of is like find, but adds the key if it is unknown.
func (k *txKeys) of(key []byte) *txKey {
	if known := k.find(key); known != nil {
		return known
	}
	if k.list == nil {
		k.list = make([]txKey, 0, firstTxKeys)
	}
	k.list = append(k.list, txKey{key: key})
	last := len(k.list) - 1
	switch {
	case k.at != nil:
		k.at[string(key)] = last
	case len(k.list) > fewTxKeys:
		k.at = make(map[string]int, 4*fewTxKeys)
		for i := range k.list {
			k.at[string(k.list[i].key)] = i
		}
	}
	return &k.list[len(k.list)-1]
}
