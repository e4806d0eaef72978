package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	written = regexp.MustCompile("`[^`]*`")
	named   = regexp.MustCompile(`docs/[A-Z_]+\.md`)
)

// TestLinks checks that the file and the heading of every link in every document exist, and every document that any
// file names.
func TestLinks(t *testing.T) {
	listed, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skip("the documents are those that git knows, and this is no checkout:", err)
	}
	links := 0
	for path := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		text, err := os.ReadFile(path)
		if err != nil || strings.HasPrefix(path, "testdata/") || filepath.Ext(path) == ".wasm" {
			continue
		}
		for _, name := range named.FindAllString(string(text), -1) {
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s names %s: %v", path, name, err)
			}
		}
		if filepath.Ext(path) != ".md" {
			continue
		}
		for _, link := range linked.FindAllStringSubmatch(prose(string(text)), -1) {
			links++
			if strings.Contains(link[1], "://") {
				continue
			}
			file, heading, _ := strings.Cut(link[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			found, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				t.Errorf("%s links to %s: %v", path, link[1], err)
			} else if heading != "" && !headings(string(found))[heading] {
				t.Errorf("%s links to %s, which has no such heading", path, link[1])
			}
		}
	}
	if links < 30 {
		t.Errorf("there are only %d links: the test reads too little", links)
	}
}

// prose returns a document without its code blocks and inline code.
func prose(text string) string {
	var out strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inside = !inside
		} else if !inside && !strings.HasPrefix(line, "    ") {
			out.WriteString(written.ReplaceAllString(line, ""))
		}
	}
	return out.String()
}

// headings returns the anchors that GitHub gives to a document's headings.
func headings(text string) map[string]bool {
	anchors := map[string]bool{}
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			inside = !inside
		}
		title := strings.TrimLeft(line, "#")
		if inside || title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))
		name := anchor
		for n := 1; anchors[name]; n++ {
			name = fmt.Sprintf("%s-%d", anchor, n)
		}
		anchors[name] = true
	}
	return anchors
}
