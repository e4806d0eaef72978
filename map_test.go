package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestMap compares the picture of docs/ARCHITECTURE.md with what the wings of the engine import, and the table there with
// the packages. An arrow that follows from two others is left out.
func TestMap(t *testing.T) {
	imports, packages := engineImports(t)
	var names []string
	for name := range imports {
		if name != "ground" && name != "store" && name != "enginetest" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var arrows strings.Builder
	for _, from := range names {
		var to []string
		for _, name := range names {
			through := func(next string) bool {
				return next != from && slices.Contains(names, next) && next != name && reaches(imports, next, name)
			}
			if name != from && slices.Contains(imports[from], name) && !slices.ContainsFunc(imports[from], through) {
				to = append(to, name)
			}
		}
		if len(to) > 0 {
			fmt.Fprintf(&arrows, "    %s --> %s\n", from, strings.Join(to, " & "))
		}
	}
	holdPrinted(t, "docs/ARCHITECTURE.md", "```mermaid\nflowchart TB\n    server --> engine\n"+arrows.String()+
		"    message --> ground --> store\n```\n")

	page, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range packages {
		if n := strings.Count(string(page), "\n| `"+name+"` | "); n != 1 {
			t.Errorf("the table of docs/ARCHITECTURE.md has %d rows for %s, not one", n, name)
		}
	}
}

// engineImports returns which wing of the engine imports which others, and the paths of all its packages below engine.
func engineImports(t *testing.T) (imports map[string][]string, packages []string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./engine/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	imports = map[string][]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p importer
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return imports, packages
		} else if err != nil {
			t.Fatal(err)
		}
		from := wingOf(p.ImportPath)
		if name, ok := strings.CutPrefix(p.ImportPath, modulePath+"/engine/"); ok && !strings.HasSuffix(name, "test") {
			packages = append(packages, name)
		}
		for _, path := range p.Imports {
			to := wingOf(path)
			if strings.HasPrefix(path, modulePath+"/engine") && to != from && !slices.Contains(imports[from], to) {
				imports[from] = append(imports[from], to)
			}
		}
	}
}

// reaches tells whether a wing imports another, directly or through others. message and ground import each other, so
// their arrows are not followed.
func reaches(imports map[string][]string, from, to string) bool {
	return slices.ContainsFunc(imports[from], func(next string) bool {
		return next == to || next != "ground" && next != "message" && reaches(imports, next, to)
	})
}
