package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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

// libraries names who may import a library of others: one room each, with the rooms in it.
var libraries = map[string]string{
	"github.com/gofiber/fiber":           "server",
	"github.com/google/jsonschema-go":    "server", // it describes Go types for openapi.json
	"github.com/modelcontextprotocol":    "server/mcp",
	"github.com/prometheus":              "server",
	"github.com/valyala/fasthttp":        "server",
	"golang.org/x/time":                  "server",
	"github.com/tetratelabs/wazero":      "hostapi",
	"github.com/dgraph-io/badger":        "engine/store/badgerstore",
	"github.com/jackc/pgx":               "engine/store/pgstore",
	"github.com/pkoukk/tiktoken-go":      "engine/tiktoken",
	"github.com/klauspost/compress/s2":   "engine/store/badgerstore", // Badger's tables
	"github.com/klauspost/compress/zstd": "engine/backup",
	"github.com/sashabaranov/go-openai":  "engine/openai",
	"github.com/blevesearch":             "engine/snowball",
	"golang.org/x/text":                  "engine/snowball",
}

// rooms says what each room may import of ours, by path prefix below the module; "" is the wiring. The rooms of the
// engine stand in the order of their floors: none may import one that stands below it in this list.
var rooms = map[string][]string{
	"": {"engine", "hostapi", "policies", "server", "web", "demo"},
	"engine": on("tenant", "project", "transcript", "session", "index", "policy", "memory", "recall", "decision", "catalogue", "tail", "view", "recollect",
		"window", "trial", "summary", "dialogue", "tools", "outbound", "stats", "board"),

	"engine/fault":      {"engine/plan"},
	"engine/ident":      {"engine/fault"},
	"engine/access":     {"engine/fault", "engine/ident"},
	"engine/records":    {"engine/fair", "engine/fault", "engine/ident", "engine/access", "engine/store"},
	"engine/jobs":       ground,
	"engine/transfer":   append(slices.Clone(ground), "engine/chat", "engine/rawjson"),
	"engine/verify":     ground,
	"engine/tenant":     on(),
	"engine/project":    on("tenant"),
	"engine/transcript": on("project"),
	"engine/session":    on("tenant", "project", "transcript"),
	"engine/index":      append(on(), "engine/index/tails", "engine/index/typing"),
	"engine/policy":     on("tenant", "project"),
	"engine/memory":     on("tenant", "project", "index"),
	"engine/recall":     on("tenant", "project", "transcript", "session", "index", "memory"),
	"engine/decision":   on("project", "transcript", "session", "policy"),
	"engine/stats":      on("project", "decision"),
	"engine/catalogue":  on("project", "transcript", "session", "index", "memory", "recall", "decision"),
	"engine/tail":       append(on("project", "transcript", "session", "policy", "decision"), "engine/feed"),
	"engine/feed":       {},
	"engine/view":       append(on("project", "transcript", "session"), "engine/kept"),
	"engine/recollect":  on("project", "transcript", "session", "index", "memory", "recall", "view"),
	"engine/window":     on("project", "transcript", "session", "policy", "decision", "view", "recollect"),
	"engine/trial":      on("project", "transcript", "session", "policy", "decision", "window"),
	"engine/summary":    on("tenant", "project", "transcript", "session", "window"),
	"engine/dialogue":   append(on("project", "transcript", "session"), "engine/kept"),
	"engine/tools":      on("project", "memory", "recall"),
	"engine/outbound":   append(on("project", "session", "decision", "recollect", "window"), "engine/callbody"),
	"engine/entry":      append(on(), "engine/entry/postings"),
	"engine/board":      append(on("tenant", "entry"), "engine/feed"),

	"engine/entry/postings": {},
	"engine/index/tails":    {"engine/store"},
	"engine/index/typing":   {},
	"engine/enginetest": append(on("tenant", "project", "session", "index", "policy", "memory", "recall", "window", "summary",
		"dialogue", "tools", "board"), "engine", "engine/store/memstore", "engine/store/badgerstore", "engine/snowball",
		"engine/tiktoken", "hostapi", "hostapi/wasm", "policies"),

	"engine/callid":     {},
	"engine/items":      {},
	"engine/kept":       {},
	"engine/rawjson":    {},
	"engine/textcut":    {},
	"engine/systemtext": {"engine/rawjson"},
	"engine/repair":     {"engine/chat", "engine/items", "engine/rawjson"},
	"engine/rawedit":    {"engine/items", "engine/plan", "engine/rawjson"},
	"engine/chat": {"engine/callid", "engine/ident", "engine/items", "engine/plan", "engine/prefix",
		"engine/rawedit", "engine/rawjson", "engine/splice"},
	"engine/chat/chattest": {"engine/chat"},
	"engine/tally":         {"engine/callid", "engine/chat", "engine/plan", "engine/rawjson"},
	"engine/fair":          {},
	"engine/replies":       {"engine/chat", "testdata"},
	"engine/resent":        {"engine/chat", "engine/ident", "engine/rawjson"},
	"engine/upstream":      {},
	"engine/vector":        {},
	"engine/callbody": {"engine/chat", "engine/plan", "engine/rawedit", "engine/rawjson", "engine/reminder",
		"engine/splice"},
	"engine/plan":   {},
	"engine/prefix": {"engine/rawjson"},
	"engine/prompt": {"engine/chat", "engine/plan", "engine/prefix", "engine/splice"},
	"engine/splice": {"engine/callid", "engine/plan", "engine/prefix", "engine/rawjson",
		"engine/systemtext"},
	"engine/rank":                    {},
	"engine/report":                  {"engine/plan", "engine/rawjson"},
	"engine/reminder":                {"engine/chat", "engine/ident", "engine/splice"},
	"engine/span":                    {},
	"engine/store":                   {},
	"engine/store/storetest":         {"engine/store", "engine/store/memstore"},
	"engine/store/memstore":          {"engine/store"},
	"engine/store/badgerstore":       {"engine/store", "engine/store/badgerstore/cache", "engine/store/badgerstore/wal"},
	"engine/store/badgerstore/cache": {"engine/store"},
	"engine/store/badgerstore/wal":   {},
	"engine/store/pgstore":           {"engine/store"},
	"engine/backup":                  {"engine/store"},
	"engine/snowball":                {"engine/rank"},
	"engine/tiktoken":                {},
	"engine/openai":                  {"engine/recall", "engine/summary"},
	"engine/openai/openaitest":       {},
	"hostapi":                        {"engine/fair", "engine/plan", "hostapi/wasm"},
	"hostapi/wasm":                   {"hostapi/wasm"},
	"policies":                       {"policies", "sdk/go"},
	"sdk/go":                         {"sdk/go"},
	"server": append(on("tenant", "project", "session", "policy", "memory", "recall", "decision", "catalogue", "tail", "recollect", "window", "trial",
		"summary", "dialogue", "tools", "outbound", "stats", "board"), "engine", "engine/callbody", "engine/feed", "engine/replies", "server/mcp", "server/proxy"),
	"server/mcp":   {"engine/access", "engine/fault", "engine/tools"},
	"server/proxy": {"engine/chat", "engine/rawjson", "engine/replies", "engine/resent", "engine/upstream"},
	"web":          {},
	"demo":         {"sdk/go"},
	"bench":        {"testdata"},
	"scripts":      {"testdata", "engine/tiktoken"},
	"testdata":     {"testdata"},
}

