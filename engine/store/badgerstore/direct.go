package badgerstore

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	_ "unsafe" // for go:linkname

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/y"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// Badger's CommitAt hands a transaction to a goroutine of Badger's, which starts another to write it, which wakes a
// third to count its values, and then wakes the caller. For most of these Go wakes a thread that finds nothing to do,
// which costs a writer alone as much as the sync. One transaction is written at a time here, so whoever commits calls
// the two functions that write, as Badger's own goroutine does, to which nothing is handed meanwhile. TestLayout and
// TestDirectLog tell of a version of Badger in which they are others.

//go:linkname ensureRoomForWrite github.com/dgraph-io/badger/v4.(*DB).ensureRoomForWrite
func ensureRoomForWrite(*badger.DB) error

// writeToLSM writes entries to the write-ahead log and to the memtable, which copy them, and syncs the log.
//
//go:linkname writeToLSM github.com/dgraph-io/badger/v4.(*DB).writeToLSM
func writeToLSM(*badger.DB, *writeRequest) error

// writeRequest is Badger's request.
type writeRequest struct {
	Entries []*logEntry
	Ptrs    []valuePointer
	Wg      sync.WaitGroup
	Err     error
	ref     atomic.Int32
}

// valuePointer is Badger's place in the value log, and logEntry its Entry.
type valuePointer struct{ Fid, Len, Offset uint32 }

type logEntry struct {
	Key, Value   []byte
	ExpiresAt    uint64
	version      uint64
	offset       uint32
	UserMeta     byte
	meta         byte
	hlen         int
	valThreshold int64
}

// entries are the writes of one transaction.
type entries struct{ list []*logEntry }

func (e *entries) add(key, value []byte, meta byte, version uint64) {
	// Without a threshold that each value is below, Badger would look for it in the value log.
	e.list = append(e.list, &logEntry{Key: y.KeyWithTs(key, version), Value: value, version: version, meta: meta,
		valThreshold: math.MaxInt64})
}

func (e *entries) addBatch(b store.Batch, version uint64) {
	for _, p := range b.Put {
		e.add(p.Key, p.Value, wal.Txn, version)
	}
	for _, key := range b.Delete {
		e.add(key, nil, wal.Txn|wal.Delete, version)
	}
}

// txnKey is the key that ends a transaction in the log.
var txnKey = []byte("!badger!txn")

// apply writes what was added as one transaction, and waits until it is synced where the database syncs.
func (e *entries) apply(db *badger.DB, version uint64) error {
	e.add(txnKey, strconv.AppendUint(nil, version, 10), wal.End, version)
	r := writeRequest{Entries: e.list, Ptrs: make([]valuePointer, len(e.list))}
	if err := ensureRoomForWrite(db); err != nil {
		return err
	}
	return writeToLSM(db, &r)
}

func (e *entries) reset() {
	clear(e.list)
	e.list = e.list[:0]
}
