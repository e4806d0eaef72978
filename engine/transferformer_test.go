package engine_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// formerWindow is a window that an earlier build returned.
type formerWindow struct {
	Project string          `json:"project"`
	Request json.RawMessage `json:"request"`
	Window  json.RawMessage `json:"window"`
}

// windowShown is the part of a window that must not change when its tenant is transferred.
type windowShown struct {
	Format   string          `json:"format"`
	System   json.RawMessage `json:"system"`
	Messages json.RawMessage `json:"messages"`
	Text     string          `json:"text"`
	Usage    struct {
		Messages   int `json:"history_messages"`
		Considered int `json:"considered_messages"`
	} `json:"usage"` // tokens are counted differently now
	Summary *struct {
		Text   string    `json:"text"`
		Turns  [2]uint32 `json:"covers_turns"`
		Covers int       `json:"covers_messages"`
	} `json:"summary"`
}

// An export file of an earlier build is imported completely: the store verifies, the windows are the same to the
// byte, and a new export has the same lines.
func TestImportOfFormerBuild(t *testing.T) {
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("..", "testdata", "tenant-0.1", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	file := read("tenant.ndjson")
	var header struct {
		At time.Time `json:"created_at"`
	}
	if err := json.Unmarshal(file[:bytes.IndexByte(file, '\n')], &header); err != nil {
		t.Fatal(err)
	}
	k := enginetest.New(t)
	k.Now = header.At.Add(time.Minute)
	asTenant(k, "moved")
	imported(k, file)
	k.Drain()
	if r := k.Verify(); !r.Clean() || r.LeftoverCount > 0 {
		t.Fatalf("%+v %+v", r.Findings, r.Leftovers)
	}

	var former []formerWindow
	if err := json.Unmarshal(read("windows.json"), &former); err != nil {
		t.Fatal(err)
	}
	for _, f := range former {
		var req window.Request
		if err := json.Unmarshal(f.Request, &req); err != nil {
			t.Fatal(err)
		}
		// In all windows of that build, reminders were at the front, and agents saw whole delegations.
		if req.Memories != nil {
			req.Memories.Position, req.Memories.Role = "first", "system"
		}
		req.Viewer.Whole = true
		var err error
		if f.Request, err = json.Marshal(req); err != nil {
			t.Fatal(err)
		}
		answer, err := k.Assemble(f.Project, &req, f.Request, nil)
		if err != nil {
			t.Fatalf("%s %s: %v", f.Project, f.Request, err)
		}
		var got, want windowShown
		if err := json.Unmarshal(answer, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(f.Window, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the window of %s is\n%s\nwas\n%s", f.Request, answer, f.Window)
		}
	}
	if len(former) < 20 {
		t.Errorf("only %d windows are held against what they were", len(former))
	}

	was, is := lines(file), lines(export(k))
	if len(was) != len(is) {
		t.Fatalf("%d lines, then %d", len(was), len(is))
	}
	for i := 1; i < len(was)-1; i++ {
		is[i] = strings.ReplaceAll(is[i], `,"trust":"model"`, "") // as all memories of before
		if was[i] != is[i] && !bytes.HasPrefix([]byte(was[i]), []byte(`{"type":"project","id":"default"`)) {
			t.Errorf("line %d of the export is\n%s\nwas\n%s", i+1, is[i], was[i])
		}
	}
}