// ground is what every room of the engine stands on.
var ground = []string{"engine/fault", "engine/ident", "engine/access", "engine/records", "engine/store"}

// on gives the ground, the three frames that rooms hand their lists to, the pure packages, and rooms of the engine.
func on(below ...string) []string {
	out := append(slices.Clone(ground), "engine/jobs", "engine/transfer", "engine/verify", "engine/chat", "engine/plan",
		"engine/prefix", "engine/prompt", "engine/splice", "engine/tally", "engine/rank", "engine/fair",
		"engine/callid", "engine/items", "engine/rawjson", "engine/textcut", "engine/report", "engine/reminder", "engine/span",
		"engine/systemtext", "engine/repair", "engine/resent", "engine/upstream", "engine/vector")
	for _, room := range below {
		out = append(out, "engine/"+room)
	}
	return out
}

// maxRoom bounds the lines of a room's product code. A room that outgrows it holds more than one noun.
const maxRoom = 2850

// TestRoomSizes holds the engine's rooms within maxRoom.
func TestRoomSizes(t *testing.T) {
	for room := range rooms {
		if !strings.HasPrefix(room, "engine") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(room), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(text, []byte{'\n'})
		}
		if lines == 0 || lines > maxRoom {
			t.Errorf("%s has %d lines, at most %d are meant", room, lines, maxRoom)
		}
	}
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
	if imported == "go.yaml.in/yaml/v3" && (room == "" || room == "server" || room == "demo") {
		return "" // the config file, the prose of openapi.json and the scripts of the demo are YAML
	}
	for library, home := range libraries {
		if strings.HasPrefix(imported, library) {
			if room == home || strings.HasPrefix(room, home+"/") {
				return ""
			}
			return "that library belongs to " + home
		}
	}
	return "that library has no room"
}
