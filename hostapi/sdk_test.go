package hostapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/manifest"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// These tests take the SDK's example policy all the way: built by both compilers, admitted, run. The SDK's test kit
// must give an author the same results as this host gives the module.

const exampleDir = "../sdk/policy/go/examples/keep-by-tag"

// shipped returns the example as built by TinyGo, checks it against the recorded SHA-256, and adds the manifest next to
// it.
func shipped(t *testing.T) []byte {
	t.Helper()
	module, noted, text := readExample(t, "keep-by-tag.wasm"), readExample(t, "keep-by-tag.wasm.sha256"),
		readExample(t, "manifest.json")
	if sum := fmt.Sprintf("%x  keep-by-tag.wasm\n", sha256.Sum256(module)); sum != string(noted) {
		t.Errorf("SHA-256 is %q, noted is %q", sum, noted)
	}
	if again, err := manifest.Set(module, text); err != nil || !bytes.Equal(again, module) {
		t.Errorf("the module does not carry manifest.json: %v", err)
	}
	return module
}

// stockGo returns the example as built by the Go toolchain.
func stockGo(t *testing.T) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.wasm")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -buildid=", "-o", file, ".")
	build.Dir = exampleDir
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	module, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if module, err = manifest.Set(module, readExample(t, "manifest.json")); err != nil {
		t.Fatal(err)
	}
	return module
}

