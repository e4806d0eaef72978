package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// printedLink matches the link in the output of a command.
var printedLink = regexp.MustCompile(`(http://\S+)/console/#link=(\S+)\n`)

// open signs a browser in as the page that a link opens does, and asks for the identity.
func (p *program) open(printed string) (status int, cookie string) {
	p.t.Helper()
	found := printedLink.FindStringSubmatch(printed)
	if found == nil || found[1] != p.url {
		p.t.Fatalf("no link of %s in:\n%s", p.url, printed)
	}
	body, err := json.Marshal(map[string]string{"link": found[2]})
	if err != nil {
		p.t.Fatal(err)
	}
	a := p.do("", "POST", "/console/session", string(body), "X-Mneme-Console", "1", "Sec-Fetch-Site", "same-origin")
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return a.status, cookie
}

// The link that the first start prints opens the console, once; `mneme console` prints another one.
func TestFirstStartOpensTheConsole(t *testing.T) {
	p := launch(t, t.TempDir())
	if a := p.do("", "GET", "/console/", ""); a.status != 200 || !strings.Contains(string(a.body), "Mneme") {
		t.Errorf("the console: %d %s", a.status, a.body)
	}
	status, cookie := p.open(p.stdout)
	if status != 201 {
		t.Fatalf("the printed link: %d", status)
	}
	a := p.do("", "GET", "/api/v1/keys", "", "Cookie", cookie, "X-Mneme-Console", "1", "Sec-Fetch-Site", "same-origin")
	if a.status != 200 {
		t.Errorf("signed in: %d %s", a.status, a.body)
	}
	if status, _ := p.open(p.stdout); status != 401 {
		t.Errorf("the same link again: %d", status)
	}
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
	}{
		"the kept key": {[]string{"--data", p.data}, nil},
		"another key":  {[]string{"--data", t.TempDir()}, map[string]string{"MNEME_KEY": p.key}},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"console", "--url", p.url + "/"}, c.args...)
		if err := run(t.Context(), args, environment(c.env), &stdout, &stderr); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if status, _ := p.open(stdout.String()); status != 201 {
			t.Errorf("%s: %d", name, status)
		}
	}
	for want, c := range map[string]struct {
		args []string
		env  map[string]string
	}{
		"no key: there is no":     {[]string{"--data", filepath.Join(t.TempDir(), "none")}, nil},
		"the server answers 401:": {nil, map[string]string{"MNEME_KEY": "mk_a_b_default"}},
		"the server answers 403:": {nil, map[string]string{"MNEME_KEY": rootKey}},
		"asking the server:":      {[]string{"--url", "http://127.0.0.1:1"}, map[string]string{"MNEME_KEY": p.key}},
	} {
		args := append([]string{"console", "--url", p.url}, c.args...)
		if err := run(t.Context(), args, environment(c.env), new(bytes.Buffer), new(bytes.Buffer)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// If the operator disables the console, no link is printed. The operator may let the root key sign in.
func TestConsoleIsTheOperatorsChoice(t *testing.T) {
	p := launch(t, t.TempDir(), "--console=false")
	if strings.Contains(p.stdout, "console") {
		t.Errorf("printed:\n%s", p.stdout)
	}
	if a := p.do("", "GET", "/console/", ""); a.status != 404 {
		t.Errorf("the console: %d", a.status)
	}
	p = launch(t, t.TempDir(), "--console-root")
	var stdout bytes.Buffer
	err := run(t.Context(), []string{"console", "--url", p.url}, environment(map[string]string{"MNEME_KEY": rootKey}),
		&stdout, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	status, cookie := p.open(stdout.String())
	if a := p.do("", "GET", "/api/v1/tenants", "", "Cookie", cookie, "X-Mneme-Console", "1", "Sec-Fetch-Site",
		"same-origin"); status != 201 || a.status != 200 {
		t.Errorf("root: %d, %d %s", status, a.status, a.body)
	}
}
