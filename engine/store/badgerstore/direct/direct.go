// Package direct commits transactions of Badger without waking Badger's goroutines.
//
// Badger's CommitAt hands a transaction to a goroutine of Badger's, which starts another to write it, which wakes a third
// to count its values, and then wakes the caller. For most of these Go wakes a thread that finds nothing to do, which costs
// a lone writer about as much as the sync does. Badger has no public call that writes without them, so whoever commits here
// calls the two functions that make room and write, as Badger's own goroutine does. Where Badger is not the one that this
// was written for, transactions go through CommitAt.
package direct

//lint:file-ignore U1000 The types below have all fields that Badger's have.

import (
	"math"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	_ "unsafe" // for go:linkname

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/y"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// module is Badger, and release the one that this was written for: the functions below are not looked at by a compiler.
const module, release = "github.com/dgraph-io/badger/v4", "v4.9.6"

//go:linkname ensureRoomForWrite github.com/dgraph-io/badger/v4.(*DB).ensureRoomForWrite
func ensureRoomForWrite(*badger.DB) error

// writeToLSM writes entries to the write-ahead log and to the memtable, which copy them, and syncs the log.
//
//go:linkname writeToLSM github.com/dgraph-io/badger/v4.(*DB).writeToLSM
func writeToLSM(*badger.DB, *request) error

// request is Badger's request.
type request struct {
	Entries []*entry
	Ptrs    []valuePointer
	Wg      sync.WaitGroup
	Err     error
	ref     atomic.Int32
}

// valuePointer is Badger's place in the value log, and entry its Entry.
type valuePointer struct{ Fid, Len, Offset uint32 }

type entry struct {
	Key, Value   []byte
	ExpiresAt    uint64
	version      uint64
	offset       uint32
	UserMeta     byte
	meta         byte
	hlen         int
	valThreshold int64
}

// Known tells whether Badger is the release that this was written for. The compiler notes in a program from which file each
// function comes, and a module's files lie in a folder with its release.
var Known = sync.OnceValue(func() bool {
	open := runtime.FuncForPC(reflect.ValueOf(badger.Open).Pointer())
	file, _ := open.FileLine(open.Entry())
	return strings.Contains(filepath.ToSlash(file), module+"@"+release+"/") && fits()
})

// fits holds the types against Badger's.
func fits() bool {
	channel, found := reflect.TypeFor[badger.DB]().FieldByName("writeCh")
	return found && channel.Type.Kind() == reflect.Chan && same(channel.Type.Elem(), reflect.TypeFor[*request]()) &&
		same(reflect.TypeFor[badger.Entry](), reflect.TypeFor[entry]())
}

// same tells whether two types have the same fields in the same places.
func same(a, b reflect.Type) bool {
	if a == b {
		return true
	}
	if a.Kind() != b.Kind() || a.Size() != b.Size() {
		return false
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice:
		return same(a.Elem(), b.Elem())
	case reflect.Struct:
		if a.NumField() != b.NumField() {
			return false
		}
		for i := range a.NumField() {
			x, y := a.Field(i), b.Field(i)
			if x.Name != y.Name || x.Offset != y.Offset || !same(x.Type, y.Type) {
				return false
			}
		}
		return true
	}
	return false
}

// Entries are the writes of one transaction, whose version all of them have. One transaction of a database may be
// committed at a time, with nothing else that writes to it.
type Entries struct{ list []*entry }

// Put adds a pair, and Delete a key that is removed. What a transaction says last of a key counts.
func (e *Entries) Put(key, value []byte, version uint64) { e.add(key, value, wal.Txn, version) }

// Delete is described at Put.
func (e *Entries) Delete(key []byte, version uint64) { e.add(key, nil, wal.Txn|wal.Delete, version) }

// Add adds what a batch writes.
func (e *Entries) Add(b store.Batch, version uint64) {
	for _, p := range b.Put {
		e.Put(p.Key, p.Value, version)
	}
	for _, key := range b.Delete {
		e.Delete(key, version)
	}
}

func (e *Entries) add(key, value []byte, meta byte, version uint64) {
	// Without a threshold that each value is below, Badger would look for it in the value log.
	e.list = append(e.list, &entry{Key: y.KeyWithTs(key, version), Value: value, version: version, meta: meta,
		valThreshold: math.MaxInt64})
}

// Reset takes out what was added.
func (e *Entries) Reset() {
	clear(e.list)
	e.list = e.list[:0]
}

// txnKey is the key that ends a transaction in the log.
var txnKey = []byte("!badger!txn")

// Commit writes what was added as one transaction, and waits until it is synced where the database syncs.
func (e *Entries) Commit(db *badger.DB, version uint64) error {
	if !Known() {
		return e.commitAt(db, version)
	}
	e.add(txnKey, strconv.AppendUint(nil, version, 10), wal.End, version)
	if err := ensureRoomForWrite(db); err != nil {
		return err
	}
	return writeToLSM(db, &request{Entries: e.list, Ptrs: make([]valuePointer, len(e.list))})
}

// commitAt is Commit by Badger's own way.
func (e *Entries) commitAt(db *badger.DB, version uint64) error {
	txn := db.NewTransactionAt(version-1, true)
	defer txn.Discard()
	for _, it := range e.list {
		key, err := y.ParseKey(it.Key), error(nil)
		if it.meta&wal.Delete != 0 {
			err = txn.Delete(key)
		} else {
			err = txn.Set(key, it.Value)
		}
		if err != nil {
			return err
		}
	}
	return txn.CommitAt(version, nil)
}
