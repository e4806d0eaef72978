package openai

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	maxBody    = 4 << 20  // of a response, in bytes
	maxFailure = 64 << 10 // of the body of an error response; the rest is not read
	maxHeader  = 64 << 10 // of a response's header
	// maxConnections is the number of connections to a provider. Further requests wait.
	maxConnections = 8
)

var (
	errRedirect = errors.New("the answer is a redirect")
	errTooLong  = errors.New("the answer is too long")
)

// cutError means that the connection ended within a response.
type cutError struct{ err error }

func (e *cutError) Error() string { return "reading the answer: " + e.err.Error() }
func (e *cutError) Unwrap() error { return e.err }

// transport makes one HTTP request and limits what a provider can do.
type transport struct{ client *http.Client }

func newTransport() *transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &transport{&http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
			ForceAttemptHTTP2: true, MaxConnsPerHost: maxConnections, MaxIdleConnsPerHost: maxConnections, IdleConnTimeout: 90 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: maxHeader},
		// Redirects are not followed: the texts and the key are only for the host that the operator named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}}
}

// Do is http.Client.Do with a limited body. The body of an error response is read at once, so that its status counts
// even if the rest is cut off.
func (t *transport) Do(req *http.Request) (*http.Response, error) {
	res, err := t.client.Do(req)
	if err != nil {
		return nil, err
	}
	switch {
	case res.StatusCode < 300:
		res.Body = &boundedBody{res.Body, maxBody}
		return res, nil
	case res.StatusCode < 400: // a redirect without an address
		return nil, errors.Join(errRedirect, res.Body.Close())
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxFailure))
	if err := res.Body.Close(); err != nil {
		return nil, &cutError{err}
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// boundedBody returns errTooLong once left bytes were read, and a cutError if the connection ends early.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	if err != nil && err != io.EOF {
		err = &cutError{err}
	}
	return n, err
}
