package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"
	"unsafe"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// flushMark is a key that no tenant has, see lengthBase. A commit that only starts the next log writes it.
var flushMark = []byte{lengthBase - 1, 'f', 'l', 'u', 's', 'h'}

// errCannotRotate is returned if a new version of Badger has moved the limit of its memtable.
var errCannotRotate = errors.New("this version of Badger cannot be told to flush its memtable")

// memtableLimit returns the size at which Badger replaces its current memtable, or nil. Badger has no public call
// that flushes. It checks this limit before each write, so a limit of zero makes the next commit start a new log, as
// a full memtable does. The caller must hold writing. TestMemtableLimit fails if a new version of Badger has moved
// the limit.
func memtableLimit(db *badger.DB) *int64 {
	v := reflect.ValueOf(db).Elem().FieldByName("mt")
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil
	}
	for _, name := range [...]string{"opt", "MemTableSize"} {
		v = reflect.Indirect(v)
		if v.Kind() != reflect.Struct {
			return nil
		}
		if v = v.FieldByName(name); !v.IsValid() {
			return nil
		}
	}
	if v.Kind() != reflect.Int64 || !v.CanAddr() {
		return nil
	}
	return (*int64)(unsafe.Pointer(v.UnsafeAddr()))
}

// rotate makes Badger start a new log, and with it a new memtable, and returns the logs that Badger now writes to
// tables.
func (d *database) rotate() (flushing []string, err error) {
	d.writing.Lock()
	defer d.writing.Unlock()
	if err := d.log.ready(ownLogged, true); err != nil {
		return nil, err
	}
	limit := memtableLimit(d.db)
	if limit == nil {
		return nil, errCannotRotate
	}
	version := d.snapshots.current()
	txn := d.db.NewTransactionAt(version, true)
	defer txn.Discard()
	if err := txn.Set(flushMark, nil); err != nil {
		return nil, err
	}
	if flushing, err = d.log.logs(); err != nil {
		return nil, err
	}
	d.log.spares.release()
	*limit = 0
	if err := d.applyNext(txn, version, ownLogged, 1, nil); err != nil {
		return nil, err
	}
	return flushing, d.log.look()
}

// flushWait is how long Compact waits for Badger to write a memtable to a table.
const flushWait = time.Minute

// flushed waits until logs are gone: Badger removes a log once it is in a table and no reader needs its memtable.
func flushed(ctx context.Context, logs []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, flushWait, fmt.Errorf("no flush by Badger within %v", flushWait))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		for len(logs) > 0 {
			_, err := os.Stat(logs[0])
			if err == nil {
				break
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			logs = logs[1:]
		}
		if len(logs) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// logs returns the names of a database's logs, without the one that Badger has not started.
func (b *logBlocks) logs() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(b.dir, "*"+wal.Extension))
	if err != nil {
		return nil, err
	}
	begun := names[:0]
	for _, name := range names {
		if b.next == nil || name != b.next.Name() {
			begun = append(begun, name)
		}
	}
	return begun, nil
}
