package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// Clients call upstreams.
type Clients struct {
	Allowed provider.Allowed
	// Own reports whether a text contains one of Mneme's own keys, which are never sent to a provider.
	Own func(text string) bool
	// Reserve takes one of the connections that a tenant may have, and returns a function that gives it back, or false if
	// none is left. A nil Reserve means that there is no limit for a tenant.
	Reserve func(tenant string) (release func(), ok bool)

	public, named *http.Client
	sockets       sockets
}

// NewClients returns clients that call the hosts that the operator allows. They open any number of connections until
// Limit is called.
func NewClients(allowed provider.Allowed, own func(text string) bool) *Clients {
	c := &Clients{Allowed: allowed, Own: own}
	c.public = newClient(func(string) bool { return false }, &c.sockets)
	c.named = newClient(func(string) bool { return true }, &c.sockets)
	c.sockets.closeIdle = func() {
		c.public.CloseIdleConnections()
		c.named.CloseIdleConnections()
	}
	c.Limit(math.MaxInt32)
	return c
}

// Limit sets the maximum number of open connections, idle ones included.
func (c *Clients) Limit(connections int) { c.sockets.max.Store(int64(connections)) }

// Open returns the number of open connections, idle ones included.
func (c *Clients) Open() int { return int(c.sockets.open.Load()) }

// Request is the part of a client's request that is sent to the provider.
type Request struct {
	Tenant string // whose call it is
	Method string
	Path   string // relative to the upstream's base
	Query  string
	Header http.Header // all of the client's
	// Body must not change until Taken returns true. The field may be cleared once the answer has begun.
	Body []byte

	reading atomic.Int32 // the number of readers of Body that may still read
}

// Taken reports, once Do has returned an answer, whether the bytes of the body are no longer read. A provider may
// answer before it has read the whole body. Sending continues in that case.
func (r *Request) Taken() bool { return r.reading.Load() == 0 }

// Do sends a request to an upstream. The error is a *Refusal.
func (c *Clients) Do(ctx context.Context, u *provider.Upstream, r *Request) (*http.Response, error) {
	client, err := c.client(u)
	if err != nil {
		return nil, err
	}
	at, err := u.At(r.Path, r.Query)
	if err != nil {
		return nil, Refuse(http.StatusNotFound, "not_found", err.Error())
	}
	if c.Own(r.Path) || c.Own(r.Query) {
		return nil, Refuse(http.StatusBadRequest, "key_in_url",
			"The URL contains one of Mneme's keys. Send keys only in headers, and replace this one: URLs are logged.")
	}
	out := &http.Request{Method: r.Method, URL: at, Host: at.Host, Header: requestHeaders(u, r.Header, c.Own),
		ProtoMajor: 1, ProtoMinor: 1}
	if u.Use != provider.Sealed && !hasKey(out.Header) {
		return nil, Refuse(http.StatusUnauthorized, "provider_key_missing", "The provider's key is missing: send it as "+
			keyPlace(u.Protocol)+", beside Mneme's in X-Mneme-Key.")
	}
	if len(r.Body) > 0 {
		out.Body, out.ContentLength = r.newBody(), int64(len(r.Body))
		// A pooled connection may have been closed in the meantime. Then nothing was sent, and net/http sends the request
		// again.
		out.GetBody = func() (io.ReadCloser, error) { return r.newBody(), nil }
	}
	release, ok := func() {}, true
	if c.Reserve != nil {
		release, ok = c.Reserve(r.Tenant)
	}
	if !ok {
		return nil, tooManyCalls()
	}
	held := &hold{end: sync.OnceFunc(release)}
	held.add()
	resp, err := client.Do(out.WithContext(held.with(ctx)))
	if err != nil {
		held.release()
		return nil, unreached(ctx, err)
	}
	resp.Body = &heldBody{resp.Body, sync.OnceFunc(held.release)}
	if err := decodeAnswer(resp); err != nil {
		_ = resp.Body.Close()
		return nil, unreached(ctx, err)
	}
	return resp, nil
}

