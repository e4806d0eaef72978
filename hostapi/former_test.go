package hostapi

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Modules of ABI 1.0 run unchanged: testdata/abi-1.0 contains modules that were built before 1.1, and the results that
// a host of 1.0 got from them for the tables of formerCall.

const formerDir = "../testdata/abi-1.0"

// formerOutcome is one call of a module of 1.0 and its result.
type formerOutcome struct {
	Module string
	Seed   uint64
	Status plan.Status
	Fuel   uint64
	Ops    []string
}

func outcomeOf(module string, seed uint64, out plan.Outcome) formerOutcome {
	f := formerOutcome{Module: module, Seed: seed, Status: out.Status, Fuel: out.Fuel}
	for _, op := range out.Ops {
		f.Ops = append(f.Ops, fmt.Sprintf("%d/%d %d..%d %d %q %q", op.Code, op.Template, op.First, op.Last, op.Argument,
			op.Text, op.Reason))
	}
	return f
}

// formerCall returns a random table that uses only 1.0.
func formerCall(module string, seed uint64, digest plan.Digest) plan.Call {
	rng := rand.New(rand.NewPCG(seed, 11))
	turns := []uint32{3, 12, 40}[seed%3]
	r := &plan.Request{Strings: []string{"", "main", "search", "keep", "other"}, NewestTurn: turns,
		BudgetMessages: 1 + rng.Uint32N(4*turns), BudgetTokens: 200 + rng.Uint32N(100*turns), Now: 1_700_000_000_000,
		Seed: seed, ViewerDelegation: rng.Uint32N(2), OlderExist: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		r.SummaryCovers, r.SummaryTokens = uint64(rng.Uint32N(2*turns)), 40
	}
	switch module {
	case "depth-compress":
		r.Config = []plan.ConfigEntry{{Key: "depth", Value: 1 + rng.Int64N(int64(turns))}}
	case "summarise":
		r.Config = []plan.ConfigEntry{{Key: "enabled", Value: true}, {Key: "keep_last", Value: 1 + rng.Int64N(9)},
			{Key: "threshold", Value: 1 + rng.Int64N(20)}}
	case "tool-pair-trim":
		r.Config = []plan.ConfigEntry{{Key: "low_water", Value: 0.3 + 0.7*rng.Float64()}}
	}
	var words texts
	add := func(rec plan.Record, text string) {
		rec.Seq, rec.Created, rec.TextBytes = uint64(len(r.Records)+1), r.Now, uint32(len(text))
		rec.Tokens, rec.Agent = 5+rng.Uint32N(90), 1
		if rng.IntN(5) == 0 {
			rec.TagsAt, rec.TagCount = uint32(len(r.Tags)), 1
			r.Tags = append(r.Tags, 3+rng.Uint32N(2))
		}
		r.Records, words = append(r.Records, rec), append(words, text)
	}
	atom := uint32(0)
	for turn := uint32(1); turn <= turns; turn++ {
		delegation := uint32(0)
		if rng.IntN(6) == 0 {
			delegation = 1 + rng.Uint32N(2)
		}
		must := plan.Flags(0)
		if turn == turns {
			must = plan.FlagMandatory
		}
		add(plan.Record{Turn: turn, Atom: atom, Role: plan.RoleUser, CompressedTokens: 9, Delegation: delegation,
			Flags: must}, "what is this about?")
		for range rng.IntN(3) {
			atom++
			add(plan.Record{Turn: turn, Atom: atom, Role: plan.RoleAssistant, Kind: plan.KindCall, Tool: 2,
				Delegation: delegation}, "")
			add(plan.Record{Turn: turn, Atom: atom, Role: plan.RoleTool, Kind: plan.KindResult, Tool: 2,
				Delegation: delegation, Flags: plan.FlagErrorResult * plan.Flags(rng.IntN(2))}, "a result of some words")
		}
		atom++
		add(plan.Record{Turn: turn, Atom: atom, Role: plan.RoleAssistant, Delegation: delegation, Flags: must}, "it is so")
		atom++
	}
	return plan.Call{Tenant: "t", Module: digest, Request: r, Texts: words}
}

// formerModules loads the modules of 1.0, by name.
func formerModules(t *testing.T, h *Host) map[string]plan.Digest {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(formerDir, "*.wasm"))
	if err != nil || len(files) != 5 {
		t.Fatalf("%d modules of 1.0, want 5: %v", len(files), err)
	}
	modules := map[string]plan.Digest{}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		modules[name[:len(name)-len(".wasm")]] = mustLoad(t, h, code)
	}
	return modules
}

// A module of 1.0 still returns what it returned then, with the same fuel, whatever 1.1 adds to the request.
func TestModulesOfTheFormerABI(t *testing.T) {
	h := newHost(t, Options{})
	modules := formerModules(t, h)
	b, err := os.ReadFile(filepath.Join(formerDir, "outcomes.json"))
	if err != nil {
		t.Fatal(err)
	}
	var noted []formerOutcome
	if err := json.Unmarshal(b, &noted); err != nil || len(noted) != 30*len(modules) {
		t.Fatalf("%d outcomes are noted: %v", len(noted), err)
	}
	ops := 0
	for _, want := range noted {
		ops += len(want.Ops)
		call := formerCall(want.Module, want.Seed, modules[want.Module])
		newer(call.Request)
		if got := outcomeOf(want.Module, want.Seed, h.Run(t.Context(), call)); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, a host of 1.0 answered %+v", got, want)
		}
	}
	if ops < len(noted) {
		t.Errorf("%d ops in %d outcomes: they hardly say anything", ops, len(noted))
	}
}

// newer fills in what only 1.1 has.
func newer(r *plan.Request) {
	r.OlderTokens, r.MemoryBudget = 1<<40+7, 99
	for i := range r.Records {
		rec := &r.Records[i]
		rec.Place = rec.Turn/2 + 1
		rec.Flags |= [...]plan.Flags{0, plan.FlagPinned, plan.FlagThinking, plan.FlagAudio | plan.FlagDocument}[i%4]
	}
}
