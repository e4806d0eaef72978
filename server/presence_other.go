//go:build !unix

package server

import "net"

// watchClient does nothing on this system. A closed connection is noticed when the next piece of the response is
// written.
func watchClient(net.Conn, func()) (stop func()) { return func() {} }
