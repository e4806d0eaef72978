package main

import (
	"flag"
	"os"
	"strings"
	"testing"
)

//go:generate go test -count 1 -run ^(TestConfigurationPage|TestMap)$ . -write

var write = flag.Bool("write", false, "write what pages print of the code, instead of comparing it")

// holdPrinted compares the printed part of a page, which is between two comments, with what the code prints now.
func holdPrinted(t *testing.T, page, want string) {
	t.Helper()
	const begin, end = "a test fails where it differs. -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for what is printed", page)
	}
	if want = before + begin + "\n" + want + "\n" + end + after; want == string(text) {
		return
	}
	if !*write {
		t.Errorf("%s is not what the code prints: go generate .", page)
	} else if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
