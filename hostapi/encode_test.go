package hostapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// sampleRequest has a distinct value in every field, so that swapping two would be noticed.
func sampleRequest() *plan.Request {
	return &plan.Request{
		Records: []plan.Record{{
			Seq: 0x0807060504030201, Created: 0x1817161514131211, Turn: 0x21, Tokens: 0x22, CompressedTokens: 0x23,
			TextBytes: 0x24, Atom: 0x25, Delegation: 0x26, Agent: 1, Tool: 2, TagsAt: 1, TagCount: 2,
			Flags: 0x0735, Place: 0x29, Role: plan.RoleAssistant, Kind: plan.KindA2A,
		}, {Role: plan.RoleUser}},
		Strings: []string{"", "ag", "tool", "red"}, Tags: []uint32{3, 2, 1},
		Config: []plan.ConfigEntry{
			{Key: "b", Value: true}, {Key: "f", Value: 1.5}, {Key: "i", Value: int64(-2)}, {Key: "s", Value: "xyz"},
		},
		BudgetMessages: 0x31, BudgetTokens: 0x32, ViewerDelegation: 0x33, ViewerAgent: 1, Now: -0x34,
		Seed: 0x3837363534333231, NewestTurn: 0x36, OlderExist: true, SummaryCovers: 0x37, SummaryTokens: 0x38,
		OlderTokens: 0x4847464544434241, MemoryBudget: 0x39,
	}
}

// The bytes below were written by hand from ABI.md and share nothing with the encoder's table.
func TestEncodeGolden(t *testing.T) {
	want := strings.Join([]string{
		// preamble
		"4d4e4d31", "03000100", "80000000", "48000000", "02000000", "80000000", // magic, abi, sizes, count, offset
		"10010000", "04000000", // config at 128 + 2*72 = 272
		"70010000", "04000000", // strings at 272 + 4*24 = 368
		"31000000", "32000000", "33000000", "01000000", // budgets, viewer
		"ccffffffffffffff", "3132333435363738", // now, seed
		"36000000", "01000000", "3700000000000000", "38000000", "00000000",
		"4142434445464748", "39000000", "00000000",
		"01000000", "00000000", "00000000", "40000000", // assemble, no origin, no extra table, its size
		// record 0
		"00000000", "21000000", "0102030405060708", "02", "03", "3507", "22000000", "23000000", "24000000",
		"25000000", "26000000", "01000000", "02000000", "01000000", "02000000", "1112131415161718",
		"29000000", "00000000",
		// record 1
		"01000000", "00000000", "0000000000000000", "01", "00", "0000", strings.Repeat("00000000", 9),
		"0000000000000000", "0000000000000000",
		// config: strings' bytes begin at 368 + 4*8 + 3*4 = 412
		"9c010000", "01000000", "03000000", "00000000", "0100000000000000",
		"9d010000", "01000000", "02000000", "00000000", "000000000000f83f",
		"9e010000", "01000000", "01000000", "00000000", "feffffffffffffff",
		"9f010000", "01000000", "04000000", "03000000", "a001000000000000",
		// strings, then the tag list
		"a3010000", "00000000", "a3010000", "02000000", "a5010000", "04000000", "a9010000", "03000000",
		"03000000", "02000000", "01000000",
		hex.EncodeToString([]byte("bfisxyzagtoolred")),
	}, "")
	r := sampleRequest()
	l, err := layoutOf(r)
	if err != nil {
		t.Fatal(err)
	}
	got := bytes.Repeat([]byte{0xee}, int(l.size.request())) // what an earlier call may have left
	if err := encode(got, r, l); err != nil {
		t.Fatal(err)
	}
	if g := hex.EncodeToString(got[:l.end]); g != want {
		t.Errorf("got  %s\nwant %s", g, want)
	}
	if l.end != len(want)/2 || got[l.end] != 0xee {
		t.Errorf("the request takes %d bytes, not %d, or more was written", l.end, len(want)/2)
	}
}

