package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/seed-0906e6bc/mneme"

// importer is what `go list -json` says of a package.
type importer struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

// libraries names who may import a library of others: one room each.
var libraries = map[string]string{
	"github.com/gofiber/fiber":          "server",
	"github.com/google/jsonschema-go":   "server", // it describes Go types for openapi.json
	"github.com/modelcontextprotocol":   "server/mcp",
	"github.com/prometheus":             "server",
	"github.com/valyala/fasthttp":       "server",
	"golang.org/x/time":                 "server",
	"github.com/tetratelabs/wazero":     "hostapi",
	"github.com/dgraph-io/badger":       "engine/store/badgerstore",
	"github.com/jackc/pgx":              "engine/store/pgstore",
	"github.com/pkoukk/tiktoken-go":     "engine/tiktoken",
	"github.com/klauspost/compress":     "engine/backup",
	"github.com/sashabaranov/go-openai": "engine/openai",
	"github.com/blevesearch":            "engine/snowball",
	"golang.org/x/text":                 "engine/snowball",
}

// rooms says what each room may import of ours, by path prefix below the module; "" is the wiring.
var rooms = map[string][]string{
	"":                         {"engine", "hostapi", "policies", "server"},
	"engine":                   {"engine/chat", "engine/fair", "engine/plan", "engine/rank", "engine/store"},
	"engine/backup":            {"engine/store"},
	"engine/chat":              {"engine/plan"},
	"engine/chat/chattest":     {"engine/chat"},
	"engine/fair":              {},
	"engine/plan":              {},
	"engine/rank":              {},
	"engine/snowball":          {"engine/rank"},
	"engine/store":             {},
	"engine/store/storetest":   {"engine/store", "engine/store/memstore"},
	"engine/store/memstore":    {"engine/store"},
	"engine/store/badgerstore": {"engine/store"},
	"engine/store/pgstore":     {"engine/store"},
	"engine/tiktoken":          {},
	"engine/openai":            {"engine"},
	"engine/openai/openaitest": {},
	"hostapi":                  {"engine/fair", "engine/plan", "hostapi/wasm"},
	"hostapi/wasm":             {"hostapi/wasm"},
	"policies":                 {"policies", "sdk/go"},
	"sdk/go":                   {"sdk/go"},
	"server":                   {"engine", "server", "server/mcp"},
	"server/mcp":               {"engine"},
	"testdata":                 {"testdata"},
}

// TestDependencyRule holds the house's one rule: server -> engine <- hostapi, adapters -> engine and never each
// other, only the wiring imports everything, and each library has one room.
func TestDependencyRule(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Standard,Imports", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; seen++ {
		var p importer
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		room := roomOf(p.ImportPath)
		allowed, ok := rooms[room]
		if !ok {
			t.Errorf("%s is in no room that the rule knows", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if why := forbidden(room, allowed, imported); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, why)
			}
		}
	}
	if seen < len(rooms) {
		t.Errorf("saw %d packages, fewer than there are rooms", seen)
	}
}

// roomOf is the longest room that a package lies in.
func roomOf(path string) string {
	path = strings.TrimPrefix(strings.TrimPrefix(path, modulePath), "/")
	for path != "" {
		if _, ok := rooms[path]; ok {
			return path
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return path
		}
		path = path[:i]
	}
	return ""
}

func forbidden(room string, allowed []string, imported string) string {
	if strings.HasPrefix(imported, modulePath+"/") {
		to := roomOf(imported)
		if to == room || slices.ContainsFunc(allowed, func(a string) bool { return to == a || room == "" && strings.HasPrefix(to, a) }) {
			return ""
		}
		return "the dependency rule forbids it"
	}
	if !strings.Contains(strings.Split(imported, "/")[0], ".") {
		return "" // the standard library
	}
	if imported == "go.yaml.in/yaml/v3" && (room == "" || room == "server") {
		return "" // the config file and the prose of openapi.json are YAML
	}
	for library, home := range libraries {
		if strings.HasPrefix(imported, library) {
			if home == room {
				return ""
			}
			return "that library belongs to " + home
		}
	}
	return "that library has no room"
}
