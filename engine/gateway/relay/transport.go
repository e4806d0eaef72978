// Package relay connects the clients of a model's API with its provider: it sends requests to the provider, relays the
// answers as they arrive, and returns what was answered.
package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Time limits for a provider.
const (
	connectTime   = 5 * time.Second
	firstByteTime = 10 * time.Minute // models think before they answer
)

// errPrivate reports an address that only the operator may allow.
var errPrivate = errors.New("the provider's host has an address of a private network, which the operator has not named")

// newClient returns a client for calls to upstreams. It pools connections, uses HTTP/2 if the provider does, follows no
// redirect, ignores proxies in the environment, and connects to a private address only if private returns true for its
// host and port. sockets counts its connections.
func newClient(private func(host string) bool, sockets *sockets) *http.Client {
	var public net.Dialer
	public.Timeout, public.KeepAlive, public.Control = connectTime, 30*time.Second, refusePrivate
	open := net.Dialer{Timeout: connectTime, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, host string) (net.Conn, error) {
			dialer := &public
			if private(host) {
				dialer = &open
			}
			return sockets.dial(ctx, func() (net.Conn, error) { return dialer.DialContext(ctx, network, host) })
		},
		ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 64, MaxIdleConns: 512,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: connectTime, ResponseHeaderTimeout: firstByteTime,
		MaxResponseHeaderBytes: 64 << 10, WriteBufferSize: 2 << 10, ReadBufferSize: 2 << 10,
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// refusePrivate checks each address right before connecting, after names are resolved, so a name that resolves
// differently the next time cannot bypass it.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("an address to connect to: %w", err)
	}
	if !public(at.Addr()) {
		return errPrivate
	}
	return nil
}
