//go:build unix && !netbsd && !openbsd && !solaris && !illumos && !aix

package badgerstore

import "syscall"

// freeSpace returns the bytes that this user can still use on the file system of dir.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return uint64(max(0, s.Bavail)) * uint64(s.Bsize), nil
}
