package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

func newProvider(t testing.TB, p provider.Protocol, base string) *provider.Upstream {
	t.Helper()
	u, err := provider.ParseBase(base)
	if err != nil {
		t.Fatal(err)
	}
	return &provider.Upstream{Protocol: p, Base: u}
}

// TestKeysNeverLeave checks which headers are sent, and that no value containing a key of Mneme is.
func TestKeysNeverLeave(t *testing.T) {
	own := func(value string) bool { return strings.Contains(value, "mk_") }
	client := http.Header{"Authorization": {"Bearer sk-own"}, "X-Api-Key": {"mk_secret"}, "X-Mneme-Key": {"mk_secret"},
		"Anthropic-Beta": {"a", "b"}, "Anthropic-Version": {"2023-06-01"}, "User-Agent": {"sdk"}, "Cookie": {"c"},
		"X-Forwarded-For": {"1.2.3.4"}, "Connection": {"upgrade"}, "X-Stainless-Retry-Count": {"1"}, "Accept-Encoding": {"gzip"},
		"X-Claude-Code-Session-Id": {"s"}, "Session_id": {"s"}, "X-Client-Request-Id": {"mk_secret"}, "X-Extra": {"e"},
		"X-Mneme-Session": {"s"}, "Host": {"evil"}, "Transfer-Encoding": {"chunked"}, "Proxy-Authorization": {"p"}}
	u := newProvider(t, provider.OpenAI, "https://api.openai.com/v1")
	u.Headers = []string{"x-extra"}
	got := requestHeaders(u, client, own)
	want := http.Header{"Authorization": {"Bearer sk-own"}, "Anthropic-Beta": {"a", "b"}, "Anthropic-Version": {"2023-06-01"},
		"User-Agent": {"sdk"}, "X-Stainless-Retry-Count": {"1"}, "Session_id": {"s"}, "X-Extra": {"e"}, "Accept-Encoding": {"identity"}}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for name, values := range want {
		if strings.Join(got[name], ",") != strings.Join(values, ",") {
			t.Errorf("%s: %v", name, got[name])
		}
	}
	u.Use, u.Key = provider.Sealed, "sk-sealed"
	if got := requestHeaders(u, client, own); got.Get("Authorization") != "Bearer sk-sealed" || got.Get("X-Api-Key") != "" {
		t.Errorf("%v", got)
	}
	claude := newProvider(t, provider.Anthropic, "https://api.anthropic.com/v1")
	claude.Use, claude.Key = provider.Sealed, "sk-ant"
	got = requestHeaders(claude, client, own)
	if got.Get("X-Api-Key") != "sk-ant" || got.Get("Authorization") != "" || got.Get("X-Claude-Code-Session-Id") != "s" {
		t.Errorf("%v", got)
	}
	back := Returned(http.Header{"Content-Type": {"x"}, "Set-Cookie": {"c"}, "X-Ratelimit-Limit-Tokens": {"1"}, "Request-Id": {"r"},
		"Server": {"s"}, "Anthropic-Ratelimit-Tokens-Limit": {"1"}, "Retry-After": {"1"}, "Strict-Transport-Security": {"x"}})
	if len(back) != 5 || back.Get("Set-Cookie") != "" {
		t.Errorf("%v", back)
	}
}

// TestPrivateAddresses checks that in private networks only hosts named by the operator are reached, that names are
// checked once resolved, and that no redirect leads there.
func TestPrivateAddresses(t *testing.T) {
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
	}))
	defer inner.Close()
	host := strings.TrimPrefix(inner.URL, "http://")
	closed := NewClients(provider.Allowed{}, nil).public
	named := strings.Replace(inner.URL, "127.0.0.1", "localhost", 1)
	for _, at := range []string{inner.URL, named} {
		resp, err := closed.Get(at)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s was reached", at)
		} else if !errors.Is(err, errPrivate) {
			t.Error(err)
		}
	}
	open := newClient(func(h string) bool { return h == host }, &NewClients(provider.Allowed{}, nil).sockets)
	resp, err := open.Get(inner.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusFound {
		t.Error(resp.Status)
	}
	for text, want := range map[string]bool{"8.8.8.8": true, "2606:4700::1": true, "127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false,
		"192.168.1.1": false, "169.254.169.254": false, "::1": false, "fc00::1": false, "fe80::1": false, "100.64.0.1": false, "0.0.0.0": false,
		"::ffff:10.0.0.1": false, "::ffff:8.8.8.8": true, "64:ff9b::a00:1": false, "2002:a00:1::": false, "224.0.0.1": false, "255.255.255.255": false,
		"198.18.0.1": false, "::": false} {
		if got := public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %v", text, got)
		}
	}
}

// client is the reading end of a relay.
type client struct {
	bytes.Buffer
	gone bool
	seen func()
}

func (c *client) Write(b []byte) (int, error) {
	if c.gone {
		return 0, io.ErrClosedPipe
	}
	return c.Buffer.Write(b)
}

func (c *client) Flush() error {
	if c.seen != nil {
		c.seen()
	}
	return nil
}

