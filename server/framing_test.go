package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// speak sends bytes on a new connection and reads all responses. closed says that the server ended the connection;
// otherwise a last request does.
func (s *site) speak(request string) (answers []answer, closed bool) {
	s.t.Helper()
	conn := s.dial()
	const last = "GET /healthz HTTP/1.1\r\nHost: last\r\nX-Request-Id: last\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(conn, request+last); err != nil {
		s.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return answers, true
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			s.t.Fatal(err)
		}
		if res.Header.Get("X-Request-Id") == "last" {
			return answers, false
		}
		answers = append(answers, answer{res.StatusCode, res.Header, body, res.Close})
	}
}

// Requests that two servers in a row could read differently are refused and the connection is closed, so that nothing
// after them is read as a request.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	s := start(t, anyTurn)
	key := "Authorization: Bearer " + s.key("tenant_admin") + "\r\n"
	post := func(headers, body string) string {
		return "POST " + turns + " HTTP/1.1\r\nHost: x\r\n" + key + headers + "\r\n" + body
	}
	const chunked = "2\r\n{}\r\n0\r\n\r\n"
	for name, request := range map[string]string{
		"no Host":                  "GET /healthz HTTP/1.1\r\n\r\n",
		"no Host, other headers":   "GET /healthz HTTP/1.1\r\nAccept: */*\r\n\r\n",
		"two Hosts":                "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"two equal Hosts":          "GET /healthz HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
		"two Hosts, HTTP/1.0":      "GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
		"a Host that is none":      "GET /healthz HTTP/1.1\r\nHost: a b/c\r\n\r\n",
		"another version":          "GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n",
		"length, then coding":      post("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", chunked),
		"coding, then length":      post("Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", chunked),
		"two lengths":              post("Content-Length: 2\r\nContent-Length: 3\r\n", "{} "),
		"two equal lengths":        post("Content-Length: 2\r\nContent-Length: 2\r\n", "{}"),
		"a list of lengths":        post("Content-Length: 2, 2\r\n", "{}"),
		"a length with a sign":     post("Content-Length: +2\r\n", "{}"),
		"a negative length":        post("Content-Length: -1\r\n", "{}"),
		"a length in base 16":      post("Content-Length: 0x2\r\n", "{}"),
		"a length beyond all":      post("Content-Length: 99999999999999999999\r\n", "{}"),
		"a blank after the coding": post("Transfer-Encoding : chunked\r\n", chunked),
		"a blank after the length": post("Content-Length : 2\r\n", "{}"),
		"a blank within a name":    "GET /healthz HTTP/1.1\r\nHost: a\r\nX A: b\r\n\r\n",
		"an unknown coding":        post("Transfer-Encoding: xchunked\r\n", chunked),
		"identity":                 post("Transfer-Encoding: identity\r\nContent-Length: 2\r\n", "{}"),
		"two codings":              post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunked),
		"a list of codings":        post("Transfer-Encoding: gzip, chunked\r\n", chunked),
		"a coding in HTTP/1.0":     strings.Replace(post("Transfer-Encoding: chunked\r\n", chunked), "1.1", "1.0", 1),
		"a folded header":          "GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n",
		"a folded coding":          post("Transfer-Encoding:\r\n chunked\r\n", chunked),
		"a fold at the start":      "GET /healthz HTTP/1.1\r\n Host: a\r\n\r\n",
		"LF alone":                 "GET /healthz HTTP/1.1\r\nHost: a\nX-A: b\r\n\r\n",
		"LF alone at the end":      "GET /healthz HTTP/1.1\r\nHost: a\r\n\n",
		"CR alone":                 "GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: b\rc\r\n\r\n",
		"NUL in a value":           "GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: b\x00c\r\n\r\n",
		"NUL in a name":            "GET /healthz HTTP/1.1\r\nHost: a\r\nX\x00A: b\r\n\r\n",
		"a header without a colon": "GET /healthz HTTP/1.1\r\nHost: a\r\nXA\r\n\r\n",
		"two blanks in the line":   "GET  /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		answers, closed := s.speak(request)
		if len(answers) != 1 || !closed {
			t.Errorf("%s: %d answers, closed: %t", name, len(answers), closed)
			continue
		}
		if p := answers[0].problem(t); p.Status != 400 || p.Code != "bad_request" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for name, request := range map[string]string{
		"a Host":                 "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
		"an empty Host":          "GET /healthz HTTP/1.1\r\nHost:\r\n\r\n",
		"a length":               post("Content-Length: 2\r\n", "{}"),
		"chunked":                post("Transfer-Encoding: chunked\r\n", chunked),
		"chunked, in other case": post("transfer-encoding:\tChunked \r\n", chunked),
	} {
		if answers, closed := s.speak(request); len(answers) != 1 || closed || answers[0].status/100 != 2 {
			t.Errorf("%s: %+v, closed: %t", name, answers, closed)
		}
	}
	if a := s.do("POST", turns, "{}"); a.status != 201 {
		t.Errorf("afterwards: %d", a.status)
	}
}

