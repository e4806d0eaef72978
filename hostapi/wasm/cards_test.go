package wasm_test

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// Every byte that a guest changes belongs to a card that it has marked, whatever the program.
func TestCardsOfRandomPrograms(t *testing.T) {
	list := engines(t)
	for seed := range uint64(40) {
		module, sigs := generate(seed)
		p := prepare(t, module)
		if !p.Info.Marks {
			t.Fatalf("seed %d: the module does not mark its cards", seed)
		}
		for _, e := range list {
			g := e.mustStart(t, p.Module)
			for f := range sigs {
				args := make([]uint64, len(sigs[f].Params))
				for i := range args {
					args[i] = seed % 13
				}
				if wrong := g.unmarked(fmt.Sprint("f", f), args...); wrong != "" {
					t.Fatalf("seed %d, %s, f%d: %s", seed, e.name, f, wrong)
				}
			}
			g.close()
		}
	}
}

// unmarked makes a call and returns where a byte has changed although its card was not marked; empty if nowhere.
func (g *guest) unmarked(export string, args ...uint64) string {
	memory, _ := g.mod.Memory().Read(0, g.mod.Memory().Size())
	before := bytes.Clone(memory)
	g.set(wasm.CardsExport, 0)
	_ = g.call(export, plenty, 500, args...)
	memory, _ = g.mod.Memory().Read(0, g.mod.Memory().Size())
	cards := uint64(g.get(wasm.CardsExport))
	for at := range before {
		if before[at] == memory[at] {
			continue
		}
		marked := func(at int) bool { return cards>>(at/wasm.CardBytes%wasm.Cards)&1 != 0 }
		if !marked(at) && !marked(max(at-wasm.CardSpill, 0)) {
			return fmt.Sprintf("%v: byte %d has changed, cards are %x", args, at, cards)
		}
	}
	return ""
}

// TestCampaignCards writes with every instruction that can, at and around the borders of cards and of memory. A single
// store marks one card, and a range marks only cards that it touches.
func TestCampaignCards(t *testing.T) {
	var m Module
	m.Memory(5, 5) // more than there are cards for
	m.Export("memory", wasm.KindMemory, 0)
	segment := m.PassiveData(bytes.Repeat([]byte{7}, 3*wasm.CardBytes))
	offsets := []uint32{0, 1, 4090, 4096, 70_000, 1 << 31, 1<<32 - 1}
	stores := map[string]int{} // and how many bytes each writes
	add := func(name string, params Types, code []byte) {
		m.Export(name, wasm.KindFunc, m.Func(params, nil, nil, code))
	}
	for op, bytes := range map[byte]int{0x36: 4, 0x37: 8, 0x38: 4, 0x39: 8, 0x3a: 1, 0x3b: 2, 0x3c: 1, 0x3d: 2, 0x3e: 4} {
		for _, offset := range offsets {
			value, name := storedBy(op), fmt.Sprintf("%x+%d", op, offset)
			code := append(Op(opcode.LocalGet, 0), Op(opcode.LocalGet, 1)...)
			add(name, Types{wasm.I32, value}, append(code, Op(op, 0, offset)...))
			stores[name] = bytes
		}
	}
	three := append(append(Op(opcode.LocalGet, 0), Op(opcode.LocalGet, 1)...), Op(opcode.LocalGet, 2)...)
	bulk := func(immediates []byte) []byte { return append(bytes.Clone(three), immediates...) }
	add("fill", Types{wasm.I32, wasm.I32, wasm.I32}, bulk(Misc(opcode.MiscMemoryFill, 0)))
	add("copy", Types{wasm.I32, wasm.I32, wasm.I32}, bulk(Misc(opcode.MiscMemoryCopy, 0, 0)))
	add("init", Types{wasm.I32, wasm.I32, wasm.I32}, bulk(Misc(opcode.MiscMemoryInit, segment, 0)))
	p := prepare(t, m.Bytes())

	seed, n := campaign.Seed(t), campaign.Size(1_000, 300_000)
	r := rand.New(rand.NewPCG(seed, 0))
	size := 5 * 65536
	place := func() uint64 {
		border := r.IntN(size/wasm.CardBytes+1) * wasm.CardBytes
		return uint64(uint32(border + r.IntN(24) - 12))
	}
	for _, e := range engines(t) {
		g := e.mustStart(t, p.Module)
		for i := range n {
			args := []uint64{place(), r.Uint64() | 1}
			name := []string{"fill", "copy", "init"}[r.IntN(3)]
			if single := i%4 > 0; single {
				name = fmt.Sprintf("%x+%d", 0x36+r.IntN(9), offsets[r.IntN(len(offsets))])
			} else {
				args = append(args, uint64(r.IntN([]int{1, 20, 3 * wasm.CardBytes, size}[r.IntN(4)])))
				if name == "copy" {
					args[1] = place()
				}
				if name == "init" {
					args[1] = uint64(r.IntN(100))
				}
			}
			if wrong := g.unmarked(name, args...); wrong != "" {
				t.Fatalf("seed %d, %s, %s: %s", seed, e.name, name, wrong)
			}
			marked, most := bits.OnesCount64(uint64(g.get(wasm.CardsExport))), 1
			if stores[name] == 0 {
				most = int(args[2])/wasm.CardBytes + 2
			}
			if stores[name] == 0 && args[0]+args[2] > uint64(size) {
				continue // it traps
			}
			if marked == 0 || marked > most {
				t.Fatalf("%s %v marked %d cards", name, args, marked)
			}
			fresh, _ := g.mod.Memory().Read(0, uint32(size))
			clear(fresh)
		}
	}
}

func storedBy(op byte) wasm.ValueType {
	return map[byte]wasm.ValueType{0x36: wasm.I32, 0x37: wasm.I64, 0x38: wasm.F32, 0x39: wasm.F64, 0x3a: wasm.I32,
		0x3b: wasm.I32, 0x3c: wasm.I64, 0x3d: wasm.I64, 0x3e: wasm.I64}[op]
}
