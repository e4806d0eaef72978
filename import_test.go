package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/foreign"
)

// TestImportCommand imports a folder with files of several programs into a running server, with flags behind the folder.
func TestImportCommand(t *testing.T) {
	p := launch(t, t.TempDir())
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a/chat.jsonl":   `{"messages":[{"role":"user","content":"Which pier?"},{"role":"assistant","content":"Pier two."}]}` + "\n",
		"proj/CLAUDE.md": "Run make check.", "photo.bin": "\x00\x01", ".git/memories/no.md": "No.",
		"memories/food.txt": "No peanuts.",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	imports := func(flags ...string) (r foreign.Report, err error) {
		var stdout bytes.Buffer
		args := append([]string{"import", folder, "--url", p.url, "--data", p.data, "--json"}, flags...)
		if err = run(t.Context(), args, noEnvironment, &stdout, io.Discard); err == nil {
			err = json.Unmarshal(stdout.Bytes(), &r)
		}
		return r, err
	}
	for i, want := range []foreign.Counts{{Conversations: 1, Turns: 1, Messages: 2, Memories: 2}, {Conversations: 1, Turns: 1, Messages: 2, Memories: 2}, {}} {
		r, err := imports([][]string{{"--dry-run"}, {"--namespace", "users/ines"}, {"--namespace=users/ines"}}[i]...)
		if g := r.Total; err != nil || g.Conversations != want.Conversations || g.Messages != want.Messages || g.Memories != want.Memories {
			t.Fatalf("run %d: %+v, %v", i, r, err)
		}
		if !slices.ContainsFunc(r.Files, func(f foreign.FileReport) bool {
			return f.Name == "photo.bin" && strings.HasPrefix(f.Problem, "not recognised")
		}) || len(r.Files) != 4 {
			t.Errorf("run %d: the files are %+v", i, r.Files)
		}
	}
	if a := p.do(p.key, "GET", "/api/v1/projects/default/memories/proj%2FCLAUDE.md?namespace=users&namespace=ines", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	var text bytes.Buffer
	if err := run(t.Context(), []string{"import", "--url", p.url, "--data", p.data, folder}, noEnvironment, &text, io.Discard); err != nil ||
		!strings.Contains(text.String(), "Imported 0 conversations, 0 turns, 0 messages, 2 memories.") {
		t.Errorf("%v: %s", err, &text)
	}
	err := run(t.Context(), []string{"import", filepath.Join(folder, "photo.bin"), "--url", p.url, "--data", p.data}, noEnvironment, io.Discard, io.Discard)
	if !errors.Is(err, nothingRecognised) {
		t.Errorf("a file that is none gives %v", err)
	}
}
