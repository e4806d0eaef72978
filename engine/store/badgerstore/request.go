package badgerstore

import (
	"context"
	"hash/crc32"
	"runtime"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// request is a batch that waits for a transaction.
type request struct {
	batch store.Batch // with stored keys
	size  int64       // the size of the writes as Badger's transaction limit counts it, in bytes
	taken atomic.Bool // set by the committer, or by a caller whose context ended: whoever is first
	done  chan error  // the result, once taken
}

// entryOverhead is what Badger adds to the size of a key and a value: two bytes of meta, ten for the version.
const entryOverhead = 12

func newRequest(tenant string, b store.Batch) *request {
	r := &request{batch: storedKeys(tenant, b), done: make(chan error, 1)}
	for _, p := range r.batch.Put {
		r.size += int64(len(p.Key) + len(p.Value) + entryOverhead)
	}
	for _, key := range r.batch.Delete {
		r.size += int64(len(key) + entryOverhead)
	}
	return r
}

// logged returns the maximum size of a request's writes in the log.
func (r *request) logged() int64 {
	return r.size + r.writes()*(wal.EntryHeader+wal.KeyVersion+crc32.Size)
}

func (r *request) take() bool { return r.taken.CompareAndSwap(false, true) }

func (r *request) writes() int64 { return int64(len(r.batch.Put) + len(r.batch.Delete)) }

// submit commits a request and returns the result, or withdraws it if ctx ends before it is taken. If no commit is
// running, the caller commits the waiting requests itself, which saves two goroutine switches.
func (d *database) submit(ctx context.Context, r *request) error {
	select {
	case d.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !d.synced {
		// While one commit is synced, others arrive and share the next. Without a sync, goroutines that are about to
		// commit must be allowed to run first, because a transaction costs more than each request adds.
		runtime.Gosched()
		select {
		case err := <-r.done:
			return err
		default:
		}
	}
	if d.writing.TryLock() {
		d.commit()
		d.writing.Unlock()
	} else {
		select {
		case d.queued <- struct{}{}:
		default: // The committer has not looked yet.
		}
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.take() {
			return ctx.Err()
		}
		return <-r.done
	}
}
