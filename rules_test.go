package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/seed-0906e6bc/mneme"

// importer is a package in the output of `go list -json`.
type importer struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

// libraries maps libraries to the packages that may import them, separated by blanks. Subpackages may import them, too.
var libraries = map[string]string{
	"github.com/gofiber/fiber":            "server",
	"github.com/google/jsonschema-go":     "server", // describes Go types for openapi.json
	"github.com/modelcontextprotocol":     "server/mcp",
	"github.com/prometheus":               "server",
	"github.com/valyala/fasthttp":         "server",
	"golang.org/x/time":                   "server",
	"github.com/tetratelabs/wazero":       "hostapi",
	"github.com/dgraph-io/badger":         "engine/store/badgerstore",
	"github.com/dgraph-io/ristretto/v2/z": "engine/store/badgerstore", // Badger's memory
	"github.com/jackc/pgx":                "engine/store/pgstore",
	"github.com/pkoukk/tiktoken-go":       "engine/message/tiktoken",
	"github.com/klauspost/compress/s2":    "engine/store/badgerstore", // Badger's tables
	"github.com/klauspost/compress/zstd":  "engine/store/backup engine/gateway/relay foreign",
	"github.com/andybalholm/brotli":       "engine/gateway/relay",
	"github.com/sashabaranov/go-openai":   "engine/openai",
	"github.com/blevesearch":              "engine/memory/snowball",
	"golang.org/x/text":                   "engine/memory", // snowball and model2vec
}

// wings lists the groups of packages that each group may import. Within a group, packages may import each other; Go
// refuses cycles.
var wings = map[string][]string{
	"":       {"engine", "board", "gateway", "insight", "memory", "message", "session", "tenant", "window", "ground", "store", "openai", "hostapi", "policies", "server", "web", "demo", "foreign"},
	"server": {"foreign", "engine", "board", "gateway", "insight", "memory", "message", "session", "tenant", "window", "ground", "store"},
	"engine": {"board", "gateway", "insight", "memory", "message", "session", "tenant", "window", "ground", "store"},

	"insight": {"memory", "message", "session", "tenant", "window", "ground", "store"},
	"gateway": {"message", "session", "tenant", "window", "ground", "store"},
	"window":  {"memory", "message", "session", "tenant", "ground", "store"},
	"memory":  {"message", "session", "tenant", "ground", "store"},
	"session": {"message", "tenant", "ground", "store"},
	"board":   {"tenant", "ground", "store"},
	"tenant":  {"message", "ground", "store"},
	"message": {"ground"},
	"ground":  {"message", "store"}, // transfer reads JSON with message/rawjson
	"store":   {},
	"openai":  {"memory", "window"},

	"enginetest": {"engine", "board", "memory", "message", "session", "tenant", "window", "ground", "store", "hostapi", "policies"},
	"foreign":    {},
	"hostapi":    {"ground"},
	"policies":   {"sdk"},
	"sdk":        {},
	"web":        {},
	"demo":       {"sdk"},
	"bench":      {"testdata", "insight", "message"},
	"scripts":    {"testdata", "insight", "message"},
}

// ground lists the packages below all others of the engine, each before those that it imports.
var ground = []string{"transfer", "verify", "jobs", "records", "ident", "fault", "admission", "lru", "plan"}

// maxEngineNames is the maximum number of folders in engine, so that a reader can remember them.
const maxEngineNames = 20

// TestEngineNames checks that the engine has few folders, and that each belongs to a group.
func TestEngineNames(t *testing.T) {
	entries, err := os.ReadDir("engine")
	if err != nil {
		t.Fatal(err)
	}
	folders := 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		folders++
		if _, ok := wings[wingOf(modulePath+"/engine/"+e.Name())]; !ok {
			t.Errorf("engine/%s belongs to no wing", e.Name())
		}
	}
	if folders == 0 || folders > maxEngineNames {
		t.Errorf("engine has %d folders, at most %d are allowed", folders, maxEngineNames)
	}
}

// TestImports checks every import against wings and libraries, and that each group exists.
func TestImports(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Standard,Imports", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p importer
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		wing := wingOf(p.ImportPath)
		seen[wing] = true
		if _, ok := wings[wing]; !ok {
			t.Errorf("%s belongs to no wing", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if why := forbidden(p.ImportPath, imported); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, why)
			}
		}
	}
	for wing := range wings {
		if !seen[wing] {
			t.Errorf("wing %q has no package", wing)
		}
	}
}

// wingOf returns the group of a package: the first element of its path, or the second below engine.
func wingOf(path string) string {
	path = strings.TrimPrefix(strings.TrimPrefix(path, modulePath), "/")
	first, rest, _ := strings.Cut(path, "/")
	if first != "engine" || rest == "" {
		return first
	}
	name, _, _ := strings.Cut(rest, "/")
	if slices.Contains(ground, name) {
		return "ground"
	}
	return name
}

// forbidden returns the reason why a package may not import another, or "".
func forbidden(from, imported string) string {
	wing := wingOf(from)
	if strings.HasPrefix(imported, modulePath+"/") {
		to := wingOf(imported)
		if to == wing || to == "testdata" || slices.Contains(wings[wing], to) {
			return ""
		}
		return "wing " + wing + " must not import wing " + to
	}
	if !strings.Contains(strings.Split(imported, "/")[0], ".") {
		return "" // the standard library
	}
	if imported == "go.yaml.in/yaml/v3" && (wing == "" || wing == "server" || wing == "demo" || wing == "foreign") {
		return "" // the config file, the descriptions in openapi.json and the scripts of the demo are YAML
	}
	folder := strings.TrimPrefix(strings.TrimPrefix(from, modulePath), "/")
	for library, homes := range libraries {
		if !strings.HasPrefix(imported, library) {
			continue
		}
		for home := range strings.FieldsSeq(homes) {
			if folder == home || strings.HasPrefix(folder, home+"/") {
				return ""
			}
		}
		return "only " + homes + " may import it"
	}
	return "no package may import that library: add it to libraries"
}
