package foreign

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// memorySink keeps what was read, with the stretches of a conversation joined.
type memorySink struct {
	conversations []*Conversation
	memories      []Memory
	sources       []string // of the memories
}

func (s *memorySink) Conversation(c *Conversation) (Added, error) {
	copied := *c
	copied.Turns = slices.Clone(c.Turns)
	added := Added{}
	for _, t := range c.Turns {
		added.Messages += len(t.Messages)
		if !t.Continues {
			added.Turns++
		}
	}
	i := slices.IndexFunc(s.conversations, func(o *Conversation) bool { return o.ID == c.ID })
	if i < 0 {
		s.conversations = append(s.conversations, &copied)
		added.Conversations++
		return added, nil
	}
	for _, t := range c.Turns {
		all := s.conversations[i]
		if t.Continues {
			last := &all.Turns[len(all.Turns)-1]
			last.Messages = append(last.Messages, t.Messages...)
		} else {
			all.Turns = append(all.Turns, t)
		}
	}
	return added, nil
}

func (s *memorySink) Memory(source string, m *Memory) (Added, error) {
	if m.Namespace == nil {
		m.Namespace = []string{"import", source}
	}
	s.memories, s.sources = append(s.memories, *m), append(s.sources, source)
	return Added{Memories: 1}, nil
}

