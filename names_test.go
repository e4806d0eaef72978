package main

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quoted      = regexp.MustCompile("`([^`\n]+)`")
	isPath      = regexp.MustCompile(`^(?:(?:engine|server|hostapi|policies|sdk|testdata|deploy|scripts|\.ci)(?:/[\w.-]+)*/?|\w+\.go)$`)
	isTest      = regexp.MustCompile(`^(?:Test|Benchmark|Fuzz|Example)[A-Z]\w*$`)
	isQualified = regexp.MustCompile(`^([a-z]\w+)((?:\.[A-Z]\w*)+)(?:\(\))?$`)
	testCommand = regexp.MustCompile("(?:go test|scripts/campaigns) [^#`\n]*")
	declared    = regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t)([A-Za-z]\w*)`)
)

// TestNames checks that what documents name exists: files and folders, tests, declarations of packages, and the
// packages and tests in commands that run tests. It skips the changelog, which also names what was removed.
func TestNames(t *testing.T) {
	listed, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.go", "*.md").Output()
	if err != nil {
		t.Skip("the documents are those that git knows, and this is no checkout:", err)
	}
	names := map[string]map[string]bool{} // the names that a folder's Go files declare
	var pages []string
	for file := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		text, err := os.ReadFile(file)
		if err != nil || strings.HasPrefix(file, "testdata/") || file == "CHANGELOG.md" {
			continue
		}
		if strings.HasSuffix(file, ".md") {
			pages = append(pages, file)
			continue
		}
		folder := path.Dir(file)
		if names[folder] == nil {
			names[folder] = map[string]bool{}
		}
		for _, found := range declared.FindAllSubmatch(text, -1) {
			names[folder][string(found[1])] = true
		}
	}
	declares := func(name string, folders func(folder string) bool) bool {
		for folder, declared := range names {
			if declared[name] && folders(folder) {
				return true
			}
		}
		return false
	}
	anywhere := func(string) bool { return true }
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range quoted.FindAllStringSubmatch(string(text), -1) {
			name := found[1]
			switch {
			case isPath.MatchString(name):
				if _, err := os.Stat(name); err != nil {
					t.Errorf("%s names %s, which is not there", page, name)
				}
			case isTest.MatchString(name):
				if !declares(name, anywhere) {
					t.Errorf("%s names %s, which no test is called", page, name)
				}
			case isQualified.MatchString(name):
				parts := isQualified.FindStringSubmatch(name)
				ours := func(folder string) bool { return path.Base(folder) == parts[1] }
				if !slices.ContainsFunc(slices.Collect(maps.Keys(names)), ours) {
					continue
				}
				for _, part := range strings.Split(parts[2], ".")[1:] {
					if !declares(part, ours) {
						t.Errorf("%s names %s, which is not declared", page, name)
					}
				}
			default:
				continue
			}
			seen++
		}
		// In a table, Markdown requires a backslash before a bar that is not a column separator.
		commands := strings.ReplaceAll(string(text), `\|`, "|")
		for _, command := range testCommand.FindAllString(commands, -1) {
			for _, missing := range missingTests(command, names) {
				t.Errorf("%s says %s, which finds no %s", page, command, missing)
			}
			seen++
		}
	}
	if seen < 50 {
		t.Errorf("only %d names were found: the test reads too little", seen)
	}
}

// missingTests returns the packages and tests in a command that do not exist.
func missingTests(command string, names map[string]map[string]bool) (missing []string) {
	words := strings.Fields(command)
	var packages, patterns []string
	prefix := ""
	if words[0] == "scripts/campaigns" {
		prefix = "^TestCampaign"
	}
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "./"):
			folder := strings.TrimSuffix(path.Clean(word), "/...")
			if info, err := os.Stat(folder); folder != "..." && (err != nil || !info.IsDir()) {
				missing = append(missing, word)
			}
			packages = append(packages, path.Clean(word))
		case (word == "-run" || word == "-bench") && i+1 < len(words):
			patterns = append(patterns, strings.Split(strings.Trim(words[i+1], "'"), "|")...)
		}
	}
	for _, pattern := range patterns {
		if pattern == "^$" || pattern == "xxx" || pattern == "." {
			continue
		}
		matches, found := regexp.MustCompile(prefix+pattern), false
		for folder, declared := range names {
			if !slices.ContainsFunc(packages, func(p string) bool {
				below, all := strings.CutSuffix(p, "...")
				return folder == p || all && strings.HasPrefix(folder+"/", below)
			}) {
				continue
			}
			found = found || slices.ContainsFunc(slices.Collect(maps.Keys(declared)), func(name string) bool {
				return isTest.MatchString(name) && matches.MatchString(name)
			})
		}
		if !found {
			missing = append(missing, pattern)
		}
	}
	return missing
}
