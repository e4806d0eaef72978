package pgstore

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// giveUpUnacknowledged has the system close a connection whose other side does not acknowledge what was sent. It would
// try for a quarter of an hour.
func giveUpUnacknowledged(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	if failed := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledged.Milliseconds()))
	}); failed != nil {
		return failed
	}
	return err
}
