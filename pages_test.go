package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// block is a fenced block of a document: a file if its info string names one, otherwise what its language says.
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

// follow follows the instructions of a page, in one shell and with a real server: it writes files, runs commands, and
// compares each response on the page with that of the preceding command. An OPENAI_BASE_URL of the environment is also
// the server's.
func follow(t *testing.T, page string, environment ...string) {
	t.Helper()
	const separator = "\x1e"
	blocks := readBlocks(t, page)
	script := "set -euo pipefail\n"
	var commands, answers int
	for _, b := range blocks {
		switch {
		case b.file != "":
			script += fmt.Sprintf("cat >%s <<'END-OF-FILE'\n%sEND-OF-FILE\n", b.file, b.text)
		case b.language == "sh":
			script += b.text + "printf '" + separator + "'\n"
			commands++
		case b.language == "json" || b.language == "text":
			answers++
		}
	}
	if commands < 2 || answers < 1 {
		t.Fatalf("the page has %d commands and %d answers", commands, answers)
	}
	// Older versions of Node do not run TypeScript; the pages' programs are also valid JavaScript.
	script = strings.ReplaceAll(script, ".ts", ".mjs")
	checkout, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(t.TempDir(), "mneme.yaml")
	var given []byte
	for _, variable := range environment {
		if url, ok := strings.CutPrefix(variable, "OPENAI_BASE_URL="); ok {
			given = []byte("openai_base_url: " + url)
		}
	}
	if err := os.WriteFile(settings, given, 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, filepath.Join(t.TempDir(), "data"), "--config", settings)
	shell := exec.CommandContext(t.Context(), "bash", "-c", script)
	shell.Dir = t.TempDir()
	shell.Env = append(os.Environ(), "MNEME="+checkout, "MNEME_URL="+p.url, "API="+p.url+"/api/v1", "KEY="+p.key)
	shell.Env = append(shell.Env, environment...)
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
			b.check(t, outputs[ran-1])
		case b.language == "text":
			parts := strings.Split(strings.TrimSpace(b.text), "…")
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			if !regexp.MustCompile(strings.Join(parts, ".*")).MatchString(outputs[ran-1]) {
				t.Errorf("line %d: the page's answer is not in\n%s", b.line, outputs[ran-1])
			}
		}
	}
}

// check compares a JSON response on the page with that of a command.
func (b block) check(t *testing.T, answer string) {
	t.Helper()
	var want, got any
	if err := json.Unmarshal([]byte(b.text), &want); err != nil {
		t.Fatalf("line %d: %v", b.line, err)
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatalf("line %d: %v in %q", b.line, err, answer)
	}
	if where := differs(want, got); where != "" {
		t.Errorf("line %d: the page's answer differs at %s from\n%s", b.line, where, answer)
	}
}

// differs returns where got lacks something of want, or "": objects may have more fields, "…" matches anything.
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

func TestMemoriesPage(t *testing.T) { follow(t, "docs/MEMORIES.md") }

func TestBoardsPage(t *testing.T) { follow(t, "docs/BOARDS.md") }

// TestSubAgentsPage follows docs/SUB_AGENTS.md, with a model that calls the tools of which the page tells, and compares
// what the model gets with the page.
func TestSubAgentsPage(t *testing.T) {
	var mu sync.Mutex
	var got []string
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Messages []map[string]any }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		var said []string
		for _, m := range request.Messages {
			if m["tool_calls"] != nil {
				said = append(said, "calls")
			} else {
				said = append(said, fmt.Sprint(m["role"], ": ", m["content"]))
			}
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, strings.Join(said, "; "))
		reply := map[string]any{"role": "assistant", "content": nil}
		call := func(id, name, arguments string) {
			reply["tool_calls"] = []any{map[string]any{"id": id, "type": "function",
				"function": map[string]any{"name": name, "arguments": arguments}}}
		}
		switch said[len(said)-1] {
		case "user: When am I free?":
			call("c1", "calendar", "{}")
		case "user: Book me a flight to Rome.":
			call("c2", "research", `{"task":"Find flights to Rome in May."}`)
		case "tool: May is free.":
			reply["content"] = "In May."
		case "user: Find flights to Rome in May.":
			reply["content"] = "LX 1726 on 3 May."
		case "tool: LX 1726 on 3 May.":
			reply["content"] = "Booked."
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": reply}}})
	}))
	defer provider.Close()
	follow(t, "docs/SUB_AGENTS.md", "OPENAI_BASE_URL="+provider.URL+"/v1", "OPENAI_API_KEY=the-provider's-key")
	const free = "user: When am I free?; calls; tool: May is free."
	want := []string{"user: When am I free?", free,
		free + "; assistant: In May.; user: Book me a flight to Rome.",
		"calls; tool: May is free.; user: Find flights to Rome in May.",
		free + "; assistant: In May.; user: Book me a flight to Rome.; calls; tool: LX 1726 on 3 May."}
	if !slices.Equal(got, want) {
		t.Errorf("the model got\n%q\nwant\n%q", got, want)
	}
}
