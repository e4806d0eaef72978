package hostapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/hostile"
)

// TestCampaignMutations loads and calls random mutations of real modules: each is refused by a named check or ends with
// a named outcome, the same twice, and leaves nothing behind.
func TestCampaignMutations(t *testing.T) {
	seed, n := campaign.Seed(t), campaign.Size(300, 10_000)
	modules := realModules(t)
	mutate := mutator{random: rand.New(rand.NewPCG(seed, 0)), modules: modules}
	h := newHost(t, Options{NewTimer: stoppedTimer, Limits: soakLimits()})
	var warm footing
	ended := map[string]int{}
	for i := range n {
		if i == n/3 {
			warm = stand()
		}
		code, how := mutate.next()
		ending, ok := soakOne(t, h, code)
		if !ok {
			file := filepath.Join(os.TempDir(), "mneme-soak-"+strconv.Itoa(i)+".wasm")
			err := os.WriteFile(file, code, 0o600)
			t.Fatalf("seed %d, mutation %d (%s): %s; kept as %s (%v)", seed, i, how, ending, file, err)
		}
		ended[ending]++
	}
	for _, ending := range slices.Sorted(maps.Keys(ended)) {
		t.Logf("%6d %s", ended[ending], ending)
	}
	stand().within(t, warm)
	for _, code := range modules {
		if ending, _ := soakOne(t, h, code); ending == "no window" {
			continue
		}
		c := conversation(mustLoad(t, h, code), nil, hostile.Records)
		if out := h.Run(t.Context(), c); out.Status != plan.StatusOK {
			t.Errorf("a real module afterwards: %+v", out)
		}
	}
}

// soakLimits are small enough for a short run to fill the host's caches.
func soakLimits() Limits {
	l := DefaultLimits()
	l.StartFuel, l.Fuel = 1_000_000, 1_000_000
	l.IdleBytes, l.CodeBytes, l.DiskBytes = 8<<20, 4<<20, 4<<20
	return l
}

// soakOne returns how a module ended; false if that is not one of the permitted ways.
func soakOne(t *testing.T, h *Host, code []byte) (ending string, ok bool) {
	m, err := h.Load(t.Context(), "attacker", code)
	if err != nil {
		var refusal *plan.Refusal
		if !errors.As(err, &refusal) || refusal.Check == "" {
			return err.Error(), false
		}
		return "refused: " + refusal.Check, true
	}
	if !slices.Contains(m.Manifest.Hooks, plan.HookAssemble.String()) {
		return "no window", true
	}
	c := attackRequest(m.Digest, hostile.Records)
	out := h.Run(t.Context(), c)
	if out.Status == plan.StatusUnavailable || out.Status == plan.StatusTimeout || out.Status == "" {
		return string(out.Status) + ": " + out.Detail, false
	}
	h.putBack(t)
	if again := h.Run(t.Context(), c); !sameOutcome(out, again) {
		return "two calls, two outcomes", false
	}
	if status, words, _, err := finish(c, out); err != nil || status == "" {
		return words, false
	}
	return "called: " + string(out.Status), true
}

// footing is what a process holds.
type footing struct{ heap, goroutines int }

func stand() footing {
	runtime.GC()
	runtime.GC() // what finalizers of the first released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footing{int(m.HeapAlloc), runtime.NumGoroutine()}
}

// within checks that a process holds no more than before, except what the host may keep.
func (f footing) within(t *testing.T, before footing) {
	t.Helper()
	l := soakLimits()
	if f.heap > before.heap+l.IdleBytes+l.CodeBytes {
		t.Errorf("%d bytes on the heap, %d before", f.heap, before.heap)
	}
	for end := time.Now().Add(time.Minute); f.goroutines > before.goroutines; f.goroutines = runtime.NumGoroutine() {
		time.Sleep(time.Millisecond)
		if time.Now().After(end) { // a goroutine that has done its work may still be ending
			t.Fatalf("%d goroutines, %d before", f.goroutines, before.goroutines)
		}
	}
	t.Logf("heap %d -> %d KiB, goroutines %d -> %d", before.heap>>10, f.heap>>10, before.goroutines, f.goroutines)
}

// realModules returns the shipped modules and the examples of the SDK.
func realModules(t *testing.T) [][]byte {
	t.Helper()
	var modules [][]byte
	for _, folder := range []string{"../policies/*/*.wasm", "../sdk/policy/go/examples/*/*.wasm", "../demo/*/*.wasm"} {
		files, err := filepath.Glob(folder)
		if err != nil || len(files) == 0 {
			t.Fatalf("no modules in %s: %v", folder, err)
		}
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			modules = append(modules, code)
		}
	}
	return modules
}

// mutator damages modules in the way of bad networks, bad tools and attackers.
type mutator struct {
	random  *rand.Rand
	modules [][]byte
}

// next returns a damaged module and what was done to it.
func (m *mutator) next() (code []byte, how string) {
	code = bytes.Clone(m.any(m.modules))
	switch m.random.IntN(6) {
	case 0:
		return code[:m.random.IntN(len(code))], "cut"
	case 1, 2:
		for range 1 + m.random.IntN(4) {
			code[m.random.IntN(len(code))] ^= 1 << m.random.IntN(8)
		}
		return code, "bits flipped"
	case 3:
		for range 1 + m.random.IntN(3) {
			at := m.random.IntN(len(code))
			code = slices.Replace(code, at, min(len(code), at+m.random.IntN(4)), m.bytes(m.random.IntN(4))...)
		}
		return code, "bytes replaced"
	case 4:
		sections := split(code)
		*m.section(sections) = *m.section(split(m.any(m.modules)))
		return joined(sections), "section of another module"
	}
	sections := split(code)
	at := m.random.IntN(len(sections))
	s := sections[at]
	if len(s) > 3 {
		s = bytes.Clone(s)
		s[2+m.random.IntN(len(s)-2)] = m.bytes(1)[0]
		sections[at] = s
	}
	return joined(sections), "byte of one section"
}

func (m *mutator) any(list [][]byte) []byte { return list[m.random.IntN(len(list))] }

func (m *mutator) section(list [][]byte) *[]byte { return &list[m.random.IntN(len(list))] }

// bytes returns random bytes, often significant ones.
func (m *mutator) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = []byte{0, 1, 0x7f, 0x80, 0xff, byte(m.random.Uint32())}[m.random.IntN(6)]
	}
	return b
}

const moduleHeader = 8 // magic and version

// split splits a well-formed module into its sections, each with its header.
func split(code []byte) (sections [][]byte) {
	for rest := code[moduleHeader:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		end := 1 + n + int(size)
		sections = append(sections, rest[:end:end])
		rest = rest[end:]
	}
	return sections
}

func joined(sections [][]byte) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), bytes.Join(sections, nil)...)
}
