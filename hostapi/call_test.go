package hostapi

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

func sameOutcome(a, b plan.Outcome) bool { return reflect.DeepEqual(a, b) }

// returnsPlan is assemble code that returns a plan stored as data at planArena.
func returnsPlan(b []byte) guest {
	return guest{data: []datum{{planArena, b}}, assemble: konst(int32(len(b)))}
}

// insertU32 is assemble code that returns one INSERT with the four bytes at an address, so that a test can see them.
// The bytes must be UTF-8.
func insertU32(before []byte, at int32) guest {
	b := planBytes("....", opBytes(6, 0, 0, 0, 48, 4))
	return guest{data: []datum{{planArena, b}}, assemble: cat(before, store(planArena+48, load(at)),
		konst(int32(len(b))))}
}

func TestRunEndings(t *testing.T) {
	good := planBytes("code", opBytes(1, 0, 0, 1, 0, 0, 48, 4))
	small := DefaultLimits()
	small.MemoryBytes = 64 * pageBytes
	forever := cat(ins(opLoop, void), ins(opBr, 0), ins(opEnd), konst(0))
	for name, c := range map[string]struct {
		limits Limits
		guest  guest
		status plan.Status
		want   string
	}{
		"plan":     {Limits{}, returnsPlan(good), plan.StatusOK, ""},
		"no plan":  {Limits{}, guest{}, plan.StatusOK, ""},
		"bad plan": {Limits{}, returnsPlan(planBytes("", opBytes(9, 0))), plan.StatusBadPlan, "op 0: op is 9"},
		"plan too long": {Limits{}, guest{assemble: konst(32769)}, plan.StatusBadPlan,
			"32769 bytes in an area of 32768"},
		"longest length": {Limits{}, guest{assemble: konst(1<<31 - 1)}, plan.StatusBadPlan, "2147483647"},
		"author":         {Limits{}, guest{assemble: konst(-7)}, plan.StatusAuthorError, "returned -7"},
		"trap": {Limits{}, guest{assemble: ins(opUnreachable)}, plan.StatusTrap,
			"mneme_assemble: unreachable"},
		"memory beyond": {Limits{}, guest{assemble: load(-1)}, plan.StatusTrap, "out of bounds memory access"},
		"endless loop":  {Limits{}, guest{assemble: forever}, plan.StatusFuelExhausted, "more than 10080000 fuel"},
		"endless calls": {Limits{}, guest{assemble: call(3), more: []fn{{nil, []byte{i32t}, call(3)}}},
			plan.StatusDepth, "more than 500 nested calls"},
		"memory refused": {small, guest{assemble: cat(grow(65), ins(opUnreachable))},
			plan.StatusMemory, "4194304 bytes"},
		"refusal borne": {small, guest{assemble: cat(grow(65), konst(0))}, plan.StatusOK, ""},
		"growth":        {small, guest{assemble: cat(grow(9), konst(0))}, plan.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out := runGuest(t, Options{Limits: c.limits}, c.guest)
			if out.Status != c.status || !strings.Contains(out.Detail, c.want) {
				t.Errorf("%s: %s", out.Status, out.Detail)
			}
			if (out.Status == plan.StatusOK) != (out.Detail == "") || out.Status != plan.StatusOK && out.Ops != nil {
				t.Errorf("%+v", out)
			}
			if out.Status == plan.StatusTrap && strings.Contains(out.Detail, "\n") {
				t.Errorf("more than a line: %s", out.Detail)
			}
		})
	}
}

func TestRunReturnsThePlan(t *testing.T) {
	got := runGuest(t, Options{}, returnsPlan(planBytes("code", opBytes(1, 0, 0, 1, 0, 0, 48, 4))))
	want := []plan.Op{{Code: plan.OpDrop, First: 0, Last: 1, Reason: "code"}}
	if !reflect.DeepEqual(got.Ops, want) || got.Fuel == 0 {
		t.Errorf("%+v", got)
	}
}

func TestRunOfAnUnknownModule(t *testing.T) {
	out := newHost(t, Options{}).Run(context.Background(), twoRecords(plan.Digest{1}))
	if out.Status != plan.StatusUnavailable || !strings.Contains(out.Detail, "not loaded") {
		t.Errorf("%+v", out)
	}
}

func TestRequestReachesTheGuest(t *testing.T) {
	for name, at := range map[string]int32{"MNM1": requestArena, "\x02\x00\x00\x00": requestArena + 16} {
		out := runGuest(t, Options{}, insertU32(nil, at))
		if out.Status != plan.StatusOK || out.Ops[0].Text != name {
			t.Errorf("at %d: %+v", at, out)
		}
	}
}

