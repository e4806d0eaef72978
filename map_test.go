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

// TestMap compares the diagram in docs/ARCHITECTURE.md with the imports of the engine's groups of packages, and the
// table there with the packages. The diagram omits arrows that follow from others.
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
	_, table, _ := strings.Cut(string(page), "\n| package | what it does |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if rows := strings.Count(table, "\n") + 1; rows != len(packages) {
		t.Errorf("the table of docs/ARCHITECTURE.md has %d rows for %d packages", rows, len(packages))
	}
}

// engineImports returns the imports between the groups of the engine's packages, and the paths of all its packages
// relative to engine.
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

// reaches reports whether a group imports another, directly or through others. It does not follow the imports between
// message and ground, because these import each other.
func reaches(imports map[string][]string, from, to string) bool {
	return slices.ContainsFunc(imports[from], func(next string) bool {
		return next == to || next != "ground" && next != "message" && reaches(imports, next, to)
	})
}
