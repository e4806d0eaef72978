package ident_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// An id is printable text, and the rule is the same wherever one is read.
func TestValidID(t *testing.T) {
	for _, id := range []string{"a", "A-Za-z0-9._:@-", "whatsapp:+491701234567", "C012|1699", "chat 12", " x ", "日本", "größe",
		"gro\u0308ße", "a/b", "..a", "../..", "%2F", "100%", "a\\b", "a~1", "~", "a!b", "!", `"'<>`, "👩\u200d💻", "می\u200cخواهم",
		"山田\u3000太郎", strings.Repeat("x", 128), strings.Repeat("é", 64), "\ufffd"} {
		if err := ident.CheckID("id", id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", " ", "\u3000", "\u200d", "\u0301", ".", "..", "a\tb", "a\nb", "a\rb", "\x00", "a\x1b[31m", "a\x7f",
		"a\u0085b", "a\u2028b", "a\u202eb", "a\u200bb", "\ufeffa", "a\u00adb", "\ue000", "a\xff", "\xed\xa0\x80", "\u0378",
		strings.Repeat("x", 129), strings.Repeat("é", 64) + "x"} {
		if err := ident.CheckID("id", id); err == nil || !strings.Contains(err.Error(), ident.IDRule) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// Only a wrong escape or what is no id is refused.
func TestReadID(t *testing.T) {
	for text, want := range map[string]string{"a+b": "a+b", "a%20b": "a b", "a b": "a b", "%2F": "/", "%2e%2E": "..", "100%25": "100%",
		"%C3%BC": "ü", "ü": "ü", "%252F": "%2F", "100%": "", "%zz": "", "%": "", "a%00b": "", "%09": "", "%FF": "", "": "", "%E2%80%AE": ""} {
		id, err := ident.ReadID("id", text)
		if id != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", text, id, err)
		}
	}
}

// The forks of a session have ids of their own, whatever its id.
func TestForkOf(t *testing.T) {
	for _, id := range []string{"a", "a~b", "~", "a~1", "a~side", "日本~", "a~01", strings.Repeat("ü", 64)} {
		for _, n := range []int{1, 16, ident.Side} {
			fork := ident.ForkOf(id, n)
			session, got := ident.Forked(fork)
			if got != n || session != id && session != ident.Hashed(id) || !ident.ValidID(fork) {
				t.Errorf("%d of %q: %q, which is %d of %q", n, id, fork, got, session)
			}
		}
	}
	for _, id := range []string{"a", "~1", "a~", "a~0", "a~01", "a~1b", "a~-1", "~side", "a~1~b"} {
		if session, n := ident.Forked(id); session != id || n != 0 {
			t.Errorf("%q is %d of %q", id, n, session)
		}
	}
}

// FuzzID holds the rule against its statement, and full names and keys of caches apart from each other.
func FuzzID(f *testing.F) {
	for _, id := range []string{"a", "/a!b", "%2F", "a%21b", "!", "日本", "\u202e", "a\x00b", "..", "a/b"} {
		f.Add(id, "b", "c")
	}
	f.Fuzz(func(t *testing.T, id, other, part string) {
		valid := ident.CheckID("id", id) == nil
		if valid && (len(id) > 128 || !utf8.ValidString(id) || strings.ContainsAny(id, "\x00\t\r\n\x7f") || strings.TrimSpace(id) == "") {
			t.Errorf("%q is an id", id)
		}
		if !ident.ValidID(id) {
			return
		}
		name := ident.FullName(nil, id)
		if ns, key := ident.SplitFullName(name); len(ns) != 0 || key != id || !ident.ValidFullName(name) || ident.PathOf(name) != "" {
			t.Errorf("%q: %q is %q in %q", id, name, key, ns)
		}
		if !ident.ValidID(other) || ident.CheckNamespace("", []string{part}) != nil {
			return
		}
		inside := ident.FullName([]string{part}, other)
		if inside == name || ident.InNamespace(name, ident.NamespacePath([]string{part})) || strings.HasPrefix(inside, name+"!") {
			t.Errorf("%q reaches %q", name, inside)
		}
		if (ident.Join(id, other) == ident.Join(other, id)) != (id == other) || slices.Contains([]string{id, other}, ident.Join(id, other)) {
			t.Errorf("%q and %q", id, other)
		}
	})
}