func readExample(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(exampleDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The example's plans are the same from both compilers and each time, and the ones that its author intended.
func TestExamplePolicy(t *testing.T) {
	h := newHost(t, Options{})
	modules := map[string]plan.Digest{"TinyGo": mustLoad(t, h, shipped(t)), "Go": mustLoad(t, h, stockGo(t))}
	for seed := range uint64(60) {
		table := tagged(rand.New(rand.NewPCG(seed, 0)))
		want := kept(table)
		var plans [][]plan.Op
		for compiler, digest := range modules {
			out := h.Run(t.Context(), callOf(digest, table))
			if out.Status != plan.StatusOK {
				t.Fatalf("seed %d, %s: %s: %s", seed, compiler, out.Status, out.Detail)
			}
			left := slices.Repeat([]bool{true}, len(table.Records))
			for _, op := range out.Ops {
				if op.Code != plan.OpDrop || op.Reason != "untagged: carries no tag that is to be kept" {
					t.Fatalf("seed %d, %s: op %+v", seed, compiler, op)
				}
				for i := op.First; i <= op.Last; i++ {
					left[i] = false
				}
			}
			if !slices.Equal(left, want) {
				t.Errorf("seed %d, %s: keeps %v, want %v", seed, compiler, left, want)
			}
			if again := h.Run(t.Context(), callOf(digest, table)); !sameOutcome(out, again) {
				t.Errorf("seed %d, %s: %+v, then %+v", seed, compiler, out, again)
			}
			plans = append(plans, out.Ops)
		}
		if !reflect.DeepEqual(plans[0], plans[1]) {
			t.Errorf("seed %d: the compilers' plans are %+v and %+v", seed, plans[0], plans[1])
		}
	}
}

// kept is what the example's author intended: which records are kept, computed from the records only.
func kept(t *mnemetest.Table) []bool {
	stays := map[uint32]bool{}
	for _, r := range t.Records {
		tag, ok := t.Config["tag"].(string)
		if !ok {
			tag = "keep"
		}
		if r.Role == mneme.System || r.Flags.Has(mneme.Mandatory|mneme.TagsLeftOut) || slices.Contains(r.Tags, tag) {
			stays[r.Atom] = true
		}
	}
	var all []bool
	for _, r := range t.Records {
		all = append(all, stays[r.Atom])
	}
	return all
}

// tagged returns a table of atoms of one to four records, some of which have tags.
func tagged(rng *rand.Rand) *mnemetest.Table {
	t := &mnemetest.Table{BudgetMessages: 50, BudgetTokens: rng.Uint32N(9000), ViewerAgent: "main", Now: rng.Int64(),
		Seed: rng.Uint64(), OlderExist: rng.IntN(2) == 0, SummaryCovers: rng.Uint64N(9), SummaryTokens: rng.Uint32N(9),
		ViewerDelegation: rng.Uint32N(2), OlderTokens: rng.Uint64(), MemoryBudget: rng.Uint32()}
	if rng.IntN(3) > 0 {
		t.Config = map[string]any{"tag": []string{"keep", "order", ""}[rng.IntN(3)]}
	}
	words := []string{"keep", "order", "keeper", "chat", "größe"}
	for atom := range uint32(rng.IntN(40)) {
		for range 1 + rng.IntN(4) {
			r := mnemetest.Record{Turn: atom/3 + 1, Seq: uint64(len(t.Records) + 1), Atom: atom,
				Role: mneme.Role(1 + rng.IntN(4)), Kind: mneme.Kind(rng.IntN(7)), Tokens: rng.Uint32N(500),
				CompressedTokens: rng.Uint32N(9), Text: "some words", Delegation: rng.Uint32N(3), Place: rng.Uint32N(3) * (atom + 1),
				Agent: words[rng.IntN(5)], Tool: words[rng.IntN(5)], Created: rng.Int64()}
			if rng.IntN(6) == 0 {
				r.Flags = mneme.Flags(1 << rng.IntN(11))
			}
			for range rng.IntN(8) - 5 {
				r.Tags = append(r.Tags, words[rng.IntN(5)])
			}
			t.Records = append(t.Records, r)
		}
	}
	return t
}

// The test kit's request equals the host's byte for byte, and both decode a plan in the same way.
func TestHarnessSpeaksTheABI(t *testing.T) {
	everything := func(req *mneme.Request, p *mneme.Plan) error {
		if req.Len() < 12 {
			return nil
		}
		why := p.Text("code: ").Uint(7)
		p.Drop(0, 1, why)
		p.Compress(2, 2, why)
		p.Truncate(3, 3, 40, p.Text("cut"))
		p.Stub(4, 4, mneme.Text{})
		p.Replace(5, p.Text("größer"), why)
		p.Insert(req.Len(), p.Text("a notice"), why)
		p.Summarise(6, 6, why)
		p.ShowSummary(7, 7, why)
		p.Keep(8, 8, why)
		p.Strip(8, 9, mneme.ImageParts|mneme.ThinkingParts, why)
		p.ReplaceArguments(10, 3, p.Text("{}"), why)
		p.CompressTo(11, 11, 32, why)
		p.Ledger(0, 2, 800, why)
		return nil
	}
	for seed := range uint64(20) {
		table := tagged(rand.New(rand.NewPCG(seed, 1)))
		table.Config = map[string]any{"b": true, "f": 0.25, "i": -5, "s": "word"}
		withMemories(table, seed)
		request := requestOf(table)
		l, err := layoutOf(request)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, l.end)
		if err := encode(want, request, l); err != nil {
			t.Fatal(err)
		}
		checkMemories(t, table, want)
		if got := table.Encode(); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the harness encodes\n%x, the host\n%x", seed, got, want)
		}
		buffer := mnemetest.Buffer(int(sizeSmall.plan()))
		n, err := mneme.Run(everything, want, buffer, nil)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := mnemetest.Decode(buffer[:n])
		if err != nil {
			t.Fatal(err)
		}
		ours, err := decode(buffer[:n], asked{minor: abiMinor, maxText: 1 << 10}, reasons{})
		if err != nil {
			t.Fatal(err)
		}
		var same []plan.Op
		for _, op := range theirs {
			same = append(same, plan.Op{Code: plan.OpCode(op.Code), Template: op.Template, First: uint32(op.First),
				Last: uint32(op.Last), Argument: op.Argument, Text: op.Text, Reason: op.Reason})
		}
		if len(request.Records) >= 12 && len(ours) != 13 || !reflect.DeepEqual(same, ours) {
			t.Errorf("seed %d: the harness reads %+v, the host %+v", seed, same, ours)
		}
	}
}

