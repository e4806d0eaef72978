package badgerstore

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// TestLayout holds the types that are handed to Badger's own functions against Badger's.
func TestLayout(t *testing.T) {
	channel, found := reflect.TypeFor[badger.DB]().FieldByName("writeCh")
	if !found || channel.Type.Kind() != reflect.Chan {
		t.Fatal("Badger has no channel of requests")
	}
	if !same(channel.Type.Elem(), reflect.TypeFor[*writeRequest]()) {
		t.Error("Badger's request has other fields")
	}
	if !same(reflect.TypeFor[badger.Entry](), reflect.TypeFor[logEntry]()) {
		t.Error("Badger's Entry has other fields")
	}
	if same(reflect.TypeFor[struct{ Key, Value []byte }](), reflect.TypeFor[struct{ Value, Key []byte }]()) {
		t.Error("types with fields in other places are taken for the same")
	}
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

// TestDirectLog holds that entries leave in the log what Badger's own commits leave there, byte for byte.
func TestDirectLog(t *testing.T) {
	value := benchValue(10_000)
	logs := make([][]byte, 2)
	for i, commit := range []func(db *badger.DB, version uint64, deletes bool) error{
		func(db *badger.DB, version uint64, deletes bool) error {
			txn := db.NewTransactionAt(version-1, true)
			defer txn.Discard()
			err := txn.Set([]byte("k"), value)
			if deletes {
				err = txn.Delete([]byte("k"))
			}
			if err != nil {
				return err
			}
			return txn.CommitAt(version, nil)
		},
		func(db *badger.DB, version uint64, deletes bool) error {
			b := pair("k", string(value))
			if deletes {
				b.Put, b.Delete = nil, [][]byte{[]byte("k")}
			}
			var e entries
			e.addBatch(b, version)
			return e.apply(db, version)
		},
	} {
		dir := t.TempDir()
		db, err := badger.OpenManaged(Options{Dir: dir}.main().WithLogger(nil))
		if err != nil {
			t.Fatal(err)
		}
		for version, deletes := range []bool{false, true, false} {
			if err := commit(db, uint64(version+1), deletes); err != nil {
				t.Fatal(err)
			}
		}
		if db.MaxVersion() != 3 {
			t.Errorf("the newest version is %d, want 3", db.MaxVersion())
		}
		log, err := os.ReadFile(filepath.Join(dir, "main", "00001"+wal.Extension))
		if err != nil {
			t.Fatal(err)
		}
		logs[i] = log[wal.Header:] // The header has random bytes.
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(logs[0], logs[1]) || len(bytes.TrimRight(logs[0], "\x00")) < 2*len(value) {
		t.Error("the logs differ, or have nothing in them")
	}
}
