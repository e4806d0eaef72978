package badgerstore

import (
	"reflect"
	"unsafe"

	"github.com/dgraph-io/badger/v4"
)

// leaveValueLog keeps Badger from syncing its value log with each commit, beside the write-ahead log that the commit is
// in. Nothing is ever written to the value log, because every value is shorter than the threshold, but a sync of a file
// without changes flushes the disk's cache all the same. Badger has one option for both logs, so the value log's own copy
// of it is changed in place. TestValueLogIsLeft fails where a new version of Badger keeps it elsewhere.
func leaveValueLog(db *badger.DB) {
	if sync := valueLogSync(db); sync != nil {
		*sync = false
	}
}

// valueLogSync finds whether the value log is synced with each commit; nil: it is not where it is looked for.
func valueLogSync(db *badger.DB) *bool {
	v := reflect.ValueOf(db).Elem()
	for _, name := range [...]string{"vlog", "opt", "SyncWrites"} {
		if v.Kind() != reflect.Struct {
			return nil
		}
		if v = v.FieldByName(name); !v.IsValid() {
			return nil
		}
	}
	if v.Kind() != reflect.Bool {
		return nil
	}
	return (*bool)(unsafe.Pointer(v.UnsafeAddr()))
}
