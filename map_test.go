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

// frames and floor are the rooms that all others stand on. The map draws them as two boxes below the others.
var (
	frames = []string{"jobs", "transfer", "verify"}
	floor  = []string{"records", "access", "ident", "fault"}
)

// TestMap holds the map of docs/ARCHITECTURE.md against what the rooms of the engine import, and the table there against
// the rooms. A room is a package that package engine stands on and that stands on package records.
func TestMap(t *testing.T) {
	imports := engineImports(t)
	var rooms []string
	for name := range imports {
		if reaches(imports, "engine", name) && reaches(imports, name, "records") && !slices.Contains(frames, name) {
			rooms = append(rooms, name)
		}
	}
	slices.Sort(rooms)
	var arrows strings.Builder
	for _, from := range append([]string{"engine"}, rooms...) {
		var to []string // without what it reaches through another room
		for _, room := range rooms {
			through := func(next string) bool { return slices.Contains(rooms, next) && reaches(imports, next, room) }
			if slices.Contains(imports[from], room) && !slices.ContainsFunc(imports[from], through) {
				to = append(to, room)
			}
		}
		if len(to) > 0 {
			fmt.Fprintf(&arrows, "        %s --> %s\n", from, strings.Join(to, " & "))
		}
	}
	holdPrinted(t, "docs/ARCHITECTURE.md", "```mermaid\nflowchart TB\n    server --> engine\n    subgraph rooms\n"+
		arrows.String()+"    end\n    subgraph frames\n        "+strings.Join(frames, " ~~~ ")+
		"\n    end\n    subgraph ground\n        "+strings.Join(floor, " --> ")+"\n        records --> store\n    end\n"+
		"    rooms --> frames --> ground\n```\n")

	page, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range slices.Concat(rooms, frames, floor) {
		if n := strings.Count(string(page), "`"+room+"` | "); n != 1 {
			t.Errorf("the table of docs/ARCHITECTURE.md has %d rows for %s, not one", n, room)
		}
	}
}

// engineImports are the imports among package engine and those below it, which are named without that path.
func engineImports(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./engine/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	name := func(path string) (string, bool) {
		if path == modulePath+"/engine" {
			return "engine", true
		}
		return strings.CutPrefix(path, modulePath+"/engine/")
	}
	imports := map[string][]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p importer
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return imports
		} else if err != nil {
			t.Fatal(err)
		}
		from, _ := name(p.ImportPath)
		imports[from] = nil
		for _, path := range p.Imports {
			if to, ours := name(path); ours {
				imports[from] = append(imports[from], to)
			}
		}
	}
}

// reaches tells whether a package imports another, itself or through others.
func reaches(imports map[string][]string, from, to string) bool {
	return slices.ContainsFunc(imports[from], func(next string) bool { return next == to || reaches(imports, next, to) })
}
