package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	p := launch(t, t.TempDir())
	address := strings.TrimPrefix(p.url, "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"detail":"the disk is full"}`))
	}))
	t.Cleanup(failing.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, url, listen string
		fails             string // what the error says, or empty
	}{
		{"the server's URL", p.url, "", ""},
		{"with a slash at its end", p.url + "/", "", ""},
		{"the address that the server listens on", "", address, ""},
		{"all addresses", "", "0.0.0.0:" + port, ""},
		{"a port alone", "", ":" + port, ""},
		{"no address", "", "nothing", "reading MNEME_LISTEN"},
		{"a server that cannot store", failing.URL, "", "503: the disk is full"},
		{"nobody", "http://" + closed.Addr().String(), "", "asking the server"},
	}
	for _, test := range tests {
		env := map[string]string{"MNEME_URL": test.url, "MNEME_LISTEN": test.listen}
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), []string{"health"}, func(name string) (string, bool) {
			v, ok := env[name]
			return v, ok
		}, &stdout, &stderr)
		switch {
		case test.fails == "" && (err != nil || !strings.HasSuffix(stdout.String(), " is ready\n")):
			t.Errorf("%s: %v, %q", test.name, err, stdout.String())
		case test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)):
			t.Errorf("%s: %v does not say %q", test.name, err, test.fails)
		}
	}
}

// The first start prints commands that the user can repeat as they are, whether or not mneme is on PATH.
func TestInvocation(t *testing.T) {
	for executable, want := range map[string]string{
		"mneme":                                 "mneme",
		"/tmp/go-build1234567/b001/exe/mneme":   "go run .",
		"./mneme":                               "./mneme",
		"/opt/a folder that PATH has not/mneme": "/opt/a folder that PATH has not/mneme",
	} {
		if got := invocation(executable); got != want {
			t.Errorf("%s: %q, want %q", executable, got, want)
		}
	}
}
