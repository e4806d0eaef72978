package records

import "bytes"

// txKey is what a Tx knows of a key.
type txKey struct {
	key []byte
	// was is what the store held, where the key was read; nil: nothing. The precondition is in the batch, unless the
	// record is damaged.
	was           []byte
	read, damaged bool
	// The key's write stands in Batch.Put at put-1, or in Batch.Delete at deleted-1. 0 means that there is none.
	put, deleted int32
}

// txKeys are the keys that a Tx has read or writes. A usual change has about ten, which are found quicker one by one
// than by their hash. Those of a long one are found by a map.
type txKeys struct {
	list []txKey
	at   map[string]int // by key: its place in the list; nil while there are few
}

const (
	firstTxKeys = 12
	fewTxKeys   = 24
)

// find gives what is known of a key; nil: nothing. It is good until the next call of of.
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

// of is find for a key that is to be known from now on.
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
