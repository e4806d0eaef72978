package hostapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// TestCampaignRefusedModules expects refused modules to leave nothing on the heap, whatever refuses them.
func TestCampaignRefusedModules(t *testing.T) {
	limits := DefaultLimits()
	limits.StartFuel = 1_000_000
	h := newHost(t, Options{Limits: limits, NewTimer: stoppedTimer})
	manifest := func(n int, members string) []byte {
		return guest{manifest: fmt.Sprintf(`{"abi":"1.0","hooks":["assemble"],"version":"%d"%s}`, n, members)}.build()
	}
	var settings []string
	for i := range 132_000 {
		settings = append(settings, fmt.Sprintf(`"k%d":{"type":"integer"}`, i))
	}
	long := map[string]string{
		"tests":    `,"tests":[1` + strings.Repeat(",1", 1_990_000) + `]`,
		"settings": `,"config":{` + strings.Join(settings, ",") + `}`,
		"few":      `,"config":{` + strings.Join(settings[:maxSettings+1], ",") + `}`,
		"values":   `,"tests":[1` + strings.Repeat(",1", maxManifestValues) + `]`,
		"depth":    `,"tests":[` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `]`,
	}
	kinds := map[string]func(n int) ([]byte, string){}
	for name, members := range long {
		kinds[name] = func(n int) ([]byte, string) { return manifest(n, members), checkManifest }
	}
	kinds["exports"] = func(n int) ([]byte, string) {
		return guest{drop: "mneme_arena", data: []datum{{int32(n), []byte("x")}}}.build(), checkExported
	}
	kinds["compile"] = func(n int) ([]byte, string) {
		return guest{assemble: konst64(int64(n))}.build(), "compile"
	}
	kinds["start"] = func(n int) ([]byte, string) {
		return guest{initialize: cat(konst(int32(n)), ins(opDropValue), ins(opUnreachable))}.build(), checkStart
	}
	kinds["later"] = func(n int) ([]byte, string) { return says(int32(n)), "" }
	refuse := func(kind string, n int) {
		code, check := kinds[kind](n)
		p, err := h.Load(t.Context(), "t", code)
		if check == "" && err == nil {
			h.Refuse("t", p.Digest)
			return
		}
		if refusal, ok := errors.AsType[*plan.Refusal](err); !ok || refusal.Check != check {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	for kind := range kinds {
		refuse(kind, 100_000)
	}
	before := heap()
	rounds := campaign.Size(5, 1000)
	for n := range rounds {
		for kind := range kinds {
			refuse(kind, n)
		}
	}
	left := heap() - before
	t.Logf("%d refused modules of %d kinds leave %d KiB", rounds*len(kinds), len(kinds), left>>10)
	if left > 1<<20 || len(h.modules.loaded) != 0 || h.modules.bytes != 0 || h.pool.bytes != 0 {
		t.Errorf("%d bytes on the heap, %d modules of %d bytes", left, len(h.modules.loaded), h.modules.bytes)
	}
	for n := range rounds {
		for _, kind := range []string{"start", "later"} {
			code, _ := kinds[kind](n)
			prepared, err := h.prepare(code)
			if err != nil {
				t.Fatal(err)
			}
			if h.compiler.Has(ownedBy("t", prepared.Module)) {
				t.Fatalf("%s: the machine code of a refused module is kept", kind)
			}
		}
	}
}
