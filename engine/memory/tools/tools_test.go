package tools_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
)

// use calls a tool with arguments as JSON.
func use(k *enginetest.Kit, name, arguments string) tools.Result {
	k.Helper()
	r, err := k.Tools.Call(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		tools.Call{Name: name, Arguments: json.RawMessage(arguments), SessionID: "thread"})
	if err != nil {
		k.Fatalf("%s %s: %v", name, arguments, err)
	}
	return r
}

// failed returns the code of a failure reported to a model.
func failed(r tools.Result) string {
	if f, ok := r.Structured.(tools.Failure); ok && r.IsError {
		return f.Error.Code
	}
	return ""
}

// All ways in which models write the same arguments store the same memory.
func TestToolsTakeArgumentsAsModelsWriteThem(t *testing.T) {
	for name, arguments := range map[string]string{
		"object": `{"key":"k","content":"x","tags":["a","b"],"importance":0.7,"category":"daily"}`,
		"string": `"{\"key\":\"k\",\"content\":\"x\",\"tags\":[\"a\",\"b\"],` +
			`\"importance\":0.7,\"category\":\"daily\"}"`,
		"numbers as text":  `{"key":"k","content":"x","tags":["a","b"],"importance":"0.7","category":"daily"}`,
		"tags as text":     `{"key":"k","content":"x","tags":"a, b","importance":0.7,"category":"daily"}`,
		"category in caps": `{"key":"k","content":"x","tags":["a","b"],"importance":0.7,"category":" Daily "}`,
		"spaces around": ` "  {\"key\":\"k\",\"content\":\"x\",\"tags\":\"a,b\",` +
			`\"importance\":0.7,\"category\":\"daily\"} " `,
	} {
		t.Run(name, func(t *testing.T) {
			k := enginetest.New(t)
			if r := use(k, "memory_store", arguments); r.IsError {
				t.Fatal(r.Content)
			}
			m, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "k")
			if err != nil || m.Content != "x" || strings.Join(m.Tags, " ") != "a b" || m.Importance != 0.7 ||
				m.Category != "daily" || *m.SessionID != "thread" {
				t.Errorf("%+v %v", m, err)
			}
		})
	}
	k := enginetest.New(t)
	r := use(k, "memory_store", `{"key":"k","content":"x","tags":null,"importance":null,"category":null}`)
	m, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "k")
	if r.IsError || err != nil || m.Category != "core" || m.Importance != 0.5 || m.SessionID != nil {
		t.Errorf("null is not said: %+v %v %s", m, err, r.Content)
	}
}

// A model is told all its mistakes at once, with the correct form, and nothing changes.
func TestToolsTellModelsWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct{ tool, arguments, code, says string }{
		"no such tool":   {"memory_search", `{}`, "unknown_tool", "memory_recall"},
		"no tool":        {"", `{}`, "unknown_tool", "memory_recall"},
		"not JSON":       {"memory_store", `"{key: k}"`, "invalid_arguments", "JSON object"},
		"a list":         {"memory_store", `["k","x"]`, "invalid_arguments", "JSON object"},
		"other argument": {"memory_store", `{"key":"k","text":"x"}`, "unknown_argument", "content"},
		"no content":     {"memory_store", `{"key":"k"}`, "blank", "content"},
		"blank content":  {"memory_store", `{"key":"k","content":"\u200b \n"}`, "blank", "content"},
		"content as object": {"memory_store", `{"key":"k","content":{"a":1}}`,
			"wrong_type", "content: must be a string"},
		"category": {"memory_store", `{"key":"k","content":"x","category":"permanent"}`,
			"invalid_value", "core, daily or conversation"},
		"importance": {"memory_store", `{"key":"k","content":"x","importance":"high"}`,
			"wrong_type", "importance: must be a number"},
		"importance 11": {"memory_store", `{"key":"k","content":"x","importance":11}`,
			"out_of_range", "from 0 to 1"},
		"too long": {"memory_store", `{"key":"k","content":"` + strings.Repeat("x", 1<<20+1) + `"}`,
			"content_too_large", "split it into memories"},
		"too many tags": {"memory_store", `{"key":"k","content":"x","tags":"` + strings.Repeat("a,b,", 5_000) + `"}`,
			"too_many", "64"},
		"tags of lists": {"memory_store", `{"key":"k","content":"x","tags":[["a"]]}`,
			"wrong_type", "list of strings"},
		"forget nothing": {"memory_forget", ``, "required", "memory_recall"},
		"forget null":    {"memory_forget", `{"key":null}`, "required", "memory_recall"},
		"recall nothing": {"memory_recall", `null`, "required", `"*"`},
		"recall blank":   {"memory_recall", `{"query":" "}`, "required", `"*"`},
		"recall by a date": {"memory_recall", `{"query":"x","since":"last spring"}`,
			"invalid_time", "now it is Thursday, 2026-03-05"},
	} {
		t.Run(name, func(t *testing.T) {
			k := enginetest.New(t)
			before := len(k.Everything(ident.DefaultTenant))
			r := use(k, test.tool, test.arguments)
			if !r.IsError || failed(r) != test.code || !strings.Contains(r.Content, test.says) {
				t.Errorf("code %q, want %q: %s", failed(r), test.code, r.Content[:min(len(r.Content), 400)])
			}
			if after := len(k.Everything(ident.DefaultTenant)); after != before {
				t.Errorf("%d records changed", after-before)
			}
		})
	}
	k := enginetest.New(t)
	r := use(k, "memory_store", `{"key":[],"content":{},"importance":"x","nonsense":1}`)
	if f, ok := r.Structured.(tools.Failure); !ok || len(f.Error.Errors) != 4 {
		t.Errorf("not all faults are told: %s", r.Content)
	}
}

