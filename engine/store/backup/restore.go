package backup

import (
	"bytes"
	"context"
	"io"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The limits of one commit of a restore. Each commit waits for the disk once.
const (
	restoreWrites = 5000
	restoreBytes  = store.MaxBatch / 2
)

// Restore fills an empty sealed store from a file. If it returns an error, the store holds only part of the file and
// must be discarded.
func Restore(ctx context.Context, s store.Store, r io.Reader) (Summary, error) {
	f := filler{ctx: ctx, store: s}
	total, err := Read(r, f.add)
	if err == nil {
		err = f.flush()
	}
	return total, err
}

// filler collects records of one tenant and one class of keys into batches.
type filler struct {
	ctx    context.Context
	store  store.Store
	tenant string
	loose  bool
	size   int
	batch  store.Batch
}

func (f *filler) add(r Record) error {
	if r.Damaged {
		return nil
	}
	size, loose := len(r.Key)+len(r.Value), store.IsLoose(r.Key)
	if r.Tenant != f.tenant || loose != f.loose || f.size+size > restoreBytes || len(f.batch.Put) >= restoreWrites {
		if err := f.flush(); err != nil {
			return err
		}
		f.tenant, f.loose = r.Tenant, loose
	}
	f.size += size
	f.batch.Put = append(f.batch.Put, store.Pair{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
	return nil
}

func (f *filler) flush() error {
	if len(f.batch.Put) == 0 {
		return nil
	}
	err := f.store.Commit(f.ctx, f.tenant, f.batch)
	f.size, f.batch.Put = 0, f.batch.Put[:0]
	return err
}
