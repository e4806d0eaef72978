package pgstore

import (
	"strings"
	"syscall"
)

// userTimeout is TCP_USER_TIMEOUT, which package syscall does not define.
const userTimeout = 0x12

// giveUpUnacknowledged makes the system close a connection whose peer does not acknowledge sent data. By default it
// would retry for a quarter of an hour.
func giveUpUnacknowledged(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	if failed := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, int(unacknowledged.Milliseconds()))
	}); failed != nil {
		return failed
	}
	return err
}