// HTTP/1.0 needs no Host.
func TestWithoutHostInHTTP10(t *testing.T) {
	t.Parallel()
	s := start(t)
	if answers, closed := s.speak("GET /healthz HTTP/1.0\r\n\r\n"); len(answers) != 1 || answers[0].status != 200 ||
		!closed {
		t.Errorf("%+v, closed: %t", answers, closed)
	}
}

// Every response, including errors and streams, tells browsers not to guess its type, cache or frame it, and no
// response names the software of the server.
func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.do("PUT", "/api/v1/boards/b", "")
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.addr+"/api/v1/boards/b/memory/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer tenant_admin")
	stream := s.send(req)
	defer stream.Body.Close()
	refused, _ := s.speak("GET /healthz HTTP/1.1\r\n\r\n")
	unread, _ := s.speak("POST " + turns + " HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n")
	for name, h := range map[string]http.Header{
		"success":      s.do("GET", "/api/v1/projects", "").header,
		"no content":   s.do("DELETE", "/api/v1/boards/c", "").header,
		"open":         s.do("GET", "/healthz", "", "Authorization", "").header,
		"description":  s.do("GET", "/openapi.json", "").header,
		"page":         s.do("GET", "/errors", "").header,
		"no key":       s.do("GET", "/api/v1/projects", "", "Authorization", "").header,
		"no route":     s.do("GET", "/nowhere", "").header,
		"no method":    s.do("BREW", "/healthz", "").header,
		"other method": s.do("PATCH", "/healthz", "").header,
		"too large":    s.do("POST", turns, strings.Repeat(" ", defaultMaxBody+1)).header,
		"export":       s.do("GET", "/api/v1/export", "").header,
		"stream":       stream.Header,
		"refused":      refused[0].header,
		"unread":       unread[0].header,
	} {
		cache := "no-store"
		if name == "stream" || name == "export" {
			cache = "no-cache"
		}
		for header, want := range map[string][]string{
			"X-Content-Type-Options": {"nosniff"}, "X-Frame-Options": {"DENY"}, "Cache-Control": {cache}, "Server": nil,
			"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
		} {
			if got := h.Values(header); strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
	}
}

// The type of a problem links to a line of a page that the server serves without a key.
func TestErrorPage(t *testing.T) {
	t.Parallel()
	s := start(t)
	page, link, _ := strings.Cut(s.do("GET", "/nowhere", "").problem(t).Type, "#")
	a := s.do("GET", page, "", "Authorization", "")
	if a.status != 200 || link != "not_found" || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d, %s", a.status, link)
	}
	for _, c := range allCodes() {
		if !bytes.Contains(a.body, []byte(`<tr id="`+c.code+`">`)) {
			t.Errorf("%s is not on the page", c.code)
		}
	}
}

// The error for an unknown path names the path that may have been meant and where all are listed; the error for a
// wrong method names the allowed ones.
func TestPathsThatWereMeant(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct{ method, path, detail string }{
		{"POST", turns + "/", "no such path; did you mean `" + turns + "`? /openapi.json lists all paths"},
		{"POST", "/projects/p.1/turns", "no such path; did you mean `/api/v1/projects/p.1/turns`? /openapi.json lists all paths"},
		{"GET", "/API/v1/Projects/", "no such path; did you mean `/api/v1/projects`? /openapi.json lists all paths"},
		{"GET", "/healthz/", "no such path; did you mean `/healthz`? /openapi.json lists all paths"},
		{"GET", "/v1/chat", "no such path; /openapi.json lists all paths"},
		{"GET", "/" + strings.Repeat("x", 2000) + "/", "no such path; /openapi.json lists all paths"},
		{"GET", turns, "this path takes POST, not GET"},
		{"QUERY", "/healthz", "this path takes GET, HEAD, not QUERY"},
	} {
		if p := s.do(c.method, c.path, "").problem(t); p.Detail != c.detail {
			t.Errorf("%s %.40s: %s", c.method, c.path, p.Detail)
		}
	}
}

