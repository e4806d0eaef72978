package memstore_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memstore.New() })
}

func TestSealed(t *testing.T) {
	open := func(*testing.T) store.Store { return store.Seal(memstore.New()) }
	storetest.Run(t, open)
	for seed := range uint64(20) {
		storetest.RunModel(t, open, seed, 500)
	}
}

func TestLong(t *testing.T) {
	storetest.RunLong(t, func(*testing.T) store.Store { return memstore.New() })
	plain := func([]byte) store.Length { return store.Plain }
	storetest.Run(t, func(*testing.T) store.Store { return store.Long(store.Seal(memstore.New()), plain, store.MaxValue) })
	for seed := range uint64(20) {
		open := func(*testing.T) store.Store {
			return store.Long(store.Seal(memstore.New()), storetest.LongKeys, storetest.ModelPiece)
		}
		storetest.RunModel(t, open, seed, 500)
	}
}
