package hostapi

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
)

func TestLoadIsIdempotent(t *testing.T) {
	h := newHost(t, Options{})
	code := guest{manifest: `{"abi":"1.0","name":"p","hooks":["assemble"],"tests":[{"any":1}]}`}.build()
	first, err := h.Load(t.Context(), "t", code)
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.Load(t.Context(), "t", bytes.Clone(code))
	if err != nil || again.Digest != first.Digest || len(h.modules.loaded) != 1 {
		t.Errorf("%v, %d modules", err, len(h.modules.loaded))
	}
	if first.Manifest.Name != "p" || first.Size != len(code) || string(first.Manifest.Tests[0]) != `{"any":1}` {
		t.Errorf("%+v", first)
	}
	for _, c := range first.Checks {
		if !c.OK || c.Name == "" {
			t.Errorf("%+v", c)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	arena := func(request, plan int32) []byte {
		return cat(ins(opLocalGet, 0), ins(opIf, i32t), konst(plan), ins(opElse), konst(request), ins(opEnd))
	}
	imports := func(module, name string, params, results string) guest {
		return guest{imports: []fnImport{{module, name, []byte(params), []byte(results)}}}
	}
	i32 := "\x7f"
	forever := cat(ins(opLoop, void), ins(opBr, 0), ins(opEnd))
	for name, c := range map[string]struct {
		guest guest
		check string
		want  string
	}{
		"no abi":   {guest{drop: "mneme_abi"}, checkExported, "mneme_abi() -> i32"},
		"no arena": {guest{drop: "mneme_arena"}, checkExported, "mneme_arena(i32, i32) -> i32"},
		"no assemble": {guest{drop: "mneme_assemble"}, checkExported,
			"mneme_assemble(i32, i32, i32, i32) -> i32"},
		"no memory":          {guest{drop: "memory"}, checkExported, `"memory"`},
		"wrong result":       {guest{results: map[string]byte{"mneme_assemble": i64t}}, checkExported, "-> i64, not"},
		"unknown module":     {imports("env", "abort", "", ""), checkImported, `module "env"`},
		"unknown function":   {imports("mneme", "exec", "", ""), checkImported, `"mneme"."exec"`},
		"wrong signature":    {imports("mneme", "log", i32, ""), checkImported, "not (i32, i32, i32)"},
		"files":              {imports(wasiModule, "path_open", i32, i32), checkImported, "path_open"},
		"sockets":            {imports(wasiModule, "sock_accept", i32, i32), checkImported, "sock_accept"},
		"exit, wrong type":   {imports(wasiModule, "proc_exit", "", ""), checkImported, "proc_exit"},
		"wrong version":      {guest{abi: konst(2 << 16)}, checkStart, "abi 2.0"},
		"newer minor":        {guest{abi: konst(1<<16 | 4)}, checkStart, "abi 1.4"},
		"arena refused":      {guest{arena: konst(0)}, checkStart, "refused 65536 bytes"},
		"arena unaligned":    {guest{arena: arena(65540, 131072+8)}, checkStart, "multiple of 8"},
		"arena beyond":       {guest{arena: arena(65536, 3*65536-8)}, checkStart, "end of memory"},
		"arena negative":     {guest{arena: arena(-8, 131072)}, checkStart, "end of memory"},
		"arenas overlap":     {guest{arena: arena(65536, 65536+8)}, checkStart, "overlap"},
		"arenas the same":    {guest{arena: konst(65536)}, checkStart, "overlap"},
		"arena too small":    {guest{arena: arena(65536, 131072)}, checkStart, "524288 bytes"},
		"start traps":        {guest{initialize: ins(opUnreachable)}, checkStart, "_initialize: unreachable"},
		"start never ends":   {guest{initialize: forever}, checkStart, "100000000 fuel"},
		"data beyond memory": {guest{data: []datum{{3 * 65536, []byte("x")}}}, checkStart, "out of bounds"},
		"ill-typed":          {guest{assemble: konst64(0)}, compiler.CheckCompile, ""},
		"4 GiB":              {guest{pages: 65536}, checkMemory, "65536 is over the limit of 256"},
		"not JSON":           {guest{manifest: "{"}, checkManifest, ""},
		"unknown field": {guest{manifest: `{"abi":"1.0","hooks":["assemble"],"author":"x"}`}, checkManifest,
			"author"},
		"two objects":        {guest{manifest: okManifest + okManifest}, checkManifest, "more follows"},
		"manifest's version": {guest{manifest: `{"abi":"2.0","hooks":["assemble"]}`}, checkManifest, "abi 2.0"},
		"no version":         {guest{manifest: `{"hooks":["assemble"]}`}, checkManifest, "abi is missing"},
		"odd version":        {guest{manifest: `{"abi":"one","hooks":["assemble"]}`}, checkManifest, "MAJOR.MINOR"},
		"no hooks":           {guest{manifest: `{"abi":"1.0"}`}, checkManifest, "hooks"},
		"unknown hook":       {guest{manifest: `{"abi":"1.0","hooks":["assemble","recall"]}`}, checkManifest, "recall"},
		"bad default": {guest{manifest: `{"abi":"1.0","hooks":["assemble"],"config":{"n":{"type":"integer",` +
			`"default":"x"}}}`},
			checkManifest, `config "n": default is "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, Options{})
			_, err := h.Load(t.Context(), "t", c.guest.build())
			var refusal *plan.Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("%v", err)
			}
			if refusal.Check != c.check || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", refusal.Check, err)
			}
			if len(h.modules.loaded) != 0 {
				t.Error("the module was kept")
			}
			if out := h.Run(t.Context(), twoRecords(mustLoad(t, h, guest{}.build()))); out.Status != plan.StatusOK {
				t.Errorf("the host is harmed: %+v", out)
			}
		})
	}
}

// A truncated or corrupted module is either refused or behaves.
func TestDamagedModules(t *testing.T) {
	h := newHost(t, Options{})
	code := returnsPlan(planBytes("code", opBytes(1, 0, 0, 1, 0, 0, 48, 4))).build()
	try := func(damaged []byte) {
		m, err := h.Load(t.Context(), "t", damaged)
		var refusal *plan.Refusal
		if err != nil && !errors.As(err, &refusal) {
			t.Fatalf("%v", err)
		}
		if err == nil {
			h.Run(t.Context(), twoRecords(m.Digest))
		}
	}
	for n := range code {
		try(code[:n])
		flipped := bytes.Clone(code)
		flipped[n] ^= 1 << (n % 8)
		try(flipped)
	}
	if out := h.Run(t.Context(), twoRecords(mustLoad(t, h, code))); out.Status != plan.StatusOK {
		t.Errorf("%+v", out)
	}
}

// Machine code that one host leaves in its directory is used by the next one, which need not compile.
func TestCacheDir(t *testing.T) {
	dir, code := t.TempDir(), guest{}.build()
	for _, compiler := range [][]string{nil, {"false"}} {
		h := newHost(t, Options{CacheDir: dir, Compiler: compiler})
		if out := h.Run(t.Context(), twoRecords(mustLoad(t, h, code))); out.Status != plan.StatusOK {
			t.Errorf("%+v", out)
		}
	}
}

// Instances that start differently would give different results for one call, so the second is not used.
func TestSnapshotTellsInstancesApart(t *testing.T) {
	memory := make([]byte, 2*pageBytes)
	memory[5000] = 1
	s := takeSnapshot(memory, []uint64{7})
	if !s.matches(memory, []uint64{7}) {
		t.Error("does not match its own memory")
	}
	if s.matches(memory, []uint64{8}) || s.matches(memory[:pageBytes], []uint64{7}) {
		t.Error("matches other globals or less memory")
	}
	memory[9000] = 1
	if s.matches(memory, []uint64{7}) {
		t.Error("matches other memory")
	}
	memory[5000] = 2
	if !s.restore(memory, dirty{cards: 1 << 2, from: 5000, to: 5001}) || !s.matches(memory, []uint64{7}) {
		t.Error("restore left memory changed")
	}
}

// A module without a manifest is refused with the name of the missing section.
func TestLoadWithoutAManifest(t *testing.T) {
	whole := guest{}.build()
	bare := whole[:bytes.LastIndex(whole, []byte("mneme.policy"))-3] // the section's id, length and the name's length
	for _, code := range [][]byte{bare, append(bytes.Clone(bare), 0, 13, 12, 'm', 'n', 'e', 'm', 'e', '.', 'p', 'o', 'l', 'i',
		'c', 'y')} {
		_, err := newHost(t, Options{}).Load(t.Context(), "t", code)
		var refusal *plan.Refusal
		if !errors.As(err, &refusal) || refusal.Check != checkManifest ||
			!strings.Contains(refusal.Detail, "there is no manifest: custom section mneme.policy") {
			t.Errorf("%v", err)
		}
	}
}
