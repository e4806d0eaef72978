package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

//go:generate go test -count 1 -run ^TestConfigurationPage$ . -write

var write = flag.Bool("write", false, "write docs/CONFIGURATION.md instead of comparing it")

// TestConfigurationPage holds the table of docs/CONFIGURATION.md against the settings that there are.
func TestConfigurationPage(t *testing.T) {
	const page, begin, end = "docs/CONFIGURATION.md", "a test fails where it differs. -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	want := before + begin + settingsTable() + end + after
	if want == string(text) {
		return
	}
	if !*write {
		t.Fatalf("%s is not what the settings print: go generate .", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func settingsTable() string {
	var b strings.Builder
	b.WriteString("\n| flag | environment | key in the file | says | default |\n|---|---|---|---|---|\n")
	for _, o := range newRawConfig().options() {
		says, fallback, _ := strings.Cut(strings.TrimSuffix(o.usage, ")"), " (default: ")
		if *o.value != "" {
			fallback = code(*o.value)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(dashed(o.flag)), code(o.env), code(o.key), says, fallback)
	}
	return b.String() + "\n"
}

func dashed(flag string) string {
	if flag == "" {
		return ""
	}
	return "--" + flag
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
