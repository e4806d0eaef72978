package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// block is a fenced block of a document: a file where its info string names one, else what its language says.
type block struct {
	language, file, text string
	line                 int
}

func readBlocks(t *testing.T, name string) []block {
	t.Helper()
	doc, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	inside := false
	for i, line := range strings.SplitAfter(string(doc), "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !inside:
			b := block{line: i + 1}
			b.language, b.file, _ = strings.Cut(strings.TrimSpace(info), " ")
			blocks = append(blocks, b)
			inside = true
		case fence:
			inside = false
		case inside:
			blocks[len(blocks)-1].text += line
		}
	}
	return blocks
}

// TestFirstPolicy does what docs/FIRST_POLICY.md tells its reader to do, in one shell and against a real server: files
// are written, commands are run, and an answer that the page shows is the one that the command before it gave.
func TestFirstPolicy(t *testing.T) {
	const separator = "\x1e"
	blocks := readBlocks(t, "docs/FIRST_POLICY.md")
	script := "set -euo pipefail\n"
	var commands, answers int
	for _, b := range blocks {
		switch {
		case b.file != "":
			script += fmt.Sprintf("cat >%s <<'END-OF-FILE'\n%sEND-OF-FILE\n", b.file, b.text)
		case b.language == "sh":
			script += b.text + "printf '" + separator + "'\n"
			commands++
		case b.language == "json":
			answers++
		}
	}
	if commands < 8 || answers < 3 {
		t.Fatalf("the page has %d commands and %d answers", commands, answers)
	}
	checkout, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	p := launch(t, filepath.Join(t.TempDir(), "data"))
	shell := exec.CommandContext(t.Context(), "bash", "-c", script)
	shell.Dir = t.TempDir()
	shell.Env = append(append(os.Environ(), proxy(t)...), "MNEME="+checkout, "API="+p.url+"/api/v1", "KEY="+p.key)
	var stderr strings.Builder
	shell.Stderr = &stderr
	out, err := shell.Output()
	outputs := strings.Split(string(out), separator)
	if err != nil {
		t.Fatalf("%v after %d of %d commands\n%s%s", err, len(outputs)-1, commands, out, stderr.String())
	}
	ran := 0
	for _, b := range blocks {
		switch {
		case b.file != "":
		case b.language == "sh":
			ran++
		case b.language == "json":
			var want, got any
			if err := json.Unmarshal([]byte(b.text), &want); err != nil {
				t.Fatalf("line %d: %v", b.line, err)
			}
			if err := json.Unmarshal([]byte(outputs[ran-1]), &got); err != nil {
				t.Fatalf("line %d: %v in %q", b.line, err, outputs[ran-1])
			}
			if where := differs(want, got); where != "" {
				t.Errorf("line %d: the page's answer differs at %s from\n%s", b.line, where, outputs[ran-1])
			}
		}
	}
}

// The page's program is the example that is built and tested beside the SDK.
func TestFirstPolicyIsTheExample(t *testing.T) {
	example, err := os.ReadFile("sdk/go/examples/keep-by-tag/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range readBlocks(t, "docs/FIRST_POLICY.md") {
		if b.file == "main.go" && b.text == string(example) {
			return
		}
	}
	t.Error("docs/FIRST_POLICY.md does not show sdk/go/examples/keep-by-tag/main.go")
}

// differs says where got lacks something of want, "" for nowhere: objects may have more fields, "…" is anything.
func differs(want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		for name, value := range w {
			field, has := g[name]
			if !ok || !has {
				return "." + name
			}
			if where := differs(value, field); where != "" {
				return "." + name + where
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return "[]"
		}
		for i := range w {
			if where := differs(w[i], g[i]); where != "" {
				return fmt.Sprintf("[%d]%s", i, where)
			}
		}
		return ""
	}
	if want == got || want == "…" && got != nil {
		return ""
	}
	return fmt.Sprintf(": %v, not %v", got, want)
}

// What ships with Mneme passes the tests of its own manifest when a tenant uploads it.
func TestShippedPoliciesPassTheirSelfTests(t *testing.T) {
	p := launch(t, filepath.Join(t.TempDir(), "data"))
	var modules []string
	for _, pattern := range []string{"policies/*/*.wasm", "sdk/go/examples/*/*.wasm"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no module in %s: %v", pattern, err)
		}
		modules = append(modules, found...)
	}
	for _, file := range modules {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		a := p.do(p.key, "POST", "/api/v1/policies?name=mine-"+strings.TrimSuffix(filepath.Base(file), ".wasm"), string(code),
			"Content-Type", "application/wasm")
		if a.status != 201 {
			t.Errorf("%s: %d %s", file, a.status, a.body)
			continue
		}
		passed := false
		for _, c := range a.json(t)["checks"].([]any) {
			check := c.(map[string]any)
			passed = passed || check["check"] == "self_tests" && check["ok"] == true && check["detail"] != "0 passed"
		}
		if !passed {
			t.Errorf("%s: no self-test passed: %s", file, a.body)
		}
	}
}