func tooManyCalls() *Refusal {
	return Refuse(http.StatusServiceUnavailable, "busy",
		"Too many calls are waiting for providers; wait for the time in Retry-After and send it again.").Again()
}

// body reads a request's body and releases it once it is sent, because net/http keeps a request as long as its answer.
type body struct {
	mu      sync.Mutex // The transport may close a body during a read.
	left    []byte     // nil once nothing is read any more
	reading *atomic.Int32
}

func (r *Request) newBody() *body {
	r.reading.Add(1)
	return &body{left: r.Body, reading: &r.reading}
}

// Read implements io.Reader.
func (b *body) Read(to []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == nil {
		return 0, io.EOF
	}
	n := copy(to, b.left)
	if b.left = b.left[n:]; len(b.left) == 0 {
		b.end()
	}
	return n, nil
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end()
	return nil
}

// end releases the bytes. The caller must hold the lock.
func (b *body) end() {
	if b.left != nil {
		b.left = nil
		b.reading.Add(-1)
	}
}

// client returns the HTTP client that may call an upstream.
func (c *Clients) client(u *provider.Upstream) (*http.Client, error) {
	allowed, named := c.Allowed.Host(u.Base)
	switch {
	case !allowed:
		return nil, Refuse(http.StatusForbidden, "upstream_not_allowed",
			fmt.Sprintf("The operator does not allow the host of the upstream %q (--proxy-upstreams).", u.Name))
	case u.Use == provider.Sealed && u.Key == "":
		return nil, Refuse(http.StatusServiceUnavailable, "upstream_key_unusable",
			fmt.Sprintf("The encrypted key of the upstream %q cannot be decrypted: set its secret again.", u.Name))
	case named && u.AllowPrivate:
		return c.named, nil
	}
	return c.public, nil
}

func hasKey(h http.Header) bool {
	for _, name := range keyHeaders {
		if h.Get(name) != "" {
			return true
		}
	}
	return false
}

func keyPlace(p provider.Protocol) string {
	if p == provider.Anthropic {
		return "x-api-key"
	}
	return "Authorization: Bearer"
}

// unreached describes why a provider did not answer. It leaves out the text of the error, which may contain the URL and
// with it secrets.
func unreached(ctx context.Context, err error) *Refusal {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	resolving, isDNS := errors.AsType[*net.DNSError](err)
	outer, isURL := errors.AsType[*url.Error](err)
	switch {
	case ctx.Err() != nil:
		return Refuse(http.StatusServiceUnavailable, "shutting_down", "The server is stopping.").Again()
	case errors.Is(err, errNoSockets):
		return tooManyCalls()
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return Refuse(http.StatusServiceUnavailable, "too_many_open_files",
			"The server has no file descriptor left for a connection to the provider.").Again()
	case errors.Is(err, errPrivate):
		return Refuse(http.StatusForbidden, "upstream_not_allowed", "The provider's host has an address of a private "+
			"network. The operator must name the host in --proxy-upstreams, and the upstream must say allow_private.")
	case untrusted:
		return Refuse(http.StatusBadGateway, "upstream_unreachable", "The provider's certificate is not valid.")
	case isDNS && resolving.IsNotFound:
		return Refuse(http.StatusBadGateway, "upstream_unreachable", "The provider's host does not exist.")
	case isURL && outer.Timeout():
		return Refuse(http.StatusGatewayTimeout, "upstream_timeout", "The provider did not answer in time.").Again()
	}
	return Refuse(http.StatusBadGateway, "upstream_unreachable", "The provider could not be reached.").Again()
}

// IdleTime is how long a provider may send nothing once its answer has begun. PingTime is the longest time before a
// client gets a keep-alive. DrainTime is how long Mneme waits for an answer whose client has disconnected.
const (
	IdleTime  = 2 * time.Minute
	PingTime  = 15 * time.Second
	DrainTime = time.Minute
)
