package tools_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
)

// file runs a command of the memory tool.
func file(k *enginetest.Kit, command string, said ...any) tools.Result {
	k.Helper()
	in := map[string]any{"command": command}
	for i := 0; i < len(said); i += 2 {
		in[said[i].(string)] = said[i+1]
	}
	raw, err := json.Marshal(in)
	if err != nil {
		k.Fatal(err)
	}
	return use(k, "memory", string(raw))
}

// Every command responds word for word as in the published reference of memory_20250818.
func TestMemoryFilesAnswerAsTheReferenceSays(t *testing.T) {
	k := enginetest.New(t)
	const notes, todo = "/memories/core/notes.md", "/memories/core/todo.md"
	text := "Line 1\nOld Text\nLine 3\nLine 4\nLine 5\nLine 6"
	for _, step := range []struct {
		command string
		said    []any
		want    string
		wrong   bool
	}{
		{"view", []any{"path", "/memories"}, "Here're the files and directories up to 2 levels deep in /memories, " +
			"excluding hidden items and node_modules:\n0B\t/memories", false},
		{"view", []any{"path", notes}, "The path " + notes + " does not exist. Please provide a valid path.", true},
		{"create", []any{"path", notes, "file_text", text}, "File created successfully at: " + notes, false},
		{"create", []any{"path", notes, "file_text", "x"}, "Error: File " + notes + " already exists", true},
		{"create", []any{"path", "/memories/daily/notes.md", "file_text", "x"}, "Error: File " + notes + " already exists", true},
		{"view", []any{"path", "/memories/daily/notes.md"},
			"The path /memories/daily/notes.md does not exist. Please provide a valid path.", true},
		{"view", []any{"path", notes, "view_range", []int{2, 3}},
			"Here's the content of " + notes + " with line numbers:\n     2\tOld Text\n     3\tLine 3", false},
		{"view", []any{"path", notes, "view_range", []int{5, -1}},
			"Here's the content of " + notes + " with line numbers:\n     5\tLine 5\n     6\tLine 6", false},
		{"str_replace", []any{"path", notes, "old_str", "Old Text", "new_str", "New Text"},
			"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" +
				"     1\tLine 1\n     2\tNew Text\n     3\tLine 3\n     4\tLine 4", false},
		{"str_replace", []any{"path", notes, "old_str", "Old Text", "new_str", "x"},
			"No replacement was performed, old_str `Old Text` did not appear verbatim in " + notes + ".", true},
		{"str_replace", []any{"path", notes, "old_str", "Line", "new_str", "x"}, "No replacement was performed. Multiple " +
			"occurrences of old_str `Line` in lines: 1, 3, 4, 5, 6. Please ensure it is unique", true},
		{"str_replace", []any{"path", todo, "old_str", "a", "new_str", "b"},
			"Error: The path " + todo + " does not exist. Please provide a valid path.", true},
		{"str_replace", []any{"path", "/memories/core", "old_str", "a", "new_str", "b"},
			"Error: The path /memories/core does not exist. Please provide a valid path.", true},
		{"create", []any{"path", todo, "file_text", "Line 1\nLine 2"}, "File created successfully at: " + todo, false},
		{"insert", []any{"path", todo, "insert_line", 1, "insert_text", "Inserted Line\n"},
			"The file " + todo + " has been edited.", false},
		{"view", []any{"path", todo}, "Here's the content of " + todo + " with line numbers:\n" +
			"     1\tLine 1\n     2\tInserted Line\n     3\tLine 2\n     4\t", false},
		{"insert", []any{"path", todo, "insert_line", 9, "insert_text", "x"}, "Error: Invalid `insert_line` parameter: 9. " +
			"It should be within the range of lines of the file: [0, 3]", true},
		{"insert", []any{"path", "/memories/core/no.md", "insert_line", 0, "insert_text", "x"},
			"Error: The path /memories/core/no.md does not exist", true},
		{"rename", []any{"old_path", todo, "new_path", notes}, "Error: The destination " + notes + " already exists", true},
		{"rename", []any{"old_path", "/memories/core/no.md", "new_path", todo},
			"Error: The path /memories/core/no.md does not exist", true},
		{"rename", []any{"old_path", todo, "new_path", "/memories/daily/done.md"},
			"Successfully renamed " + todo + " to /memories/daily/done.md", false},
		{"view", []any{"path", todo}, "The path " + todo + " does not exist. Please provide a valid path.", true},
		{"view", []any{"path", "/memories"}, "Here're the files and directories up to 2 levels deep in /memories, " +
			"excluding hidden items and node_modules:\n71B\t/memories\n43B\t/memories/core\n43B\t" + notes +
			"\n28B\t/memories/daily\n28B\t/memories/daily/done.md", false},
		{"delete", []any{"path", notes}, "Successfully deleted " + notes, false},
		{"delete", []any{"path", notes}, "Error: The path " + notes + " does not exist", true},
		{"delete", []any{"path", "/memories/daily"}, "Successfully deleted /memories/daily", false},
		{"delete", []any{"path", "/memories/daily"}, "Error: The path /memories/daily does not exist", true},
		{"delete", []any{"path", "/memories"}, "Error: Cannot delete the /memories directory itself", true},
	} {
		got := file(k, step.command, step.said...)
		if got.Content != step.want || got.IsError != step.wrong {
			t.Errorf("%s %v: error %v\n%s\nwant\n%s", step.command, step.said, got.IsError, got.Content, step.want)
		}
	}
	if left := k.ListMemories(memory.Filter{}, 5); len(left) != 0 {
		t.Errorf("%+v is left", left)
	}
	k.Sound()
}