// What a model calls a memory is its key, unless it is no id. The same name finds it again, and other names do not.
func TestToolsTakeAnyNameAsKey(t *testing.T) {
	k := enginetest.New(t)
	names := []string{"user_name", "user name?", "user name!", "größe", "grösse", "用户名", "اسم", "👍", "a/b", "a\\b", "../../..",
		"a%2Fb", "/a!b", " x", "x ~1", strings.Repeat("ü", 64), "C++", "C#"}
	for _, name := range names {
		b, err := json.Marshal(map[string]string{"key": name, "content": "this is " + name})
		if err != nil {
			t.Fatal(err)
		}
		r := use(k, "memory_store", string(b))
		s, ok := r.Structured.(tools.Stored)
		if !ok || !s.Created || s.Key != name {
			t.Fatalf("%q: %s", name, r.Content)
		}
		m, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, memory.ID(nil, name))
		if err != nil || m.Content != "this is "+name {
			t.Errorf("%q: %+v %v", name, m, err)
		}
	}
	for _, name := range names {
		b, err := json.Marshal(map[string]string{"key": name})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{true, false} {
			r := use(k, "memory_forget", string(b))
			if f, ok := r.Structured.(memory.Forgotten); !ok || f.Forgotten != want || f.Key != name {
				t.Errorf("forgetting %q: %s", name, r.Content)
			}
		}
	}
	for _, name := range []string{strings.Repeat("x", 129), strings.Repeat("ü", 65), "name\u200b", "a\tb", "a\nb", " ", "\u2028", ".."} {
		b, err := json.Marshal(map[string]string{"key": name, "content": "x"})
		if err != nil {
			t.Fatal(err)
		}
		if r := use(k, "memory_store", string(b)); failed(r) != "invalid_id" || !strings.Contains(r.Content, ident.IDRule) {
			t.Errorf("%q: %s", name, r.Content)
		}
	}
}

