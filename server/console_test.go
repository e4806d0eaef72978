package server

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// builtConsole is a small console for tests of how it is served.
var builtConsole = fstest.MapFS{
	"index.html":           {Data: []byte("<!doctype html><title>the page</title>")},
	"favicon.svg":          {Data: []byte("<svg/>")},
	"assets/app-4f5a6b.js": {Data: []byte(strings.Repeat("console.log(1);", 100))},
}

// asBrowser sends a GET like a browser's address bar. It follows no redirects and decompresses nothing.
func (s *site) asBrowser(path string, headers ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.addr+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return read(s.t, res)
}

// Every state of the console gets the page, which is not cached; the page's files are cached for ever.
func TestConsoleIsServed(t *testing.T) {
	t.Parallel()
	s := start(t)
	const page, script = "<!doctype html><title>the page</title>", "assets/app-4f5a6b.js"
	for path, want := range map[string][3]string{ // body, type, cache
		"/console/":           {page, "text/html; charset=utf-8", "no-store"},
		"/console/index.html": {page, "text/html; charset=utf-8", "no-store"},
		"/console/p/default/s/a.b/x?d=dec_1&x=%00": {page, "text/html; charset=utf-8", "no-store"},
		"/console/p/session":                       {page, "text/html; charset=utf-8", "no-store"},
		"/console/favicon.svg":                     {"<svg/>", "image/svg+xml", "no-cache"},
		"/console/" + script: {string(builtConsole[script].Data), "text/javascript; charset=utf-8",
			"public, max-age=31536000, immutable"},
	} {
		a := s.asBrowser(path)
		if got := [3]string{string(a.body), a.header.Get("Content-Type"), a.header.Get("Cache-Control")}; a.status != 200 ||
			got != want {
			t.Errorf("%s: %d %q", path, a.status, got)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
				"connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
				"require-trusted-types-for 'script'",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := a.header.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s: %q", path, name, got)
			}
		}
	}
	if a := s.asBrowser("/console/"+script, "Accept-Encoding", "gzip"); a.header.Get("Content-Encoding") != "gzip" ||
		len(a.body) > 200 || a.header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("packed: %d bytes, %v", len(a.body), a.header)
	}
	for _, path := range []string{"/", "/console"} {
		if a := s.asBrowser(path); a.status != http.StatusFound || a.header.Get("Location") != "/console/" {
			t.Errorf("%s leads to %d %q", path, a.status, a.header.Get("Location"))
		}
	}
	for path, headers := range map[string][]string{"/": {"Accept", "*/*"}, "/console/assets/app-old.js": nil,
		"/console/assets/../../server.go": nil} {
		if a := s.asBrowser(path, headers...); a.status != http.StatusNotFound && string(a.body) != page {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := s.do("POST", "/console/p/default", "{}"); a.status != http.StatusNotFound {
		t.Errorf("POST: %d", a.status)
	}
	if a := s.asBrowser("/console/session"); a.status != http.StatusMethodNotAllowed ||
		a.header.Get("Allow") != "POST, DELETE" {
		t.Errorf("a route's path: %d %v", a.status, a.header)
	}
}

// If the operator disables the console, there is no page, no sign-in, and no cookie that grants access.
func TestConsoleCanBeLeftOut(t *testing.T) {
	t.Parallel()
	both := memstore.New()
	cookie := start(t, func(o *setup) { o.store = both }).signsIn("key", "reader")
	s := start(t, func(o *setup) { o.Console, o.store = nil, both })
	for _, path := range []string{"/", "/console", "/console/", "/console/assets/app-4f5a6b.js"} {
		if a := s.asBrowser(path); a.status != http.StatusNotFound || a.problem(t).Code != "not_found" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := s.do("POST", "/console/session", `{"key":"x"}`, fromConsole()...); a.status != http.StatusNotFound {
		t.Errorf("signing in: %d", a.status)
	}
	if a := s.do("GET", "/api/v1/projects", "", fromConsole("Cookie", cookie)...); a.problem(t).Code != "key_missing" {
		t.Errorf("a cookie: %d %s", a.status, a.body)
	}
}