// Each guest changes some state after showing what it found: the second call must find what the first one found.
func TestStateDoesNotSurvive(t *testing.T) {
	const far = 3*65536 - 4 // in neither arena
	bump := func(get, set []byte) []byte { return cat(get, konst(1), ins(opAdd), set) }
	shown := func(before, value []byte) guest {
		b := planBytes("....", opBytes(6, 0, 0, 0, 48, 4))
		code := cat(before, store(planArena+48, value), konst(int32(len(b))))
		return guest{data: []datum{{planArena, b}}, assemble: code}
	}
	memory := shown(cat(konst(far), load(far), konst(1), ins(opAdd), ins(opStore, 2, 0)), load(far))
	global := shown(bump(ins(opGlobalGet, 0), ins(opGlobalSet, 0)), ins(opGlobalGet, 0))
	global.globals = []int32{65}
	behind := shown(cat(konst(requestArena+65532), load(requestArena+65532), konst(1), ins(opAdd), ins(opStore, 2, 0)),
		load(requestArena+65532))
	// Call the table's entry, then set it to null: a second call through it would trap.
	table := shown(cat(konst(0), ins(opIndirect, 0, 0), ins(opDropValue),
		konst(0), ins(opNull, funcref), ins(opTableSet, 0)), konst(65))
	table.table = 1
	grown := shown(grow(1), ins(opMemorySize, 0))
	for name, g := range map[string]guest{
		"memory": memory, "global": global, "arena": behind, "table": table, "growth": grown,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, Options{})
			c := twoRecords(mustLoad(t, h, g.build()))
			first := h.Run(context.Background(), c)
			if first.Status != plan.StatusOK || len(first.Ops) != 1 {
				t.Fatalf("%+v", first)
			}
			for range 3 {
				if again := h.Run(context.Background(), c); !sameOutcome(first, again) {
					t.Errorf("first %+v, then %+v", first, again)
				}
			}
		})
	}
}

// A shorter request cannot see anything of the previous one.
func TestRequestsDoNotMix(t *testing.T) {
	h := newHost(t, Options{})
	b := planBytes("....", opBytes(6, 0, 0, 0, 48, 4))
	d := mustLoad(t, h, guest{
		data:     []datum{{planArena, b}},
		assemble: cat(store(planArena+48, load(requestArena+1000)), konst(int32(len(b)))),
	}.build())
	short, long := twoRecords(d), twoRecords(d)
	long.Request = &plan.Request{Records: make([]plan.Record, 50)}
	for i := range long.Request.Records {
		long.Request.Records[i].Turn = 0x41414141
	}
	for range 3 {
		h.Run(context.Background(), long)
		if out := h.Run(context.Background(), short); out.Ops[0].Text != "\x00\x00\x00\x00" {
			t.Fatalf("%q", out.Ops[0].Text)
		}
	}
}

func TestConcurrentCalls(t *testing.T) {
	limits := DefaultLimits()
	limits.Calls, limits.IdleBytes = 4, 3<<20
	h := newHost(t, Options{Limits: limits})
	g := insertU32(nil, requestArena+56) // the low half of now
	digests := []plan.Digest{mustLoad(t, h, g.build())}
	g.globals = []int32{1}
	digests = append(digests, mustLoad(t, h, g.build()))
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 200 {
				c := twoRecords(digests[(worker+i)%2])
				c.Tenant = fmt.Sprint("tenant", (worker+i)%3)
				var want [4]byte
				binary.LittleEndian.PutUint32(want[:], uint32(worker<<8|i&0x7f))
				c.Request.Now = int64(worker<<8 | i&0x7f)
				if i%50 == 0 {
					c.Request.Records = make([]plan.Record, 1200)
				}
				out := h.Run(context.Background(), c)
				if i%50 == 0 {
					continue // the large arenas have other addresses; only the status is compared
				}
				if out.Status != plan.StatusOK || out.Ops[0].Text != string(want[:]) {
					t.Errorf("%+v", out)
					return
				}
			}
		})
	}
	wg.Wait()
	if h.pool.bytes > 3<<20 {
		t.Errorf("%d bytes are idle", h.pool.bytes)
	}
}

func TestWaitingForASlot(t *testing.T) {
	limits := DefaultLimits()
	limits.Calls = 1
	h := newHost(t, Options{Limits: limits})
	c := twoRecords(mustLoad(t, h, guest{}.build()))
	if err := h.calls.Enter(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if out := h.Run(gone, c); out.Status != plan.StatusUnavailable {
		t.Errorf("given up: %+v", out)
	}
	late, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	if out := h.Run(late, c); out.Status != plan.StatusUnavailable {
		t.Errorf("too late: %+v", out)
	}
	h.calls.Leave("other")
	if out := h.Run(context.Background(), c); out.Status != plan.StatusOK {
		t.Errorf("free again: %+v", out)
	}
}

func TestFailuresDoNotSpread(t *testing.T) {
	h := newHost(t, Options{})
	bad, good := guest{assemble: ins(opUnreachable)}, guest{}
	badCall, goodCall := twoRecords(mustLoad(t, h, bad.build())), twoRecords(mustLoad(t, h, good.build()))
	for range 20 {
		if out := h.Run(context.Background(), badCall); out.Status != plan.StatusTrap {
			t.Fatalf("%+v", out)
		}
		if out := h.Run(context.Background(), goodCall); out.Status != plan.StatusOK {
			t.Fatalf("%+v", out)
		}
	}
	if n := h.pool.kinds(); n != 2 {
		t.Errorf("%d keys have idle instances, want both: one that failed is restored as well", n)
	}
}

// The interpreter is another implementation of the same semantics: outcomes must be equal.
func TestInterpreterAgrees(t *testing.T) {
	compiled, interpreted := newHost(t, Options{}), newHost(t, Options{Interpreter: true})
	for name, code := range builtins(t) {
		d := mustLoad(t, compiled, code)
		m, err := interpreted.Load(context.Background(), "t", code)
		if err != nil {
			t.Fatal(err)
		}
		config, err := m.Manifest.Config(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 3, 50, 600} {
			c := conversation(d, config, n)
			a, b := compiled.Run(context.Background(), c), interpreted.Run(context.Background(), c)
			if !sameOutcome(a, b) {
				t.Errorf("%s over %d records: compiled %+v, interpreted %+v", name, n, a, b)
			}
		}
	}
}
