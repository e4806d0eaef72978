package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxBody bounds what is read of an answer, maxFailure of an answer that says no.
	maxBody    = 4 << 20
	maxFailure = 64 << 10
	// maxHeader bounds an answer's header.
	maxHeader = 64 << 10
)

var (
	errRedirect = errors.New("the answer is a redirect")
	errTooLong  = errors.New("the answer is too long")
)

// cutError is a connection that ended within an answer.
type cutError struct{ err error }

func (e *cutError) Error() string { return "reading the answer: " + e.err.Error() }
func (e *cutError) Unwrap() error { return e.err }

// transport makes one HTTP request and bounds what a provider can do with it.
type transport struct{ client *http.Client }

func newTransport() *transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &transport{&http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
			MaxResponseHeaderBytes: maxHeader},
		// Texts and key were meant for the host that the operator named: nobody else gets them, and a request stays one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}}
}

// Do is http.Client.Do with a bounded body. A failure's body is read at once: its status counts, even where the rest is cut.
func (t *transport) Do(req *http.Request) (*http.Response, error) {
	res, err := t.client.Do(req)
	if err != nil {
		return nil, err
	}
	switch {
	case res.StatusCode < 300:
		res.Body = &boundedBody{res.Body, maxBody}
		return res, nil
	case res.StatusCode < 400: // one that says not where to
		return nil, errors.Join(errRedirect, res.Body.Close())
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxFailure))
	if err := res.Body.Close(); err != nil {
		return nil, &cutError{err}
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// boundedBody ends with errTooLong behind left bytes, and with a cutError where the connection does.
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

// CheckURL tells what is wrong with a provider's base URL, without repeating it; an empty one is fine.
func CheckURL(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return errors.New("the provider's URL is not readable as one: write http(s)://HOST/PATH")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the provider's URL must begin with http:// or https://")
	case u.Hostname() == "":
		return errors.New("the provider's URL names no host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("the provider's URL must end with its path: no query, no fragment")
	}
	return nil
}

// CheckKey tells what is wrong with a provider's key, without repeating it; an empty one is fine.
func CheckKey(key string) error {
	if i := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return fmt.Errorf("the provider's key holds, at position %d, what no key can: a space, a line's end, or no ASCII", i+1)
	}
	return nil
}
