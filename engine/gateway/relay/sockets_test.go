package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// TestSockets checks that calls hold their tenant's share until their answers are closed, that idle connections are
// closed for new ones, and that calls beyond the limits are refused with a code that clients retry.
func TestSockets(t *testing.T) {
	for name, begin := range map[string]func(*httptest.Server){"plain": (*httptest.Server).Start,
		"TLS": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) {
			answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, "done")
			})
			servers := make([]*httptest.Server, 3)
			var allowed provider.Allowed
			for i := range servers {
				servers[i] = httptest.NewUnstartedServer(answer)
				begin(servers[i])
				defer servers[i].Close()
				allowed.Private = append(allowed.Private, servers[i].Listener.Addr().String())
			}
			clients := NewClients(allowed, func(string) bool { return false })
			clients.named.Transport.(*http.Transport).TLSClientConfig =
				servers[0].Client().Transport.(*http.Transport).TLSClientConfig
			var held atomic.Int64
			clients.Reserve = func(tenant string) (func(), bool) {
				if tenant != "acme" {
					return nil, false
				}
				held.Add(1)
				return func() { held.Add(-1) }, true
			}
			clients.Limit(2)
			call := func(server int, tenant string) (*http.Response, error) {
				u := newProvider(t, provider.OpenAI, servers[server].URL)
				u.AllowPrivate = true
				return clients.Do(t.Context(), u, &Request{Tenant: tenant, Method: "GET", Path: "/models",
					Header: http.Header{"Authorization": {"Bearer sk"}}})
			}
			wantBusy := func(_ *http.Response, err error) {
				t.Helper()
				if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Code != "busy" || !refusal.Retry {
					t.Errorf("got %v, want a refusal with code busy", err)
				}
			}
			whole := func(resp *http.Response, err error) *http.Response {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				return resp
			}
			first, second := whole(call(0, "acme")), whole(call(1, "acme"))
			if clients.Open() != 2 || held.Load() != 2 {
				t.Errorf("%d connections are open and %d held, want 2 and 2", clients.Open(), held.Load())
			}
			wantBusy(call(2, "acme"))
			wantBusy(call(0, "other"))
			for _, resp := range []*http.Response{first, second} { // Their connections become idle.
				_, _ = io.Copy(io.Discard, resp.Body)
				_, _ = resp.Body.Close(), resp.Body.Close()
			}
			if held.Load() != 0 {
				t.Errorf("%d are held once the answers are closed", held.Load())
			}
			_ = whole(call(2, "acme")).Body.Close()
			if clients.Open() > 2 || held.Load() != 0 {
				t.Errorf("%d connections are open and %d held", clients.Open(), held.Load())
			}
		})
	}
}

// TestDialHoldsItsShare checks that a call that ended while its connection was being opened holds its tenant's share
// until the connection is open or has failed.
func TestDialHoldsItsShare(t *testing.T) {
	clients := NewClients(provider.Allowed{}, nil)
	released := false
	h := &hold{end: func() { released = true }}
	h.add()
	_, err := clients.sockets.dial(context.WithValue(t.Context(), holdKey{}, h), func() (_ net.Conn, err error) {
		h.release() // the call ends
		if released {
			t.Error("the share was released during the dial")
		}
		return nil, errors.New("refused")
	})
	if err == nil || !released || clients.Open() != 0 {
		t.Errorf("after the dial: %v, released: %v, %d open", err, released, clients.Open())
	}
}
