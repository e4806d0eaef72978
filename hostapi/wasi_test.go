package hostapi

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// wasiGuest imports one function of WASI as function 0.
func wasiGuest(t *testing.T, name string, assemble []byte, data ...datum) guest {
	t.Helper()
	for _, f := range wasiFunctions() {
		if f.name == name {
			var params []byte
			for _, p := range f.params {
				params = append(params, p.typ)
			}
			i := fnImport{wasiModule, name, params, f.results}
			return guest{imports: []fnImport{i}, assemble: assemble, data: data}
		}
	}
	t.Fatalf("%s is not offered", name)
	return guest{}
}

// clock reads a clock into an address.
func clock(id, at int32) []byte { return cat(konst(id), konst64(0), konst(at), ins(opCall, 0)) }

func TestClockShowsTheRequestsNow(t *testing.T) {
	const now = 1_700_000_000_123_000_000 // of twoRecords, in ns
	read := func(id int32) []byte {
		return cat(clock(id, 64), ins(opDropValue))
	}
	for shift, want := range map[int32]uint32{0: now & 0xffffffff, 4: now >> 32} {
		// Two readings must agree with each other and with now: the result is their difference minus 1.
		code := cat(read(0), read(0), load(64+shift), konst(int32(want)), ins(opSub), konst(-1), ins(opAdd))
		out := runGuest(t, Options{}, wasiGuest(t, "clock_time_get", code))
		if out.Status != plan.StatusAuthorError || !strings.Contains(out.Detail, "returned -1") {
			t.Errorf("word at %d: %s: %s", shift, out.Status, out.Detail)
		}
	}
	moved := cat(read(1), load(64), konst(-1000000001), ins(opAdd))
	if out := runGuest(t, Options{}, wasiGuest(t, "clock_time_get", moved)); !strings.Contains(out.Detail,
		"returned -1") {
		t.Errorf("monotonic: %s: %s", out.Status, out.Detail)
	}
}

func TestRandomnessIsAnInput(t *testing.T) {
	h := newHost(t, Options{})
	// a negative number of random bits
	code := cat(call(0, 64, 4), ins(opDropValue), load(64), konst(-1<<31), ins(opOr))
	c := twoRecords(mustLoad(t, h, wasiGuest(t, "random_get", code).build()))
	first, again := h.Run(t.Context(), c), h.Run(t.Context(), c)
	c.Request.Seed++
	other := h.Run(t.Context(), c)
	if first.Status != plan.StatusAuthorError || !sameOutcome(first, again) || first.Detail == other.Detail {
		t.Errorf("%q, %q, with another seed %q", first.Detail, again.Detail, other.Detail)
	}
}

func TestExitIsATrapWithTheRuntimesWords(t *testing.T) {
	exit := runGuest(t, Options{}, wasiGuest(t, "proc_exit", cat(call(0, 0), konst(0))))
	if exit.Status != plan.StatusTrap || !strings.Contains(exit.Detail, "proc_exit(0)") {
		t.Errorf("%+v", exit)
	}
	vector := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 80), 7)
	code := cat(call(0, 2, 64, 1, 72), ins(opDropValue), ins(opUnreachable))
	out := runGuest(t, Options{}, wasiGuest(t, "fd_write", code, datum{64, vector}, datum{80, []byte("panic!\xff")}))
	if out.Status != plan.StatusTrap || !strings.HasSuffix(out.Detail, "unreachable: panic!\uFFFD") {
		t.Errorf("%s: %s", out.Status, out.Detail)
	}
}

func TestWASIRefusesBadArguments(t *testing.T) {
	for name, c := range map[string]struct {
		function string
		code     []byte
		status   plan.Status
		want     string
	}{
		"clock ptr":    {"clock_time_get", clock(0, -1), plan.StatusTrap, "clock_time_get: 8 bytes"},
		"clock id":     {"clock_time_get", show(clock(9, 0)), plan.StatusAuthorError, "-29"},
		"random len":   {"random_get", call(0, 0, -1), plan.StatusTrap, "random_get: length -1"},
		"random flood": {"random_get", call(0, 0, 3*65536), plan.StatusHostQuota, "bytes of text"},
		"sizes":        {"args_sizes_get", call(0, 0, -1), plan.StatusTrap, "args_sizes_get: 4 bytes"},
		"vectors":      {"fd_write", call(0, 1, -8, 2, 0), plan.StatusTrap, "fd_write: 16 bytes"},
		"vector":       {"fd_write", call(0, 1, 64, 1, 0), plan.StatusTrap, "fd_write: 4 bytes at 4294967295"},
		"many vectors": {"fd_write", show(call(0, 1, 64, -1, 0)), plan.StatusAuthorError, "-29"},
		"other file":   {"fd_write", show(call(0, 3, 64, 1, 0)), plan.StatusAuthorError, "-9"},
		"sleep": {"poll_oneoff", show(cat(call(0, 1024, 2048, 1, 4096), load(4096), ins(opAdd))),
			plan.StatusAuthorError, "-2"},
		"wait for all":  {"poll_oneoff", show(call(0, 0, 0, 0, 0)), plan.StatusAuthorError, "-29"},
		"events ptr":    {"poll_oneoff", call(0, 0, -1, 2, 0), plan.StatusTrap, "poll_oneoff: 64 bytes"},
		"no directory":  {"fd_prestat_get", show(call(0, 3, 0)), plan.StatusAuthorError, "-9"},
		"yield and run": {"sched_yield", show(call(0)), plan.StatusAuthorError, "-1"},
	} {
		limits := DefaultLimits()
		limits.TextBytes = 64 << 10
		vector := datum{64, []byte{0xff, 0xff, 0xff, 0xff, 4, 0, 0, 0}}
		out := runGuest(t, Options{Limits: limits}, wasiGuest(t, c.function, c.code, vector))
		if out.Status != c.status || !strings.Contains(out.Detail, c.want) {
			t.Errorf("%s: %s: %s", name, out.Status, out.Detail)
		}
	}
}