const chatStream = `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}` + "\n\n" +
	`data: {"id":"c","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}` + "\n\n" +
	`data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\n" + "data: [DONE]\n\n"

func relay(f chat.Format) *Relay {
	return &Relay{Format: f, Patience: 2 * time.Second, Stall: 120 * time.Second, Ping: 15 * time.Second}
}

// TestRelayChangesNoByte checks that a stream arrives as it was sent, and is stored before its end arrives.
func TestRelayChangesNoByte(t *testing.T) {
	r, c := relay(chat.OpenAIChat), new(client)
	stored := ""
	r.Commit = func(_ context.Context, whole *wire.Reply) {
		if strings.Contains(c.String(), "DONE") {
			t.Error("the end arrived before the answer was stored")
		}
		stored = string(whole.Messages[0])
	}
	_, err := r.Run(t.Context(), io.NopCloser(iotestOneByte{strings.NewReader(chatStream)}), c)
	if err != nil || c.String() != chatStream || stored != `{"content":"Hello","role":"assistant"}` {
		t.Errorf("%v %q %s", err, c.String(), stored)
	}
	r, c = relay(chat.OpenAIChat), new(client)
	r.HideUsage = true
	folder, err := r.Run(t.Context(), io.NopCloser(strings.NewReader(chatStream)), c)
	lines := strings.SplitAfter(chatStream, "\n\n")
	if want := lines[0] + lines[1] + lines[3]; err != nil || c.String() != want || folder.Usage().Input != 3 {
		t.Errorf("%v %q", err, c.String())
	}
}

// TestConnectionThatStaysOpen checks that a provider that keeps its connection open after a complete answer has not
// broken off.
func TestConnectionThatStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its clock advances until the provider counts as stalled.
		r, c := relay(chat.OpenAIChat), new(client)
		from, provider := io.Pipe()
		defer from.Close()
		go func() { _, _ = io.WriteString(provider, chatStream) }()
		folder, err := r.Run(t.Context(), from, c)
		if err != nil || folder.State() != wire.Ended || c.String() != chatStream {
			t.Errorf("%v, state %v: %q", err, folder.State(), c.String())
		}
	})
}

// iotestOneByte returns one byte per read.
type iotestOneByte struct{ io.Reader }

func (r iotestOneByte) Read(b []byte) (int, error) { return r.Reader.Read(b[:1]) }

// TestBrokenStreams checks that a client never takes a broken answer for a complete one, and that none is stored.
func TestBrokenStreams(t *testing.T) {
	for f, test := range map[chat.Format]struct{ begun, told string }{
		chat.OpenAIChat: {chatStream[:strings.Index(chatStream, "\n\n")+2], `"code":"upstream_disconnected"`},
		chat.AnthropicMessages: {"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n",
			"event: error\ndata: {\"error\":{\"message\":"},
		chat.OpenAIResponses: {"event: response.created\ndata: {\"type\":\"response.created\"}\n\n",
			"event: response.failed\ndata: {\"response\":"},
	} {
		r, c := relay(f), new(client)
		r.Commit = func(context.Context, *wire.Reply) { t.Error("a broken answer was stored") }
		_, err := r.Run(t.Context(), io.NopCloser(strings.NewReader(test.begun)), c)
		rest, ok := strings.CutPrefix(c.String(), test.begun)
		if !errors.Is(err, errDied) || !ok || !strings.Contains(rest, test.told) || strings.Contains(rest, "DONE") {
			t.Errorf("%s: %v %q", f, err, rest)
		}
		// The provider's own error is forwarded unchanged, and nothing follows it.
		failed := test.begun + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
		r, c = relay(f), new(client)
		r.Commit = func(context.Context, *wire.Reply) { t.Error("a failed answer was stored") }
		if _, err := r.Run(t.Context(), io.NopCloser(strings.NewReader(failed)), c); err != nil || c.String() != failed {
			t.Errorf("%s: %v %q", f, err, c.String())
		}
	}
}

// TestQuietStreams checks, with a fake clock, that a silent provider is given up, that the client gets keep-alives in
// the meantime, and that either side may disconnect.
func TestQuietStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		r, c := relay(chat.OpenAIChat), new(client)
		began := time.Now()
		_, err := r.Run(t.Context(), from, c)
		_ = to.Close()
		if took := time.Since(began); !errors.Is(err, errStalled) || took != 120*time.Second ||
			strings.Count(c.String(), ": still here\n\n") < 7 || !strings.Contains(c.String(), "upstream_disconnected") {
			t.Errorf("%v after %v: %q", err, took, c.String())
		}
		synctest.Wait()
	})
	synctest.Test(t, func(t *testing.T) { // a client that disconnects is noticed at the next keep-alive
		from, to := io.Pipe()
		r, c := relay(chat.AnthropicMessages), &client{gone: true}
		began := time.Now()
		_, err := r.Run(t.Context(), from, c)
		_ = to.Close()
		if took := time.Since(began); !errors.Is(err, ErrClientGone) || took != 15*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		synctest.Wait()
	})
	synctest.Test(t, func(t *testing.T) { // an answer that takes long to be stored delays its end by two seconds
		r, c := relay(chat.OpenAIChat), new(client)
		release := make(chan struct{})
		r.Commit = func(context.Context, *wire.Reply) { <-release }
		began := time.Now()
		_, err := r.Run(t.Context(), io.NopCloser(strings.NewReader(chatStream)), c)
		if took := time.Since(began); err != nil || took != r.Patience || c.String() != chatStream {
			t.Errorf("%v after %v", err, took)
		}
		close(release)
		synctest.Wait()
	})
}

// TestSlowClients checks that a provider is not given up because its stream waits for a client that reads a keep-alive
// late. The clock is real, because the wait is for a lock.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	r, c := relay(chat.OpenAIChat), new(client)
	r.Ping, r.Stall = 10*time.Millisecond, 5*time.Second // longer than a busy machine delays the test
	taking, takes := make(chan struct{}), make(chan struct{})
	c.seen = sync.OnceFunc(func() { close(taking); <-takes })
	from, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), from, c)
		ended <- err
	}()
	<-taking
	first, rest, _ := strings.Cut(chatStream, "\n\n")
	if _, err := io.WriteString(to, first+"\n\n"); err != nil { // It is read, and waits for the client.
		t.Fatal(err)
	}
	time.Sleep(r.Stall)
	close(takes)
	time.Sleep(r.Stall / 100)
	if _, err := io.WriteString(to, rest); err != nil {
		t.Error(err)
	}
	_ = to.Close()
	if err := <-ended; err != nil || strings.ReplaceAll(c.String(), ": still here\n\n", "") != chatStream {
		t.Errorf("%v: %q", err, c.String())
	}
}

// names starts a DNS server that resolves every name to one address, and makes the program's resolver use it.
func names(t *testing.T, address [4]byte) {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		question := make([]byte, 512)
		for {
			n, from, err := socket.ReadFrom(question)
			if err != nil {
				return
			}
			end := 12 // of the question, whose name ends with an empty label
			for question[end] != 0 {
				end += 1 + int(question[end])
			}
			isA := question[end+2] == 1
			answer := append([]byte{question[0], question[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question[12:min(n, end+5)]...)
			if isA {
				answer[7] = 1
				answer = append(append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), address[:]...)
			}
			_, _ = socket.WriteTo(answer, from)
		}
	}()
	was := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("udp", socket.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = was
		_ = socket.Close()
	})
}

// TestNamesOfPrivateAddresses checks, for every way to write an address of this machine, that it is reached only if the
// operator has named it and the upstream says allow_private, and that no redirect is followed there.
func TestNamesOfPrivateAddresses(t *testing.T) {
	names(t, [4]byte{127, 0, 0, 1})
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			t.Error("a redirect was followed")
		}
		http.Redirect(w, r, "http://"+r.Host+"/secret", http.StatusTemporaryRedirect)
	}))
	defer inner.Close()
	port := inner.Listener.Addr().(*net.TCPAddr).Port
	reached := map[string]bool{}
	for _, name := range []string{"127.0.0.1", "localhost", "LOCALHOST", "localhost.", "api.example.com", "api.example.com.", "127.1",
		"2130706433", "0x7f000001", "0", "0.0.0.0", "[::ffff:127.0.0.1]", "[::]", "[64:ff9b::7f00:1]"} {
		host := fmt.Sprintf("%s:%d", name, port)
		for _, c := range []struct {
			allowed      provider.Allowed
			private, may bool
		}{
			{provider.Allowed{Hosts: []string{host}}, false, false},
			{provider.Allowed{Hosts: []string{host, "*.example.com", "*.example.com." + fmt.Sprint(":", port)}}, true, false},
			{provider.Allowed{Private: []string{host}}, false, false},
			{provider.Allowed{Private: []string{host}}, true, true},
		} {
			u := newProvider(t, provider.OpenAI, "http://"+host+"/v1")
			u.AllowPrivate = c.private
			resp, err := NewClients(c.allowed, func(string) bool { return false }).Do(t.Context(), u,
				&Request{Method: "GET", Path: "/models", Header: http.Header{"Authorization": {"Bearer sk"}}})
			if err == nil {
				_ = resp.Body.Close()
				reached[name] = true
				if !c.may || resp.StatusCode != http.StatusTemporaryRedirect {
					t.Errorf("%s was reached: %v, allow_private %v: %s", name, c.allowed, c.private, resp.Status)
				}
			} else if refusal, _ := errors.AsType[*Refusal](err); strings.Contains(name, "example") && refusal.Status != http.StatusForbidden {
				t.Errorf("%s: %d %s", name, refusal.Status, refusal.Message)
			}
		}
	}
	for _, name := range []string{"127.0.0.1", "localhost", "api.example.com", "api.example.com."} {
		if !reached[name] {
			t.Errorf("%s was not reached where it may be", name)
		}
	}
}
