//go:build unix

package badgerstore

import (
	"os"
	"syscall"
)

// ownerOf returns the user who owns a file, if known.
func ownerOf(info os.FileInfo) (uid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}