func callOf(d plan.Digest, t *mnemetest.Table) plan.Call {
	var words texts
	for i := range t.Records {
		words = append(words, t.Records[i].Text)
	}
	return plan.Call{Tenant: "t", Module: d, Request: requestOf(t), Texts: words}
}

// withMemories makes a table that of a memory hook, for four seeds of five.
func withMemories(t *mnemetest.Table, seed uint64) {
	t.Hook = mneme.Hook(1 + seed%5)
	rng := rand.New(rand.NewPCG(seed, 3))
	if t.Hook == mneme.Assemble {
		return
	}
	t.Origin = mneme.Origin(rng.Uint32N(5))
	for i := range t.Records {
		t.Records[i].Memory = mnemetest.Memory{Key: fmt.Sprint("key", rng.IntN(4)), Namespace: `{"a":1}`,
			Session: "chat", Category: mneme.Category(rng.IntN(4)), Trust: mneme.Trust(rng.IntN(5)),
			Flags: mneme.ExtraFlags(rng.IntN(512)), Score: rng.Uint32(), Recalls: rng.Uint32(), Version: rng.Uint32(),
			Group: rng.Uint32(), Occurred: rng.Int64(), Expires: rng.Int64(), LastRecalled: rng.Int64(),
			Importance: rng.Float32()}
	}
}

// checkMemories checks that the SDK reads from a host's request what the table says.
func checkMemories(t *testing.T, table *mnemetest.Table, request []byte) {
	t.Helper()
	read := func(req *mneme.Request, _ *mneme.Plan) error {
		if req.Hook != table.Hook || req.Origin != table.Origin {
			t.Errorf("hook %d of %d, origin %d of %d", req.Hook, table.Hook, req.Origin, table.Origin)
		}
		for i := range req.Len() {
			if table.Hook == mneme.Assemble {
				break
			}
			m := req.Memory(i)
			got := mnemetest.Memory{Key: req.String(m.Key), Namespace: req.String(m.Namespace), Session: req.String(m.Session),
				Category: m.Category, Trust: m.Trust, Flags: m.Flags, Score: m.Score, Recalls: m.Recalls,
				Version: m.Version, Group: m.Group, Occurred: m.Occurred, Expires: m.Expires,
				LastRecalled: m.LastRecalled, Importance: m.Importance}
			if got != table.Records[i].Memory {
				t.Errorf("record %d: %+v, want %+v", i, got, table.Records[i].Memory)
			}
		}
		return nil
	}
	if _, err := mneme.Run(read, request, mnemetest.Buffer(int(sizeLarge.plan())), nil); err != nil {
		t.Error(err)
	}
}

