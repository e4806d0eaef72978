package badgerstore

import (
	"context"
	"hash/crc32"
	"runtime"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// A request is a batch on its way into a transaction.
type request struct {
	batch store.Batch // With stored keys.
	size  int64       // What the writes count against Badger's transaction limit, in bytes.
	taken atomic.Bool // By who commits it, or back by a caller whose context ended: whoever is first.
	done  chan error  // The outcome, once taken up.
}

// entryOverhead is what Badger adds to a key and a value when it counts them: two bytes of meta, ten for the version.
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

// logged bounds what the writes of a request take in the log.
func (r *request) logged() int64 {
	return r.size + r.writes()*(wal.EntryHeader+wal.KeyVersion+crc32.Size)
}

func (r *request) take() bool { return r.taken.CompareAndSwap(false, true) }

func (r *request) writes() int64 { return int64(len(r.batch.Put) + len(r.batch.Delete)) }

// submit has a request committed and gives its outcome, or takes it back if ctx ends before it is taken up. Where nothing
// is being committed, the caller commits what waits, which spares it two changes of goroutine.
func (d *database) submit(ctx context.Context, r *request) error {
	select {
	case d.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !d.synced {
		// While one commit is synced, others come and share the next. Without a sync, those who are about to commit have
		// to be let run first: a transaction costs more by itself than each of them adds.
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
		default: // The committer has yet to look.
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
