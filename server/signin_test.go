package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fromConsole returns the headers of a request that the console's own page sends, and more.
func fromConsole(more ...string) []string {
	return append([]string{"Authorization", "", "X-Mneme-Console", "1", "Sec-Fetch-Site", "same-origin"}, more...)
}

// tryToSignIn sends the request of the sign-in page. Keys are named as in key.
func (s *site) tryToSignIn(by, value string, more ...string) answer {
	s.t.Helper()
	if by == "key" {
		value = keyName.ReplaceAllStringFunc(value, s.key)
	}
	body, err := json.Marshal(map[string]string{by: value})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do("POST", "/console/session", string(body), fromConsole(more...)...)
}

// signsIn returns the cookie of a browser that signed in.
func (s *site) signsIn(by, value string, more ...string) (cookie string) {
	s.t.Helper()
	a := s.tryToSignIn(by, value, more...)
	if a.status != http.StatusCreated {
		s.t.Fatalf("signing in: %d %s", a.status, a.body)
	}
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return cookie
}

// link returns a link that signs a browser in with the key.
func (s *site) link(key string) string {
	s.t.Helper()
	var made struct{ Link string }
	a := s.do("POST", "/console/links", "", "Authorization", "Bearer "+key)
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated {
		s.t.Fatalf("making a link: %d %s", a.status, a.body)
	}
	return made.Link
}

// asks sends a GET of the console, and returns the status and the code of a problem.
func (s *site) asks(cookie, path string) (int, string) {
	s.t.Helper()
	a := s.do("GET", path, "", fromConsole("Cookie", cookie)...)
	if a.status < 400 {
		return a.status, ""
	}
	return a.status, a.problem(s.t).Code
}

const somePath = "/api/v1/projects"

// The cookie grants the access of the key and no more, and the browser hides it from scripts and from other sites.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.tryToSignIn("key", "reader")
	var who struct {
		Tenant, Role string
		KeyID        string `json:"key_id"`
		ExpiresAt    string `json:"expires_at"`
	}
	if err := json.Unmarshal(a.body, &who); err != nil || who.Tenant != "default" || who.Role != "reader" ||
		who.KeyID != strings.Split(s.key("reader"), "_")[1] || who.ExpiresAt == "" {
		t.Errorf("%v: %s", err, a.body)
	}
	cookie, attributes, _ := strings.Cut(a.header.Get("Set-Cookie"), "; ")
	if attributes != "path=/; HttpOnly; SameSite=Strict" {
		t.Errorf("cookie: %q", attributes)
	}
	token := strings.TrimPrefix(cookie, "mneme_session=")
	if strings.Contains(string(a.body), token) || strings.Contains(token, s.key("reader")) || len(token) < 52 {
		t.Errorf("the token %q is in %s, holds the key or is short", token, a.body)
	}
	for _, it := range everything(t, s) {
		if strings.Contains(string(it), token) || strings.Contains(string(it), strings.Split(token, "_")[1]) {
			t.Error("the store holds the token itself")
		}
	}
	if status, code := s.asks(cookie, somePath); status != 200 {
		t.Errorf("reading: %d %s", status, code)
	}
	if p := s.do("POST", turns, `{}`, fromConsole("Cookie", cookie)...).problem(t); p.Code != "role_too_low" {
		t.Errorf("writing: %+v", p)
	}
	agent := s.signsIn("key", "agent")
	body := `{"messages":[{"role":"user","content":"hello"}]}`
	if a := s.do("POST", turns, body, fromConsole("Cookie", agent)...); a.status != http.StatusCreated {
		t.Errorf("an agent writes: %d %s", a.status, a.body)
	}
	// Behind a TLS proxy, and on every host except the loopback, the cookie is only sent over TLS.
	for _, headers := range [][]string{{"X-Forwarded-Proto", "https"}, {"X-Forwarded-Host", "mneme.example"}} {
		if a := s.tryToSignIn("key", "reader", headers...); !strings.Contains(a.header.Get("Set-Cookie"), "; secure") {
			t.Errorf("%v: %s", headers, a.header.Get("Set-Cookie"))
		}
	}
	out := s.do("DELETE", "/console/session", "", fromConsole("Cookie", cookie)...)
	if out.status != http.StatusNoContent || !strings.Contains(out.header.Get("Set-Cookie"), "mneme_session=; ") {
		t.Errorf("signing out: %d %v", out.status, out.header)
	}
	if status, code := s.asks(cookie, somePath); status != 401 || code != "sign_in_ended" {
		t.Errorf("after signing out: %d %s", status, code)
	}
	if a := s.do("DELETE", "/console/session", "", fromConsole("Cookie", cookie)...); a.status != http.StatusNoContent {
		t.Errorf("signing out again: %d %s", a.status, a.body)
	}
}

