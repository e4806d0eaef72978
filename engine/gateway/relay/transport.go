// Package relay stands between the clients of a model's API and its provider: it sends requests on, relays the answers
// as they come, and tells what was answered.
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

// How long a provider may take.
const (
	connectTime   = 5 * time.Second
	firstByteTime = 10 * time.Minute // models think before they answer
)

// errPrivate refuses an address that only the operator may name.
var errPrivate = errors.New("the provider's host has an address of a private network, which the operator has not named")

// NewClient makes the client that calls upstreams. It pools connections, speaks HTTP/2 where the provider does, follows
// no redirect, asks no proxy of the environment, and connects to no private address unless private says so of the
// host with its port.
func NewClient(private func(host string) bool) *http.Client {
	var public net.Dialer
	public.Timeout, public.KeepAlive, public.Control = connectTime, 30*time.Second, refusePrivate
	open := net.Dialer{Timeout: connectTime, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, host string) (net.Conn, error) {
			if private(host) {
				return open.DialContext(ctx, network, host)
			}
			return public.DialContext(ctx, network, host)
		},
		ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 64, MaxIdleConns: 512,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: connectTime, ResponseHeaderTimeout: firstByteTime,
		MaxResponseHeaderBytes: 64 << 10, WriteBufferSize: 2 << 10, ReadBufferSize: 2 << 10,
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// refusePrivate looks at each address right before it is connected to, after names were resolved, so that a name that
// resolves differently the next time changes nothing.
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
