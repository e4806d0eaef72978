package badgerstore

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// Badger writes all its files but the manifest through shared memory maps of files that it has only made long. The
// kernel looks for a block when a page is first written, and where the disk is full it then ends the process: SIGBUS,
// also in goroutines of Badger's, which nothing can recover. So a file gets its blocks when it is mapped, where a log
// on a full disk is an error that Badger hands on, and a table waits for room. Badger offers no place for that, but all
// its maps are made by a function that golang.org/x/sys/unix keeps in a variable. Badger imports it, so that it is
// there before this package begins.

// mapper is the head of the variable of that name in golang.org/x/sys/unix. TestMapsHaveBlocks fails when it is no
// longer there.
//
//go:linkname mapper golang.org/x/sys/unix.mapper
var mapper *struct {
	sync.Mutex
	active map[*byte][]byte
	mmap   func(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error)
	munmap func(addr, length uintptr) error
}

func init() {
	mmap := mapper.mmap
	mapper.mmap = func(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error) {
		if prot&syscall.PROT_WRITE != 0 && flags&syscall.MAP_SHARED != 0 && fd >= 0 {
			if err := backMap(fd, offset, int64(length)); err != nil {
				return 0, err
			}
		}
		return mmap(addr, length, prot, flags, fd, offset)
	}
}

// starved counts the maps that found no blocks.
var starved atomic.Int64

// starvedPause is how often a table that found no blocks looks for them again. Its map must not fail, because Badger's
// compaction loses that error, and then removes the tables that it was to merge.
const starvedPause = time.Second

// backMap gives a file that is about to be mapped its blocks. A log gets its first ones only: see logBlocks.
func backMap(fd int, offset, length int64) error {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		name = ""
	}
	if filepath.Ext(name) == wal.Extension {
		length = min(length, logChunk)
	}
	var info syscall.Stat_t
	if err := syscall.Fstat(fd, &info); err != nil || info.Blocks*512 >= offset+length {
		return err // An old file is left as it is.
	}
	for {
		if err = allocate(fd, 0, offset, length); errors.Is(err, syscall.EOPNOTSUPP) {
			err = fill(fd, offset, length)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		starved.Add(1)
		if filepath.Ext(name) != ".sst" {
			return err
		}
		time.Sleep(starvedPause)
	}
}

// canAllocate says that files can be given blocks here.
const canAllocate = true

// keepSize is FALLOC_FL_KEEP_SIZE.
const keepSize = 1

// fallocate is a variable for a test that has no disk to fill.
var fallocate = syscall.Fallocate

// allocate gives a part of a file its blocks.
func allocate(fd int, mode uint32, offset, length int64) error {
	for {
		if err := fallocate(fd, mode, offset, length); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// fill writes zeros to a new file, which gives it its blocks where the file system has no other way.
func fill(fd int, offset, length int64) error {
	var info syscall.Stat_t
	if err := syscall.Fstat(fd, &info); err != nil || info.Blocks > 0 {
		return err
	}
	zeros := make([]byte, 1<<20)
	for length > 0 {
		n, err := syscall.Pwrite(fd, zeros[:min(length, int64(len(zeros)))], offset)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		offset, length = offset+int64(max(n, 0)), length-int64(max(n, 0))
	}
	return nil
}