// A call is idempotent like any other request that stores, and returns the same response.
func TestToolCallsAreIdempotent(t *testing.T) {
	k := enginetest.New(t)
	call := func(key, name, arguments string) tools.Result {
		t.Helper()
		r, err := k.Tools.Call(t.Context(), k.Admin, ident.Once{Key: key}, ident.DefaultProject,
			tools.Call{Name: name, Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const arguments = `{"content":"x","category":"daily"}`
	first := call("1", "memory_store", arguments)
	key := first.Structured.(tools.Stored).Key
	for range 2 {
		if again := call("1", "memory_store", arguments); again.Content != first.Content {
			t.Errorf("%s\nthen %s", first.Content, again.Content)
		}
	}
	for range 2 {
		if f := call("2", "memory_forget", `{"key":"`+key+`"}`).Structured.(memory.Forgotten); !f.Forgotten {
			t.Error("the first answer is not given again")
		}
	}
	if f := call("3", "memory_forget", `{"key":"`+key+`"}`).Structured.(memory.Forgotten); f.Forgotten {
		t.Error("it is still there")
	}
	_, err := k.Tools.Call(t.Context(), k.Admin, ident.Once{Key: "1"}, ident.DefaultProject,
		tools.Call{Name: "memory_store", Arguments: json.RawMessage(arguments)})
	enginetest.WantKind(t, err, fault.Gone) // the client must know that the memory no longer exists
	_, err = k.Tools.Call(t.Context(), k.Admin, ident.Once{Key: "1", Body: [32]byte{1}}, ident.DefaultProject,
		tools.Call{Name: "memory_store", Arguments: json.RawMessage(`{"content":"other"}`)})
	enginetest.WantKind(t, err, fault.Invalid) // the client's error, which no model can correct
	_, err = k.Tools.Call(t.Context(), k.Admin, ident.Once{}, "elsewhere", tools.Call{Name: "memory_recall"})
	enginetest.WantKind(t, err, fault.NotFound)
}

// The definitions agree with what calls accept: each schema is an object, and its arguments are known.
func TestToolSchemasAreWhatCallsAccept(t *testing.T) {
	k := enginetest.New(t)
	for _, tool := range tools.All() {
		var in, out struct {
			Type       string
			Properties map[string]struct{ Type any }
			Required   []string
		}
		if err := json.Unmarshal(tool.InputSchema, &in); err != nil || in.Type != "object" {
			t.Errorf("%s: %v %+v", tool.Name, err, in)
		}
		err := json.Unmarshal(tool.OutputSchema, &out)
		if err != nil || out.Type != "object" || len(out.Required) == 0 {
			t.Errorf("%s: %v %+v", tool.Name, err, out)
		}
		for name := range in.Properties {
			r := use(k, tool.Name, `{"`+name+`":[{}]}`)
			if failed(r) == "unknown_argument" {
				t.Errorf("%s promises %q and refuses it: %s", tool.Name, name, r.Content)
			}
		}
		for _, name := range in.Required {
			if _, ok := in.Properties[name]; !ok {
				t.Errorf("%s requires %q and does not describe it", tool.Name, name)
			}
		}
		r := use(k, tool.Name, `{"nonsense":1}`)
		if !r.IsError || !strings.Contains(r.Content, "nonsense: there is no such") {
			t.Errorf("%s takes an argument that it does not describe", tool.Name)
		}
	}
}

// Storing under an existing key keeps the fields that are not named. if_version keeps two writers from losing each
// other's changes.
func TestToolsChangeWhatTheyName(t *testing.T) {
	k := enginetest.New(t)
	get := func() memory.Memory {
		m, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "k")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	use(k, "memory_store", `{"key":"k","content":"one","category":"daily","tags":["a"],"importance":0.9,"expires_at":"2030-01-01",`+
		`"occurred_at":"yesterday","if_version":0}`)
	first := get()
	if first.ExpiresAt.Format("2006-01-02T15:04:05") != "2030-01-01T23:59:59" ||
		first.OccurredAt.Format("2006-01-02T15:04:05") != "2026-03-04T00:00:00" {
		t.Fatalf("%+v", first)
	}
	r := use(k, "memory_store", `{"key":"k","content":"two","tags":null,"if_version":1}`)
	second := get()
	if second.Content != "two" || second.Category != "daily" || len(second.Tags) != 1 || second.Importance != 0.9 ||
		!second.ExpiresAt.Equal(*first.ExpiresAt) || !strings.Contains(r.Content, "Changed content of") ||
		strings.Join(r.Structured.(tools.Stored).Changed, " ") != "content" {
		t.Errorf("%s: %+v", r.Content, second)
	}
	r = use(k, "memory_store", `{"key":"k","content":"two"}`)
	if get().Version != 2 || !strings.Contains(r.Content, "stays version 2") {
		t.Error(r.Content)
	}
	for name, arguments := range map[string]string{"memory_store": `{"key":"k","content":"three","if_version":1}`,
		"memory_forget": `{"key":"k","if_version":"1"}`} {
		r = use(k, name, arguments)
		f, ok := r.Structured.(tools.Failure)
		if !ok || failed(r) != "version_mismatch" || *f.Error.Version != 2 || f.Error.Memory.Content != "two" ||
			!strings.Contains(r.Content, "Version 2 says: two") || get().Content != "two" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r = use(k, "memory_store", `{"key":"none","content":"x","if_version":3}`); failed(r) != "version_mismatch" {
		t.Errorf("%+v", r)
	}
	use(k, "memory_store", `{"key":"k","clear":["tags","occurred_at"],"category":"core"}`)
	if m := get(); len(m.Tags) != 0 || m.OccurredAt != nil || m.ExpiresAt != nil || m.Category != "core" || m.Content != "two" {
		t.Errorf("%+v", m)
	}
	for _, arguments := range []string{`{"key":"k","clear":"content"}`, `{"key":"k","clear":"tags","tags":["a"]}`} {
		if r := use(k, "memory_store", arguments); failed(r) != "invalid_value" {
			t.Errorf("%s: %+v", arguments, r)
		}
	}
	if r := use(k, "memory_store", `{"key":"k","if_version":1.5}`); failed(r) != "out_of_range" {
		t.Errorf("%+v", r)
	}
	if r := use(k, "memory_forget", `{"key":"k","if_version":3}`); r.IsError {
		t.Error(r.Content)
	}
}
