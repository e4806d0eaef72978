package badgerstore

import (
	"errors"
	"log/slog"
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

// Badger writes all its files except the manifest through shared memory maps of files that it has only extended. The
// kernel allocates a block when a page is first written. If the disk is full then, it ends the process with SIGBUS,
// also in Badger's own goroutines, where nothing can recover. So the blocks of a file are allocated before it is
// mapped. A log on a full disk is then an error that Badger returns, and a table waits for free space.
//
// The map of a log is also advised to be accessed at random. Otherwise read-ahead makes the kernel cache the log in
// large folios, and each sync writes whole folios: 27 KB and more for a turn of 2 KB.
//
// Badger has no hook for either, but all its maps are created by a function that golang.org/x/sys/unix keeps in a
// variable. Badger imports that package, so it is initialised before this one.

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
		if prot&syscall.PROT_WRITE == 0 || flags&syscall.MAP_SHARED == 0 || fd < 0 {
			return mmap(addr, length, prot, flags, fd, offset)
		}
		kind := filepath.Ext(fileName(fd))
		if err := backMap(fd, kind, offset, int64(length)); err != nil {
			return 0, err
		}
		at, err := mmap(addr, length, prot, flags, fd, offset)
		if err == nil && kind == wal.Extension {
			adviseRandom(at, length)
		}
		return at, err
	}
}

// fileName returns the name of a descriptor's file, or "".
func fileName(fd int) string {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return ""
	}
	return name
}

// adviseRandom advises a map. Without the advice everything works, but more is written.
func adviseRandom(at, length uintptr) {
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, at, length, syscall.MADV_RANDOM)
	if errno != 0 {
		adviceFailed.Do(func() {
			slog.Warn("the log cannot be advised for random access, so commits write more to the disk", "error", errno)
		})
	}
}

var adviceFailed sync.Once

// starved counts the maps whose blocks could not be allocated.
var starved atomic.Int64

// starvedPause is the interval at which a table retries to allocate its blocks. Its map must not fail, because
// Badger's compaction loses that error, and then removes the tables that it was to merge.
const starvedPause = time.Second

// backMap allocates the blocks of a file that is about to be mapped. A log only gets its first ones: see logBlocks.
func backMap(fd int, kind string, offset, length int64) error {
	if kind == wal.Extension {
		length = min(length, logChunk)
	}
	var info syscall.Stat_t
	if err := syscall.Fstat(fd, &info); err != nil || info.Blocks*512 >= offset+length {
		return err // an existing file is not changed
	}
	for {
		err := allocate(fd, 0, offset, length)
		if errors.Is(err, syscall.EOPNOTSUPP) {
			err = fill(fd, offset, length)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		starved.Add(1)
		if kind != ".sst" {
			return err
		}
		time.Sleep(starvedPause)
	}
}

// canAllocate is true because blocks of files can be allocated on this system.
const canAllocate = true

// keepSize is FALLOC_FL_KEEP_SIZE.
const keepSize = 1

// fallocate is a variable so that a test can simulate a full disk.
var fallocate = syscall.Fallocate

// allocate allocates the blocks of a part of a file.
func allocate(fd int, mode uint32, offset, length int64) error {
	for {
		if err := fallocate(fd, mode, offset, length); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// fill writes zeros to a new file, which allocates its blocks if the file system has no other way.
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
