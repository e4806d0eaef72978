package provider

import (
	"net/url"
	"strings"
	"testing"
)

func at(t testing.TB, base string) *Upstream {
	t.Helper()
	u, err := ParseBase(base)
	if err != nil {
		t.Fatal(err)
	}
	return &Upstream{Base: u}
}

// TestPaths lists paths that could lead away from an upstream.
func TestPaths(t *testing.T) {
	u := at(t, "https://api.example.com/v1/")
	for _, path := range []string{"/models", "/models/ft:gpt-4o:org::id", "/responses/resp_1.x~y", "/images/generations"} {
		at, err := u.At(path, "a=b")
		if err != nil || at.String() != "https://api.example.com/v1"+path+"?a=b" {
			t.Error(at, err)
		}
	}
	for _, path := range []string{"", "models", "/", "//evil", "/../admin", "/models/..", "/a/./b", "/a//b", "/%2e%2e/b", "/a%2fb",
		"/@evil.com", "/a?b", "/a#b", "/a\\b", "/a b", "/a\r\nHost: x", "/ä", "/a;b", "/a/"} {
		if at, err := u.At(path, ""); err == nil {
			t.Errorf("%q leads to %s", path, at)
		}
	}
	for _, base := range []string{"", "api.example.com", "ftp://x", "https://u:p@x", "https://x?a", "https://x#a", "https://", "file:///etc"} {
		if _, err := ParseBase(base); err == nil {
			t.Errorf("%q is a base", base)
		}
	}
}

// FuzzPaths checks that no path leaves the upstream's host and base.
func FuzzPaths(f *testing.F) {
	for _, seed := range []string{"/models", "/../x", "/%2e%2e/", "/@h", "//h/x", "/a\x00b"} {
		f.Add(seed, "q=1")
	}
	u := at(f, "https://api.example.com/v1")
	f.Fuzz(func(t *testing.T, path, query string) {
		at, err := u.At(path, query)
		if err != nil {
			return
		}
		again, err := url.Parse(at.Scheme + "://" + at.Host + at.EscapedPath())
		if err != nil || again.Host != "api.example.com" || !strings.HasPrefix(again.JoinPath().Path, "/v1/") {
			t.Fatalf("%q leads to %s", path, at)
		}
	})
}

func TestAllowed(t *testing.T) {
	a := Allowed{Hosts: []string{"api.openai.com", "*.example.com"}, Private: []string{"localhost:8080"}}
	for base, want := range map[string][2]bool{"https://api.openai.com/v1": {true, false}, "https://API.openai.com/v1": {true, false},
		"https://api.openai.com.evil.com/v1": {}, "https://a.example.com": {true, false}, "https://example.com": {}, "https://aexample.com": {},
		"http://localhost:8080/v1": {true, true}, "http://localhost:8081/v1": {}, "https://api.openai.com:444/v1": {}} {
		u, err := ParseBase(base)
		if err != nil {
			t.Fatal(err)
		}
		if allowed, private := a.Host(u); [2]bool{allowed, private} != want {
			t.Errorf("%s: %v %v", base, allowed, private)
		}
	}
}