func TestEncodeAllocatesNothing(t *testing.T) {
	r := conversation(plan.Digest{}, sampleRequest().Config, 50).Request
	dst := make([]byte, sizeSmall.request())
	n := testing.AllocsPerRun(100, func() {
		l, err := layoutOf(r)
		if err == nil {
			err = encode(dst, r, l)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// withTags is a request with one record that has one tag of the given length, and an agent's name.
func withTags(length int) *plan.Request {
	return &plan.Request{
		Records: []plan.Record{{Agent: 1, TagsAt: 0, TagCount: 1}, {Agent: 1}},
		Strings: []string{"", "agent", strings.Repeat("x", length)}, Tags: []uint32{2},
	}
}

// Everything except the bytes of the tag: preamble, two records, three strings, one tag, the agent's name.
const besidesTag = 128 + 2*72 + 3*8 + 4 + 5

func TestLayoutPicksTheSmallestArena(t *testing.T) {
	for _, c := range []struct {
		tag  int
		size arenaSize
		tags bool
	}{
		{65536 - besidesTag, sizeSmall, true},
		{65536 - besidesTag + 1, sizeLarge, true},
		{524288 - besidesTag, sizeLarge, true},
		{524288 - besidesTag + 1, sizeSmall, false}, // without its tags, the request is small
	} {
		l, err := layoutOf(withTags(c.tag))
		if err != nil || l.size != c.size || l.tags != c.tags {
			t.Errorf("tag of %d bytes: size %d, tags %v, %v", c.tag, l.size, l.tags, err)
		}
	}
}

func TestTagsLeftOut(t *testing.T) {
	r := withTags(600 << 10)
	l, err := layoutOf(r)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, l.size.request())
	if err := encode(b, r, l); err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	first, second := b[128:200], b[200:272]
	if le.Uint16(first[18:]) != 64 || le.Uint32(first[52:]) != 0 {
		t.Errorf("record with tags: flags %d, %d tags", le.Uint16(first[18:]), le.Uint32(first[52:]))
	}
	if le.Uint16(second[18:]) != 0 {
		t.Errorf("record without tags: flags %d", le.Uint16(second[18:]))
	}
	pairs := b[le.Uint32(b[32:]):]
	if n := le.Uint32(b[36:]); n != 3 {
		t.Errorf("%d strings, ids have moved", n)
	}
	if at, n := le.Uint32(pairs[8:]), le.Uint32(pairs[12:]); string(b[at:at+n]) != "agent" {
		t.Errorf("agent is %q", b[at:at+n])
	}
	if n := le.Uint32(pairs[20:]); n != 0 {
		t.Errorf("a string that only tags name has %d bytes", n)
	}
}

func TestRequestThatFitsNowhere(t *testing.T) {
	h := newHost(t, Options{})
	call := twoRecords(mustLoad(t, h, guest{}.build()))
	call.Request.Records = make([]plan.Record, 7281)
	out := h.Run(context.Background(), call)
	if out.Status != plan.StatusUnavailable || !strings.Contains(out.Detail, "524288") {
		t.Errorf("%s: %s", out.Status, out.Detail)
	}
}

// Whatever the sizes, all parts are aligned, disjoint and inside the arena.
func FuzzLayout(f *testing.F) {
	f.Add(uint16(0), uint16(0), uint16(0), uint16(0), uint16(0))
	f.Add(uint16(50), uint16(4), uint16(10), uint16(3), uint16(20))
	f.Add(uint16(4096), uint16(1), uint16(5000), uint16(9000), uint16(40))
	f.Fuzz(func(t *testing.T, records, config, strs, tags, width uint16) {
		r := &plan.Request{Records: make([]plan.Record, records), Tags: make([]uint32, tags), Strings: []string{""}}
		for range config % 64 {
			r.Config = append(r.Config, plan.ConfigEntry{Key: "key", Value: math.Pi})
		}
		for range strs {
			r.Strings = append(r.Strings, strings.Repeat("s", int(width%256)))
		}
		l, err := layoutOf(r)
		if err != nil {
			return
		}
		if l.end > int(l.size.request()) || l.config%8 != 0 || l.strings%8 != 0 ||
			l.config < 112 || l.strings < l.config || l.tagList < l.strings || l.bytes < l.tagList || l.end < l.bytes {
			t.Fatalf("%+v", l)
		}
		b := make([]byte, l.size.request())
		if err := encode(b, r, l); err != nil {
			t.Fatal(err)
		}
		last := b[l.strings+8*(len(r.Strings)-1):]
		if end := binary.LittleEndian.Uint32(last) + binary.LittleEndian.Uint32(last[4:]); int(end) != l.end {
			t.Fatalf("the last string ends at %d, the request at %d", end, l.end)
		}
	})
}
