package badgerstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// logChunk is how many bytes of a log get their blocks at once. The largest transaction takes less.
const logChunk = 16 << 20

// logBlocks sees to it that what a commit writes to the log has its blocks, and that there is a next log when Badger
// begins one in the midst of a commit: a full disk refuses commits before they begin. One committer uses it.
type logBlocks struct {
	off       bool // the file system gives no blocks before they are written
	dir       string
	size      int64    // of a log
	log       *os.File // the current one
	id        int      // its number
	allocated int64    // its bytes that have blocks
	written   int64    // bounds what is written to it
	held      int64    // bounds what Badger holds of it in memory
	next      *os.File // has blocks and no length, so that Badger takes it for a new file
	spares    spares
}

func openLogBlocks(dir string, size int64) (*logBlocks, error) {
	b := &logBlocks{dir: dir, size: size}
	if !canAllocate {
		b.off = true
		return b, nil
	}
	names, err := b.logs()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		var id int
		if _, err := fmt.Sscanf(filepath.Base(name), "%d"+wal.Extension, &id); err == nil {
			b.id = max(b.id, id)
		}
	}
	if b.log, err = os.OpenFile(b.name(b.id), os.O_RDWR, 0); err != nil {
		return nil, err
	}
	b.begin()
	_ = b.ready(0, false) // The first commit tries again.
	_ = b.spares.take()
	return b, nil
}

func (b *logBlocks) name(id int) string {
	return filepath.Join(b.dir, fmt.Sprintf("%05d%s", id, wal.Extension))
}

// ready makes room for a commit of so many bytes, and takes what Badger needs to begin the next log if rotates says that
// it may. The error is store.ErrNoSpace or store.ErrNoDescriptors: nothing was changed, and the commit is to be refused.
func (b *logBlocks) ready(bytes int64, rotates bool) error {
	if b.off {
		return nil
	}
	err := b.prepare(bytes, rotates)
	b.spares.short.Store(errors.Is(err, store.ErrNoDescriptors))
	return err
}

func (b *logBlocks) prepare(bytes int64, rotates bool) error {
	if b.next == nil {
		if err := b.makeNext(); err != nil || b.off {
			return err
		}
	}
	if rotates {
		if err := b.spares.take(); err != nil {
			return err
		}
	}
	for b.written+bytes > b.allocated && b.allocated < b.size {
		if err := allocate(int(b.log.Fd()), keepSize, b.allocated, min(logChunk, b.size-b.allocated)); err != nil {
			return fmt.Errorf("%w: making the log longer: %w", store.ErrNoSpace, err)
		}
		b.allocated += logChunk
	}
	return nil
}

// makeNext makes the next log's file. Where the file system cannot allocate blocks, it turns b off.
func (b *logBlocks) makeNext() error {
	next, err := os.OpenFile(b.name(b.id+1), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		if err = allocate(int(next.Fd()), keepSize, 0, logChunk); err == nil {
			err = syncFolder(b.dir)
		}
	}
	if err == nil {
		b.next = next
		return nil
	}
	if next != nil {
		_, _ = next.Close(), os.Remove(next.Name())
	}
	if b.off = errors.Is(err, errors.ErrUnsupported); b.off {
		return nil
	}
	return fmt.Errorf("%w: making the next log: %w", shortage(err), err)
}

// rotates tells whether Badger may begin the next log at the next commit.
func (b *logBlocks) rotates() bool { return !b.off && b.held >= b.size/2 }

// heldOverhead bounds what a write takes in memory beside its bytes in the log: a node of Badger's skip list of up to 20
// levels, and alignment.
const heldOverhead = 160

// wrote tells that a commit of so many bytes and writes was written. Badger begins the next log before a commit that
// finds as much in memory, or in the log, as half of the log's length. Before that, nobody need look for it.
func (b *logBlocks) wrote(bytes, writes int64) error {
	if b.off {
		return nil
	}
	b.written += bytes
	held := bytes + writes*heldOverhead
	if b.held += held; b.held < b.size/2 {
		return nil
	}
	before := b.id
	if err := b.look(); err != nil || b.id == before {
		return err
	}
	b.written, b.held = b.written+bytes, b.held+held
	return nil
}

// look tells whether Badger has begun the next log.
func (b *logBlocks) look() error {
	if b.off || b.next == nil {
		return nil
	}
	info, err := b.next.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	err = b.log.Close()
	b.log, b.next = b.next, nil
	b.id++
	b.begin()
	return err
}

// begin counts from the start of a log.
func (b *logBlocks) begin() {
	b.allocated, b.written, b.held = logChunk, wal.Header+wal.EntryHeader, heldOverhead
}

// close removes the next log, because Badger opens none that is empty.
func (b *logBlocks) close() error {
	b.spares.release()
	if b.log != nil {
		_ = b.log.Close()
	}
	if b.next == nil {
		return nil
	}
	_ = b.next.Close()
	return os.Remove(b.next.Name())
}