// Every method of a plan writes an op that the host reads as meant.
func TestMemoryPlansSpeakTheABI(t *testing.T) {
	table := &mnemetest.Table{Records: make([]mnemetest.Record, 4)}
	for hook, c := range map[mneme.Hook]struct {
		write mneme.Policy
		want  []plan.Op
	}{
		mneme.Admit: {func(_ *mneme.Request, p *mneme.Plan) error {
			why := p.Text("code: why")
			p.Refuse(why)
			p.Patch(0, p.Text(`{"tags":[]}`), why)
			p.Merge(2, 0, why)
			p.MergeText(3, 0, p.Text("both"), why)
			return nil
		}, []plan.Op{{Code: plan.OpRefuse}, {Code: plan.OpPatch, Text: `{"tags":[]}`},
			{Code: plan.OpMerge, First: 2, Argument: plan.KeepStored}, {Code: plan.OpMerge, First: 3, Text: "both"}}},
		mneme.Remember: {func(_ *mneme.Request, p *mneme.Plan) error {
			why := p.Text("code: why")
			p.Store(1, 2, p.Text("{}"), why)
			p.Ask(0, 3, 1000, p.Text("what?"), why)
			p.Replace(1, p.Text("x"), why)
			return nil
		}, []plan.Op{{Code: plan.OpStore, First: 1, Last: 2, Text: "{}"},
			{Code: plan.OpAsk, Last: 3, Argument: 1000, Text: "what?"}, {Code: plan.OpReplace, First: 1, Last: 1, Text: "x"}}},
		mneme.Recall: {func(_ *mneme.Request, p *mneme.Plan) error {
			why := p.Text("code: why")
			p.Rank(2, 999_999, why)
			p.Drop(1, 1, why)
			return nil
		}, []plan.Op{{Code: plan.OpRank, First: 2, Last: 2, Argument: 999_999}, {Code: plan.OpDrop, First: 1, Last: 1}}},
		mneme.Retain: {func(_ *mneme.Request, p *mneme.Plan) error {
			p.Forget(3, p.Text("code: why"))
			return nil
		}, []plan.Op{{Code: plan.OpForget, First: 3, Last: 3}}},
	} {
		table.Hook = hook
		buffer := mnemetest.Buffer(int(sizeLarge.plan()))
		n, err := mneme.Run(c.write, table.Encode(), buffer, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(buffer[:n], asked{plan.Hook(hook), abiMinor, 1 << 10}, reasons{})
		for i := range c.want {
			c.want[i].Reason = "code: why"
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("hook %d: %+v, %v", hook, got, err)
		}
	}
}

// requestOf returns the engine's request for a table of the test kit.
func requestOf(t *mnemetest.Table) *plan.Request {
	r := &plan.Request{Strings: []string{""}, BudgetMessages: t.BudgetMessages, BudgetTokens: t.BudgetTokens,
		ViewerDelegation: t.ViewerDelegation, Now: t.Now, Seed: t.Seed, OlderExist: t.OlderExist,
		SummaryCovers: t.SummaryCovers, SummaryTokens: t.SummaryTokens, OlderTokens: t.OlderTokens,
		MemoryBudget: t.MemoryBudget}
	id := func(s string) uint32 {
		at := slices.Index(r.Strings, s)
		if at < 0 {
			at, r.Strings = len(r.Strings), append(r.Strings, s)
		}
		return uint32(at)
	}
	for _, m := range t.Records {
		rec := plan.Record{Seq: m.Seq, Created: m.Created, Turn: m.Turn, Place: cmp.Or(m.Place, m.Turn), Tokens: m.Tokens,
			CompressedTokens: m.CompressedTokens, TextBytes: uint32(len(m.Text)), Atom: m.Atom,
			Delegation: m.Delegation,
			Agent:      id(m.Agent), Tool: id(m.Tool), TagsAt: uint32(len(r.Tags)), TagCount: uint32(len(m.Tags)),
			Flags: plan.Flags(m.Flags), Role: plan.Role(m.Role), Kind: plan.Kind(m.Kind)}
		for _, tag := range m.Tags {
			r.Tags = append(r.Tags, id(tag))
		}
		r.Records, r.NewestTurn = append(r.Records, rec), max(r.NewestTurn, m.Turn)
	}
	r.ViewerAgent = id(t.ViewerAgent)
	r.Hook, r.Origin = plan.Hook(t.Hook), plan.Origin(t.Origin)
	for _, rec := range t.Records {
		m := &rec.Memory
		if r.Hook.Assembles() {
			break
		}
		r.Extra = append(r.Extra, plan.Extra{Key: id(m.Key), Namespace: id(m.Namespace), Session: id(m.Session),
			Category: uint8(m.Category), Trust: plan.Trust(m.Trust), Flags: plan.ExtraFlags(m.Flags), Score: m.Score,
			Recalls: m.Recalls, Version: m.Version, Group: m.Group, Occurred: m.Occurred, Expires: m.Expires,
			LastRecalled: m.LastRecalled, Importance: m.Importance})
	}
	for _, key := range slices.Sorted(maps.Keys(t.Config)) {
		value := t.Config[key]
		if n, ok := value.(int); ok {
			value = int64(n)
		}
		r.Config = append(r.Config, plan.ConfigEntry{Key: key, Value: value})
	}
	return r
}
