//go:build unix

package server

import (
	"net"
	"syscall"
	"time"
)

// watchClient calls gone when the client closes its connection, until stop is called. It reads nothing: bytes of a
// next request remain on the connection and end the watch, as in net/http.
func watchClient(c net.Conn, gone func()) (stop func()) {
	file, ok := c.(syscall.Conn)
	if !ok {
		return func() {}
	}
	raw, err := file.SyscallConn()
	if err != nil || c.SetReadDeadline(time.Time{}) != nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		closed := false
		err := raw.Read(func(fd uintptr) bool {
			var next [1]byte
			n, _, err := syscall.Recvfrom(int(fd), next[:], syscall.MSG_PEEK)
			if err == syscall.EAGAIN || err == syscall.EINTR {
				return false
			}
			closed = err != nil || n == 0
			return true
		})
		if err == nil && closed {
			gone()
		}
	}()
	return func() {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // ends the read above
		<-done
		_ = c.SetReadDeadline(time.Time{})
	}
}