func everything(t *testing.T, s *site) (values [][]byte) {
	t.Helper()
	file := s.do("GET", "/api/v1/export", "")
	values = append(values, file.body, []byte(s.log.String()))
	for _, path := range []string{"/api/v1/audit", "/api/v1/keys"} {
		values = append(values, s.do("GET", path, "").body)
	}
	return values
}

// A page of another site or of another port of the same host, or a typed address, cannot use the cookie, and cannot
// sign a browser in or out.
func TestSignInServesTheConsoleAlone(t *testing.T) {
	t.Parallel()
	s := start(t)
	cookie := s.signsIn("key", "tenant_admin")
	for _, headers := range [][]string{
		{"X-Mneme-Console", "", "Sec-Fetch-Site", "same-origin"},
		{"X-Mneme-Console", "1", "Sec-Fetch-Site", "cross-site"},
		{"X-Mneme-Console", "1", "Sec-Fetch-Site", "same-site"},
		{"X-Mneme-Console", "1", "Sec-Fetch-Site", "none"},
		{"X-Mneme-Console", "1", "Sec-Fetch-Site", ""},
		{"X-Mneme-Console", "true", "Sec-Fetch-Site", "same-origin"},
	} {
		for _, r := range [][2]string{{"GET", somePath}, {"POST", turns}, {"DELETE", "/api/v1/projects/default"},
			{"POST", "/mcp"}, {"POST", "/console/session"}, {"DELETE", "/console/session"}} {
			body := ""
			if r[0] == "POST" {
				body = `{"key":"` + s.key("reader") + `","messages":[]}`
			}
			a := s.do(r[0], r[1], body, fromConsole(append(headers, "Cookie", cookie)...)...)
			if a.status != http.StatusForbidden || a.problem(t).Code != "origin_refused" || a.header.Get("Set-Cookie") != "" {
				t.Errorf("%v %v: %d %s", headers, r, a.status, a.body)
			}
		}
	}
	if status, code := s.asks(cookie, somePath); status != 200 {
		t.Errorf("afterwards: %d %s", status, code)
	}
	// A program's request is authorised by its key, whatever cookie a proxy adds.
	if a := s.do("GET", somePath, "", "Cookie", cookie); a.status != 200 {
		t.Errorf("key and cookie: %d %s", a.status, a.body)
	}
}

// Somebody who plants a cookie in a browser, before or after it signs in, shares nothing with it.
func TestSignInIsNotFixed(t *testing.T) {
	t.Parallel()
	s := start(t)
	planted := s.signsIn("key", "reader")
	victim := s.signsIn("key", "tenant_admin", "Cookie", planted)
	if victim == planted {
		t.Error("the planted cookie was kept")
	}
	if status, code := s.asks(planted, somePath); code != "sign_in_ended" {
		t.Errorf("the planted one: %d %s", status, code)
	}
	made := "mneme_session=ms_" + strings.Repeat("a", 52) + "_default"
	if got := s.signsIn("key", "reader", "Cookie", made); got == made {
		t.Error("a token of the client's choice was taken")
	}
	if status, code := s.asks(made, somePath); code != "sign_in_ended" {
		t.Errorf("a made-up token: %d %s", status, code)
	}
	other := s.signsIn("key", "reader")
	for _, both := range []string{victim + "; " + other, other + "; " + victim} {
		if status, code := s.asks(both, somePath); code != "sign_in_ended" {
			t.Errorf("two cookies: %d %s", status, code)
		}
	}
	for _, token := range []string{"", "ms_", "ms_x", "ms_x_", "ms__default", "ms_x_!system", "ml_x_default",
		s.key("tenant_admin"), rootKey, "x; y"} {
		if status, code := s.asks("mneme_session="+token, somePath); status != 401 {
			t.Errorf("token %q: %d %s", token, status, code)
		}
	}
}

