package lab_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/manifest"
)

// withTests returns the example for memories with these self-tests.
func withTests(t *testing.T, tests string) []byte {
	t.Helper()
	code := enginetest.Example(t, "short-memories")
	raw, err := manifest.Get(code)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	m["tests"] = json.RawMessage(tests)
	if raw, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if code, err = manifest.Set(code, raw); err != nil {
		t.Fatal(err)
	}
	return code
}

// Tests of memory hooks compare ops with what the server computes of the texts; an upload names the first difference.
func TestSelfTestsOfMemories(t *testing.T) {
	k := enginetest.New(t)
	const known = `"memories":[{"key":"home","content":"Ana lives in Porto"},{"key":"diet","content":"Ana eats no meat"}]`
	for name, c := range map[string]struct{ test, want string }{
		"merged":            {`{"name":"a","hook":"admit","candidate":{"content":"Ana lives in Porto."},` + known + `,"expect":["merge:home"]}`, ""},
		"stored":            {`{"name":"a","hook":"admit","candidate":{"content":"Ana lives in Lisbon"},` + known + `,"expect":[]}`, ""},
		"chosen key":        {`{"name":"a","hook":"admit","candidate":{"key":"k","client_key":true,"content":"Ana lives in Porto"},` + known + `,"expect":[]}`, ""},
		"refused":           {`{"name":"a","hook":"admit","origin":"tool","config":{"max_bytes":5},"candidate":{"content":"longer"},"expect":["refuse:too_long"]}`, ""},
		"a user's":          {`{"name":"a","hook":"admit","origin":"tool","config":{"max_bytes":5},"candidate":{"content":"longer","trust":"user"},"expect":[]}`, ""},
		"forgotten":         {`{"name":"a","hook":"retain","memories":[{"key":"old","category":"conversation","content":"x","created_at":"2020-01-01T00:00:00Z"},{"key":"pinned","pinned":true,"category":"conversation","content":"x","created_at":"2020-01-01T00:00:00Z"}],"expect":["forget:old"]}`, ""},
		"ranked":            {`{"name":"a","hook":"recall","query":"who?","memories":[{"key":"old","content":"x","score":900,"occurred_at":"2025-01-01T00:00:00Z"}],"expect":["rank:old"]}`, ""},
		"without the key":   {`{"name":"a","hook":"retain","memories":[{"category":"conversation","content":"x","created_at":"2020-01-01T00:00:00Z"}],"expect":["forget"]}`, ""},
		"another op":        {`{"name":"a","hook":"admit","candidate":{"content":"Ana lives in Porto"},` + known + `,"expect":[]}`, `the ops are ["merge:home"], not []`},
		"another key":       {`{"name":"a","hook":"admit","candidate":{"content":"Ana lives in Porto"},` + known + `,"expect":["merge:diet"]}`, `not ["merge:diet"]`},
		"another reason":    {`{"name":"a","hook":"admit","origin":"file","config":{"max_bytes":5},"candidate":{"content":"longer"},"expect":["refuse:noise"]}`, `["refuse:too_long"]`},
		"no hook":           {`{"name":"a","candidate":{"content":"x"},"expect":[]}`, "must name the hook"},
		"unknown hook":      {`{"name":"a","hook":"dream","expect":[]}`, "must be assemble, admit"},
		"not its hook":      {`{"name":"a","hook":"remember","messages":[],"expect":[]}`, "does not have the hook remember"},
		"a window's":        {`{"name":"a","messages":[{"role":"user","content":"x"}],"expect":["keep"]}`, "does not have the hook assemble"},
		"no candidate":      {`{"name":"a","hook":"admit","expect":[]}`, "must be given for the hook admit"},
		"a window's budget": {`{"name":"a","hook":"retain","budget":{"max_tokens":5},"expect":[]}`, "are for windows"},
		"blank":             {`{"name":"a","hook":"admit","candidate":{"content":" "},"expect":[]}`, "visible character"},
		"unknown field":     {`{"name":"a","hook":"admit","candidate":{"contents":"x"},"expect":[]}`, "unknown field"},
		"no such trust":     {`{"name":"a","hook":"admit","candidate":{"content":"x","trust":"king"},"expect":[]}`, "must be tool, model"},
		"another outcome":   {`{"name":"a","hook":"retain","memories":[],"outcome":"trap","expect":[]}`, "the outcome is ok"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := k.Policies.Upload(t.Context(), k.Admin, ident.Once{}, "p", withTests(t, "["+c.test+"]"))
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused, ok := errors.AsType[*fault.Error](err)
			if !ok || refused.Code != "module_refused" || !strings.Contains(refused.Detail, c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A run at a memory hook shows ops, fuel and what was asked; it refuses what is for windows.
func TestRunningOnMemories(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("short", enginetest.Example(t, "short-memories"))
	var out struct {
		Policy, Hook, Outcome string
		Version               int
		Fuel                  uint64
		Ops                   []lab.HookOp
	}
	ask := func(request string) ([]byte, error) {
		var req lab.RunRequest
		if err := json.Unmarshal([]byte(request), &req); err != nil {
			t.Fatal(err)
		}
		return k.Trials.Run(t.Context(), k.Admin, "short", 1, &req, nil)
	}
	b, err := ask(`{"hook":"admit","candidate":{"content":"Ana lives in Porto"},"memories":[{"key":"home","content":"Ana lives in Porto"}]}`)
	if err != nil || json.Unmarshal(b, &out) != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if out.Policy != "short" || out.Version != 1 || out.Hook != "admit" || out.Outcome != "ok" || out.Fuel == 0 ||
		len(out.Ops) != 1 || out.Ops[0] != (lab.HookOp{Op: "merge", Key: "home", First: 1, Argument: 1, Reason: "known"}) {
		t.Errorf("%s", b)
	}
	for request, code := range map[string]string{
		`{"hook":"admit","candidate":{"content":"x"},"format":"text"}`: "invalid_value",
		`{"hook":"remember","messages":[]}`:                            "hook_missing",
		`{"candidate":{"content":"x"}}`:                                "required",
		`{"messages":[{"role":"user","content":"x"}]}`:                 "hook_missing",
	} {
		_, err := ask(request)
		refused, ok := errors.AsType[*fault.Error](err)
		if !ok || len(refused.Fields) != 1 || refused.Fields[0].Code != code {
			t.Errorf("%s: %+v, want %s", request, err, code)
		}
	}
}
