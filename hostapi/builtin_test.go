package hostapi

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// builtins returns the shipped modules, by file name.
func builtins(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../policies/*/*.wasm")
	if err != nil || len(files) == 0 {
		t.Fatalf("no built-in policies found: %v", err)
	}
	modules := map[string][]byte{}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		modules[filepath.Base(file)] = code
	}
	return modules
}

// conversation returns a call with n records: turns of a question, a tool call, its result and an answer.
func conversation(d plan.Digest, config []plan.ConfigEntry, n int) plan.Call {
	r := &plan.Request{
		Strings: []string{"", "main", "search"}, BudgetMessages: 50, BudgetTokens: 8000, Config: config,
		Now: 1_700_000_000_000, NewestTurn: uint32((n + 3) / 4),
	}
	atom := uint32(0)
	words := make(texts, n)
	for i := range n {
		rec := plan.Record{
			Seq: uint64(i + 1), Created: r.Now, Turn: uint32(i/4 + 1), Tokens: 100, CompressedTokens: 20,
			TextBytes: 400, Agent: 1,
		}
		switch i % 4 {
		case 0:
			rec.Role, rec.Kind = plan.RoleUser, plan.KindChat
		case 1:
			rec.Role, rec.Kind = plan.RoleAssistant, plan.KindCall
		case 2:
			rec.Role, rec.Kind, rec.Tool = plan.RoleTool, plan.KindResult, 2
		default:
			rec.Role, rec.Kind = plan.RoleAssistant, plan.KindChat
		}
		if i%4 != 2 {
			atom++
		}
		rec.Atom = atom - 1
		words[i] = "some words"
		r.Records = append(r.Records, rec)
	}
	return plan.Call{Tenant: "t", Module: d, Request: r, Texts: words}
}

// Every shipped policy must load and give plans for windows of all lengths, the same each time.
func TestBuiltins(t *testing.T) {
	h := newHost(t, Options{})
	for name, code := range builtins(t) {
		m, err := h.Load(context.Background(), "t", code)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Contains(m.Manifest.Hooks, plan.HookAssemble.String()) {
			continue // a policy of memories
		}
		config, err := m.Manifest.Config(nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, n := range []int{0, 1, 2, 7, 50, 900, 1500, 4096} {
			call := conversation(m.Digest, config, n)
			first, second := h.Run(context.Background(), call), h.Run(context.Background(), call)
			if first.Status != plan.StatusOK {
				t.Errorf("%s over %d records: %s: %s", name, n, first.Status, first.Detail)
			}
			if !sameOutcome(first, second) {
				t.Errorf("%s over %d records: %v, then %v", name, n, first, second)
			}
		}
	}
}
