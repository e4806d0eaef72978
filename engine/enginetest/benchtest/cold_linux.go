package benchtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// dontNeed is POSIX_FADV_DONTNEED.
const dontNeed = 4

// DropFiles asks the kernel to drop the files of a folder from its page cache. It keeps pages that are mapped and were
// touched.
func DropFiles(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Sync(); err != nil {
			return err
		}
		if _, _, failed := syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, dontNeed, 0, 0); failed != 0 {
			return failed
		}
		return nil
	})
}

// DiskRead is how many bytes this process has had read from disks.
func DiskRead() (int64, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage.Inblock * 512, err
}