// Files are memories: they are recalled and have a history. Only memories without a namespace are files. A rename
// leaves nothing behind.
func TestMemoryFilesAreMemories(t *testing.T) {
	k := enginetest.New(t)
	k.Remember(memory.Spec{Key: "home", Content: "berth one", Tags: []string{"t"}})
	k.Remember(memory.Spec{Key: "home", Namespace: []string{"users"}, Content: "berth two"})
	file(k, "str_replace", "path", "/memories/core/home.md", "old_str", "one", "new_str", "three")
	m, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "home")
	if err != nil || m.Content != "berth three" || m.Version != 2 || !slices.Equal(m.Tags, []string{"t"}) {
		t.Errorf("%+v %v", m, err)
	}
	file(k, "rename", "old_path", "/memories/core/home.md", "new_path", "/memories/core/harbour.md")
	if got := use(k, "memory_recall", `{"query":"berth three"}`); !strings.Contains(got.Content, "1. harbour (core") {
		t.Error(got.Content)
	}
	if got := use(k, "memory_get", `{"key":"home","namespace":["users"]}`); got.Content != "berth two" {
		t.Error(got.Content)
	}
	file(k, "delete", "path", "/memories/core")
	if len(k.ListMemories(memory.Filter{}, 5)) != 1 {
		t.Error("deleting a folder takes what is no file")
	}
	k.Sound()
}

// If a text occurs very often in a file, the error names only the first of its lines, however long the file is.
func TestMemoryFileNamesFewOccurrences(t *testing.T) {
	k := enginetest.New(t)
	const notes = "/memories/core/notes.md"
	file(k, "create", "path", notes, "file_text", "one\n"+strings.Repeat("a", 1<<19)+strings.Repeat("\na", 200))
	for _, old := range []string{"a", strings.Repeat("a", 1<<18)} {
		r := file(k, "str_replace", "path", notes, "old_str", old, "new_str", "b")
		if _, lines, _ := strings.Cut(r.Content, "` in lines: "); !r.IsError ||
			lines != strings.Repeat("2, ", 100)+"and more. Please ensure it is unique" {
			t.Errorf("%d letters: %v %.200q", len(old), r.IsError, lines)
		}
	}
	r := file(k, "str_replace", "path", notes, "old_str", "\na", "new_str", "b")
	if !strings.Contains(r.Content, "` in lines: 1, 2, 3, 4, ") {
		t.Errorf("%.300q", r.Content)
	}
}

