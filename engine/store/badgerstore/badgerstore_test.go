package badgerstore

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/storetest"
)

// plenty is the free space in tests, so that they do not depend on the machine's.
func plenty(string) (uint64, error) { return 1 << 40, nil }

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(Options{Dir: dir, FreeSpace: plenty})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, t.TempDir()) })
}

func TestSealed(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return store.Seal(open(t, t.TempDir())) })
}

func TestModel(t *testing.T) {
	for seed := range uint64(4) {
		dir := t.TempDir()
		storetest.RunDurableModel(t, func(t *testing.T) store.Store { return store.Seal(open(t, dir)) }, seed, 400)
	}
}

func TestLong(t *testing.T) {
	storetest.RunLong(t, func(t *testing.T) store.Store { return open(t, t.TempDir()) })
	for seed := range uint64(4) {
		dir := t.TempDir()
		storetest.RunDurableModel(t, func(t *testing.T) store.Store {
			return store.Long(store.Seal(open(t, dir)), storetest.LongKeys, storetest.ModelPiece)
		}, seed, 400)
	}
}