// A link signs one browser in, whoever else follows it at the same time or later.
func TestSignInLinkWorksOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	link := s.link("reader")
	var in atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if a := s.tryToSignIn("link", link); a.status == http.StatusCreated {
				in.Add(1)
			} else if p := a.problem(t); p.Code != "link_ended" {
				t.Errorf("%+v", p)
			}
		})
	}
	all.Wait()
	if in.Load() != 1 {
		t.Errorf("%d browsers are signed in", in.Load())
	}
	for _, link := range []string{link, "ml_x_default", "ml_x_", "x", s.key("reader")} {
		if p := s.tryToSignIn("link", link).problem(t); p.Code != "link_ended" {
			t.Errorf("%q: %+v", link, p)
		}
	}
	signed := s.signsIn("link", s.link("reader"))
	if status, code := s.asks(signed, somePath); status != 200 {
		t.Errorf("after a link: %d %s", status, code)
	}
	// A browser that is signed in cannot create a link, which would outlive the sign-in.
	if p := s.do("POST", "/console/links", "", fromConsole("Cookie", signed)...).problem(t); p.Code != "key_missing" {
		t.Errorf("a link by cookie: %+v", p)
	}
}

// A sign-in and a link end with their key, at once.
func TestSignInEndsWithItsKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	cookie, link := s.signsIn("key", "agent"), s.link("agent")
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.addr+"/api/v1/boards/b/memory/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := s.do("PUT", "/api/v1/boards/b", ""); a.status >= 300 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for i, h := 0, fromConsole("Cookie", cookie); i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	req.Header.Del("Authorization")
	stream := s.send(req)
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	if !lines.Scan() || lines.Text() != "retry: 1000" {
		t.Fatalf("the stream begins with %q, %v", lines.Text(), lines.Err())
	}
	s.revoke("agent")
	for lines.Scan() { // the stream ends by itself
	}
	if status, code := s.asks(cookie, somePath); code != "sign_in_ended" {
		t.Errorf("the sign-in: %d %s", status, code)
	}
	if p := s.tryToSignIn("link", link).problem(t); p.Code != "link_ended" {
		t.Errorf("the link: %+v", p)
	}
	if p := s.tryToSignIn("key", "agent").problem(t); p.Code != "unknown_key" {
		t.Errorf("the key: %+v", p)
	}
}

// The operator can only sign in if the server was started with that option, and such a sign-in is not valid later.
func TestRootSignsInWhereItMay(t *testing.T) {
	t.Parallel()
	with := start(t, func(o *setup) { o.ConsoleRoot = true })
	cookie := with.signsIn("key", rootKey)
	if status, code := with.asks(cookie, "/api/v1/tenants"); status != 200 {
		t.Errorf("with --console-root: %d %s", status, code)
	}
	if status, code := with.asks(cookie, somePath+"?tenant=default"); status != 200 {
		t.Errorf("in a tenant: %d %s", status, code)
	}
	linked := with.signsIn("link", with.link(rootKey))
	if status, code := with.asks(linked, "/api/v1/tenants"); status != 200 {
		t.Errorf("by a link: %d %s", status, code)
	}
	without := start(t)
	for _, p := range []problem{without.tryToSignIn("key", rootKey).problem(t),
		without.do("POST", "/console/links", "", "Authorization", "Bearer "+rootKey).problem(t)} {
		if p.Code != "console_root_refused" {
			t.Errorf("without: %+v", p)
		}
	}
	with.s.console.root = false
	for _, cookie := range []string{cookie, linked} {
		if status, code := with.asks(cookie, "/api/v1/tenants"); code != "console_root_refused" {
			t.Errorf("a sign-in from before: %d %s", status, code)
		}
	}
}

// A sign-in counts like its key against rate limits, and is in the audit log.
func TestSignInIsNoted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.signsIn("key", "reader")
	s.tryToSignIn("key", "mk_x_y_default")
	log := string(s.do("GET", "/api/v1/audit", "").body)
	if want := fmt.Sprintf(`"action":"console.sign_in","subject":"%s"`, strings.Split(s.key("reader"), "_")[1]); strings.Count(
		log, "console.sign_in") != 1 || !strings.Contains(log, want) {
		t.Errorf("%s", log)
	}
}
