package badgerstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// logChunk is the number of bytes of a log whose blocks are allocated at once. The largest transaction takes less.
const logChunk = 16 << 20

// logBlocks ensures that the blocks for a commit's log entries are allocated, and that there is a next log when
// Badger starts one during a commit, so that a full disk refuses commits before they begin. Only one committer uses
// it.
type logBlocks struct {
	off       bool // the file system cannot allocate blocks in advance
	dir       string
	size      int64    // of a log
	log       *os.File // the current one
	id        int      // its number
	allocated int64    // the number of its bytes with allocated blocks
	written   int64    // an upper bound of the bytes written to it
	held      int64    // an upper bound of its data in Badger's memory
	next      *os.File // has blocks but length 0, so that Badger treats it as a new file
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

// ready allocates the blocks for a commit of so many bytes, and what Badger needs to start the next log if rotates
// says that it may. If the error is store.ErrNoSpace or store.ErrNoDescriptors, nothing was changed, and the commit
// must be refused.
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

// makeNext creates the next log's file. If the file system cannot allocate blocks, it turns b off.
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

// rotates reports whether Badger may start the next log at the next commit.
func (b *logBlocks) rotates() bool { return !b.off && b.held >= b.size/2 }

// heldOverhead is the maximum memory of a write in addition to its bytes in the log: a node of Badger's skip list of
// up to 20 levels, and alignment.
const heldOverhead = 160

// wrote records that a commit of so many bytes and writes was written. Badger starts the next log before a commit if
// its memory, or the log, holds as much as half of the log's length. Before that, there is no need to check.
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

// look checks whether Badger has started the next log.
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

// begin resets the counters for a new log.
func (b *logBlocks) begin() {
	b.allocated, b.written, b.held = logChunk, wal.Header+wal.EntryHeader, heldOverhead
}

// close removes the next log, because Badger does not open an empty one.
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