// A query parameter that the route does not take is refused with the name that may have been meant, and so is a
// repeated one.
func TestQueriesAreStrict(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.do("PUT", "/api/v1/boards/b", "")
	for query, want := range map[string]string{
		"/api/v1/projects?lmit=5":                                       "422 unknown_parameter lmit: unknown parameter; did you mean `limit`?",
		"/api/v1/projects?Limit=5":                                      "422 unknown_parameter Limit: unknown parameter; did you mean `limit`?",
		"/api/v1/projects?order=asc":                                    "422 unknown_parameter order: unknown parameter; this route takes cursor, limit, tenant",
		"/api/v1/projects?limit=1&limit=2":                              "422 duplicate_parameter limit: given more than once",
		"/api/v1/projects?limit=1&limit=1&x=1&x=1":                      "422 duplicate_parameter limit: given more than once",
		"/api/v1/projects?%ff=1":                                        "422 invalid_utf8 \uFFFD: must be UTF-8",
		"/api/v1/boards/b/memory?tags=%ff":                              "422 invalid_utf8 tags: must be UTF-8",
		"/api/v1/boards/b/memory?tag=x":                                 "422 unknown_parameter tag: unknown parameter; did you mean `tags`?",
		"/healthz?verbose":                                              "422 unknown_parameter verbose: unknown parameter; this route takes none",
		"/api/v1/projects?limit=":                                       "422 invalid_value limit: has no value; leave it out instead",
		"/api/v1/boards/b/memory?since=":                                "422 invalid_value since: has no value; leave it out instead",
		"/api/v1/projects?&limit=1&":                                    "200",
		"/api/v1/boards/b/memory?tags=a&tags=b":                         "200",
		"/api/v1/projects?limit=2&cursor=&tenant=":                      "200",
		"/api/v1/projects/default/memories?tags=a&tags=b&category=core": "200",
	} {
		a := s.do("GET", query, "")
		got := "200"
		if a.status != 200 {
			p := a.problem(t)
			got = fmt.Sprint(p.Status, " ", p.Code, " ", p.Detail)
		}
		if got != want {
			t.Errorf("%s: %d %s", query, a.status, got)
		}
	}
	if p := s.do("POST", turns+"?sesion_id=x", `{"messages":[{"role":"user","content":"x"}]}`).problem(t); p.Status != 422 {
		t.Errorf("%+v", p)
	}
}

// Numbers that some JSON readers cannot read are refused anywhere, and nothing of the turn is stored.
func TestUnreadableNumbers(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, number := range []string{"1e999999", "-1e400", strings.Repeat("7", 50_000)} {
		body := `{"session_id":"n","messages":[{"role":"user","content":"x","metadata":{"a":[{"b":` + number + `}]}}]}`
		if p := s.do("POST", turns, body).problem(t); p.Status != 422 || p.Code != "unreadable_number" ||
			p.Errors[0].Pointer != "/messages/0" {
			t.Errorf("%.20s: %+v", number, p)
		}
	}
	if a := s.do("GET", "/api/v1/projects/default/sessions/n", ""); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
	// The arguments of a call are a text, stored unchanged. If a format needs an object, they remain a text.
	s.do("POST", turns, `{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c",`+
		`"type":"function","function":{"name":"f","arguments":"{\"n\":1e999999}"}}]},`+
		`{"role":"tool","tool_call_id":"c","content":"y"}]}`)
	a := s.do("POST", contextPath, `{"format":"anthropic.messages","budget":{"max_tokens":1.0e4,"max_messages":5.0}}`)
	if a.status != 200 || !bytes.Contains(a.body, []byte(`"input":{"arguments":"{\"n\":1e999999}"}`)) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A window of a session that does not exist fails with an error that says so.
func TestSessionOfWindowExists(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.do("POST", turns, `{"session_id":"there","messages":[{"role":"user","content":"x"}]}`)
	for body, exists := range map[string]string{
		`{"session_id":"nowhere"}`: "false", `{"session_id":"there"}`: "true", `{}`: "true",
	} {
		a := s.do("POST", contextPath, body)
		if a.status != 200 || !bytes.Contains(a.body, []byte(`"session":{"exists":`+exists+`}`)) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

// An error's text quotes a client's text once, unchanged.
func TestTextsAreQuotedOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/api/v1/projects/%C3%BC%22%E2%80%8D", "", "no project \"ü\"\u200d\""},
		{"GET", "/api/v1/projects?tenant=a%22b", "", `no tenant "a"b"`},
		{"GET", "/api/v1/projects?tenant=" + strings.Repeat("x", 500), "", `no tenant "` + strings.Repeat("x", 128) + `…"`},
		{"POST", turns, `{"messages":[{"role":"robot","content":"x"}]}`, `role "robot" is unknown`},
		{"POST", turns, `{"messages":[{"type":"dance"}]}`, `an item of type "dance" is of openai.responses`},
		{"POST", turns, `{"messages":[{"role":7,"content":"x"}]}`, `role "7" is unknown`},
	} {
		p := s.do(c.method, c.path, c.body).problem(t)
		texts := p.Detail
		for _, f := range p.Errors {
			texts += " | " + f.Detail
		}
		if !strings.Contains(texts, c.want) {
			t.Errorf("%s %.50s: %s", c.method, c.path, texts)
		}
	}
}