// No path reaches anything but a file's own memory, however it climbs or is encoded.
func TestMemoryFilesDoNotClimb(t *testing.T) {
	k := enginetest.New(t)
	k.Remember(memory.Spec{Key: "kept", Content: "kept"})
	climbing := []string{"/memories/../memories/core/kept.md", "/memories/core/../core/kept.md", "/memories/core/./kept.md",
		"/memories/core/%2e%2e/core/kept.md", "/memories/%252e%252e%252fcore/kept.md", `/memories/core\..\kept.md`,
		"/memories/core/%2E%2E%2Fcore%2Fkept.md", "/memories/core/%5c..%5ckept.md", "/memories/core/kept.md\x00"}
	for _, path := range append(climbing, "", "/", "memories/core/kept.md", "/etc/passwd", "/memoriesx/core/kept.md",
		"/memories/core/kept", "/memories/x/kept.md", "/memories/core/sub/kept.md", "/memories/core/kept%2emd",
		"/memories/core//kept.md", "/memories/core/.md", "/memories/core/...md", "/memories/core/a\tb.md") {
		for command, said := range map[string][]any{"view": {"path", path}, "delete": {"path", path},
			"create":      {"path", path, "file_text", "x"},
			"str_replace": {"path", path, "old_str", "kept", "new_str", "x"},
			"insert":      {"path", path, "insert_line", 0, "insert_text", "x"},
			"rename":      {"old_path", path, "new_path", "/memories/core/moved.md"}} {
			r := file(k, command, said...)
			if !r.IsError || slices.Contains(climbing, path) && !strings.HasSuffix(r.Content, " would escape /memories directory") {
				t.Errorf("%s %q: %s", command, path, r.Content)
			}
		}
		if r := file(k, "rename", "old_path", "/memories/core/kept.md", "new_path", path); !r.IsError {
			t.Errorf("rename to %q: %s", path, r.Content)
		}
	}
	if m := k.ListMemories(memory.Filter{}, 5); len(m) != 1 || m[0].Content != "kept" || m[0].Version != 1 {
		t.Errorf("there is %+v", m)
	}
}

// An edit that is repeated with its Idempotency-Key changes nothing more.
func TestMemoryFileEditsAreIdempotent(t *testing.T) {
	k := enginetest.New(t)
	file(k, "create", "path", "/memories/core/log.md", "file_text", "begun")
	call := tools.Call{Name: "memory", Arguments: json.RawMessage(
		`{"command":"insert","path":"/memories/core/log.md","insert_line":1,"insert_text":"more"}`)}
	for range 3 {
		r, err := k.Tools.Call(k.Context(), k.Admin, ident.Once{Key: "once"}, ident.DefaultProject, call)
		if err != nil || r.IsError {
			t.Fatalf("%+v %v", r, err)
		}
	}
	if got := use(k, "memory_get", `{"key":"log"}`); got.Content != "begun\nmore\n" {
		t.Errorf("%q", got.Content)
	}
}

// List and get show everything there is, in pieces that a model can read.
func TestToolsListAndGet(t *testing.T) {
	k := enginetest.New(t)
	long := strings.Repeat("wörter ", 12_000)
	k.Remember(memory.Spec{Key: "long", Content: long})
	for i := range 60 {
		k.Remember(memory.Spec{Key: fmt.Sprint("k", i), Content: fmt.Sprint("fact ", i), Namespace: []string{"a", "b"}})
	}
	seen, cursor := map[string]bool{}, ""
	for {
		listed := use(k, "memory_list", fmt.Sprintf(`{"limit":"50","cursor":%q}`, cursor)).Structured.(tools.Listed)
		for _, m := range listed.Memories {
			seen[memory.ID(m.Namespace, m.Key)] = true
		}
		if listed.NextCursor == nil {
			break
		}
		cursor = *listed.NextCursor
	}
	if len(seen) != 61 {
		t.Errorf("%d are listed", len(seen))
	}
	var whole strings.Builder
	for offset := 0; ; {
		got := use(k, "memory_get", fmt.Sprintf(`{"key":"long","offset":%d}`, offset)).Structured.(tools.Got)
		whole.WriteString(got.Content)
		if got.NextOffset == nil {
			break
		}
		offset = *got.NextOffset
	}
	if whole.String() != long {
		t.Errorf("a long memory comes back with %d of %d bytes", whole.Len(), len(long))
	}
	if r := use(k, "memory_get", `{"key":"k1"}`); !r.IsError || failed(r) != "not_found" {
		t.Errorf("%+v", r)
	}
	if r := use(k, "memory_forget", `{"key":"k1","namespace":"a, b"}`); !strings.HasPrefix(r.Content, "Forgot") {
		t.Errorf("%+v", r)
	}
}