// folder returns the files of a folder as the command finds them.
func folder(t testing.TB, dir string) (files []File) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "expected.json" {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files = append(files, file(filepath.ToSlash(name), raw))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func file(name string, raw []byte) File {
	return File{Name: name, ReaderAt: bytes.NewReader(raw), Size: int64(len(raw)), ModTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func read(t testing.TB, files ...File) (*memorySink, Report) {
	t.Helper()
	sink := new(memorySink)
	report, err := Read(files, sink, Options{TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return sink, report
}

// expected is the file expected.json of a sample.
type expected struct {
	Report struct {
		Conversations, Turns, Messages, Memories int
		LeftOut                                  map[string]int `json:"left_out"`
		Unknown                                  map[string]int `json:"unknown_records"`
	}
	Sessions []struct {
		ID, Format, Title, Agent string
		Metadata                 map[string]string
		Fork                     string    `json:"fork_of"`
		After                    string    `json:"fork_after"`
		Created                  time.Time `json:"created_at"`
		Turns                    [][]shown
	}
	Memories []struct {
		Namespace []string
		Key       string
		Content   string
		Starts    string `json:"content_starts"`
		Value     any
		Tags      []string
		Created   string `json:"created_at"`
		Updated   string `json:"updated_at"`
	}
	Files map[string]string
}

// shown is a message as expected.json has it.
type shown struct {
	Role, Text, Item string
	Calls            []shownCall
	Results          []shownResult
	Reasoning        int
	Images           int
	At               *time.Time
	Sources          []string `json:"source_ids"`
}

type (
	shownCall   struct{ ID, Name string }
	shownResult struct {
		ID, Text string
		Error    bool
	}
)

// show decodes a message of any format.
func show(m Message) (s shown) {
	s.Sources = m.Sources
	if !m.At.IsZero() {
		s.At = &m.At
	}
	var texts []string
	if list := parseList(m.JSON); list != nil {
		for _, raw := range list {
			s.item(parseObject(raw), &texts)
		}
	} else {
		o := parseObject(m.JSON)
		s.Role = o.text("role")
		if o.has("reasoning_content") {
			s.Reasoning++
		}
		if s.Role == "tool" {
			s.Results = []shownResult{{o.text("tool_call_id"), o.text("content"), false}}
			return s
		}
		texts = append(texts, o.text("content"))
		for _, raw := range o.list("content") {
			s.block(parseObject(raw), &texts)
		}
		for _, raw := range o.list("tool_calls") {
			c := parseObject(raw)
			s.Calls = append(s.Calls, shownCall{c.text("id"), c.object("function").text("name")})
		}
	}
	s.Text = strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "\n")
	return s
}

func (s *shown) block(o object, texts *[]string) {
	switch o.text("type") {
	case "text":
		*texts = append(*texts, o.text("text"))
	case "thinking":
		s.Reasoning++
	case "image", "image_url":
		s.Images++
	case "tool_use":
		s.Calls = append(s.Calls, shownCall{o.text("id"), o.text("name")})
	case "tool_result":
		s.Results = append(s.Results, shownResult{o.text("tool_use_id"), flat(o["content"]), o.truth("is_error")})
	}
}

func (s *shown) item(o object, texts *[]string) {
	switch kind := o.text("type"); kind {
	case "", "message":
		s.Role = o.text("role")
		*texts = append(*texts, flat(o["content"]))
	case "reasoning":
		s.Reasoning++
	case "function_call", "custom_tool_call":
		s.Role = "assistant"
		s.Calls = append(s.Calls, shownCall{o.text("call_id"), o.text("name")})
	case "function_call_output", "custom_tool_call_output":
		s.Role = "tool"
		s.Results = append(s.Results, shownResult{o.text("call_id"), flat(o["output"]), false})
	default:
		s.Role, s.Item = "assistant", kind
	}
}

func flat(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	for _, part := range parseList(raw) {
		text += parseObject(part).text("text")
	}
	return text
}

// TestSamples reads files of each format and compares what they give with what is expected of them.
func TestSamples(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/expected.json")
	if err != nil || len(dirs) < 9 {
		t.Fatal(dirs, err)
	}
	for _, path := range dirs {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var want expected
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			sink, report := read(t, folder(t, dir)...)
			compareReports(t, &want, &report)
			compareSessions(t, &want, sink)
			compareMemories(t, &want, sink)
		})
	}
}

func compareReports(t *testing.T, want *expected, got *Report) {
	t.Helper()
	w, g := &want.Report, &got.Total
	if w.Conversations != g.Conversations || w.Turns != g.Turns || w.Messages != g.Messages || w.Memories != g.Memories {
		t.Errorf("got %+v, want %+v", g, w)
	}
	if !maps.Equal(w.LeftOut, g.LeftOut) || !maps.Equal(w.Unknown, g.Unknown) {
		t.Errorf("left out %v, %v, want %v, %v", g.LeftOut, g.Unknown, w.LeftOut, w.Unknown)
	}
	for name, problem := range want.Files {
		i := slices.IndexFunc(got.Files, func(f FileReport) bool { return f.Name == name })
		if i < 0 || !strings.HasPrefix(got.Files[i].Problem, problem) {
			t.Errorf("%s is not reported as %q: %+v", name, problem, got.Files)
		}
	}
}

func compareSessions(t *testing.T, want *expected, got *memorySink) {
	t.Helper()
	if len(got.conversations) != len(want.Sessions) {
		t.Errorf("got %d conversations, want %d", len(got.conversations), len(want.Sessions))
	}
	for _, w := range want.Sessions {
		i := slices.IndexFunc(got.conversations, func(c *Conversation) bool { return c.ID == w.ID })
		if i < 0 {
			t.Errorf("there is no conversation %s", w.ID)
			continue
		}
		c := got.conversations[i]
		if c.Title != w.Title || c.Agent != w.Agent || c.Format != w.Format || c.ForkOf != w.Fork || w.Fork != "" && c.After != w.After ||
			!maps.Equal(c.Metadata, w.Metadata) || !w.Created.IsZero() && !c.Created.Equal(w.Created) {
			t.Errorf("got %q %q %q %q %q %v %v, want %+v", c.Title, c.Agent, c.Format, c.ForkOf, c.After, c.Metadata, c.Created, w)
		}
		var turns [][]shown
		for _, turn := range c.Turns {
			var messages []shown
			for _, m := range turn.Messages {
				messages = append(messages, show(m))
			}
			turns = append(turns, messages)
		}
		if !reflect.DeepEqual(turns, w.Turns) {
			g, _ := json.MarshalIndent(turns, "", " ")
			x, _ := json.MarshalIndent(w.Turns, "", " ")
			t.Errorf("%s: got %s\nwant %s", w.ID, g, x)
		}
	}
}

func compareMemories(t *testing.T, want *expected, got *memorySink) {
	t.Helper()
	for _, w := range want.Memories {
		i := slices.IndexFunc(got.memories, func(m Memory) bool { return m.Key == w.Key && slices.Equal(m.Namespace, w.Namespace) })
		if i < 0 {
			t.Errorf("there is no memory %q %q", w.Namespace, w.Key)
			continue
		}
		m := got.memories[i]
		if w.Content != "" && m.Content != w.Content || !strings.HasPrefix(m.Content, w.Starts) || w.Tags != nil && !slices.Equal(m.Tags, w.Tags) {
			t.Errorf("got %+v, want %+v", m, w)
		}
		var value any
		_ = json.Unmarshal(m.Value, &value)
		if w.Value != nil && !reflect.DeepEqual(value, w.Value) {
			t.Errorf("%s: got %s, want %v", w.Key, m.Value, w.Value)
		}
		if w.Created != "" && (!m.Created.Equal(timeOf(w.Created)) || !m.Updated.Equal(timeOf(w.Updated))) {
			t.Errorf("%s: got %v and %v, want %s and %s", w.Key, m.Created, m.Updated, w.Created, w.Updated)
		}
	}
}
