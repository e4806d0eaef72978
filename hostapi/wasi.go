package hostapi

import (
	"encoding/binary"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// wasiModule is the module name under which language runtimes import WASI preview 1.
const wasiModule = "wasi_snapshot_preview1"

// Error numbers of WASI preview 1.
const (
	wasiSuccess      = 0
	wasiBadFile      = 8
	wasiInvalid      = 28
	wasiNotSupported = 58
)

// The clock does not move: during a call it shows the request's now, and while an instance starts, startInstant,
// because an instance outlives the request that it was made for. Monotonic time is always 1 s, because the Go runtime
// considers 0 a broken clock.
const (
	startInstant   = int64(1_600_000_000_000) // ms since 1970
	monotonicNanos = int64(time.Second)
	startSeed      = 0
)

// wasiFunctions returns the functions that the runtimes of Go, TinyGo, AssemblyScript, C and Rust import to start and
// to report panics. They give access to nothing. wazero's own are not used, because those offer files and sockets, and
// because every result must depend only on the request and the module.
func wasiFunctions() []hostFunction {
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	errno := []api.ValueType{i32}
	return []hostFunction{
		{"args_get", i32s("argv", "argv_buf"), errno, "there are none", wasiNothing},
		{"args_sizes_get", i32s("argc", "argv_buf_size"), errno, "0, 0", wasiNoSizes},
		{"environ_get", i32s("environ", "environ_buf"), errno, "there are none", wasiNothing},
		{"environ_sizes_get", i32s("count", "buf_size"), errno, "0, 0", wasiNoSizes},
		{"clock_res_get", i32s("id", "resolution"), errno, "1 ms", wasiClockResolution},
		{"clock_time_get", []param{{"id", i32}, {"precision", i64}, {"time", i32}}, errno,
			"the request's now; monotonic time does not advance", wasiClock},
		{"random_get", i32s("buf", "buf_len"), errno, "a fixed sequence, seeded by the request", wasiRandom},
		{"sched_yield", nil, errno, "does nothing", wasiNothing},
		{"poll_oneoff", i32s("in", "out", "nsubscriptions", "nevents"), errno,
			"every wait for a clock ends at once; ENOTSUP for other events", wasiPoll},
		{"proc_exit", i32s("code"), nil, "ends the call as a trap", wasiExit},
		{"fd_write", i32s("fd", "iovs", "iovs_len", "nwritten"), errno,
			"2: kept as the message of a trap; 1: dropped; EBADF for other descriptors", wasiWrite},
		{"fd_close", i32s("fd"), errno, "EBADF", wasiNoFile},
		{"fd_fdstat_get", i32s("fd", "stat"), errno, "EBADF", wasiNoFile},
		{"fd_fdstat_set_flags", i32s("fd", "flags"), errno, "EBADF", wasiNoFile},
		{"fd_prestat_get", i32s("fd", "prestat"), errno, "EBADF: no directory is open", wasiNoFile},
		{"fd_prestat_dir_name", i32s("fd", "path", "path_len"), errno, "EBADF", wasiNoFile},
		{"fd_seek", []param{{"fd", i32}, {"offset", i64}, {"whence", i32}, {"position", i32}}, errno, "EBADF",
			wasiNoFile},
	}
}

func wasiNothing(_ *instance, stack []uint64) { answer(stack, wasiSuccess) }
func wasiNoFile(_ *instance, stack []uint64)  { answer(stack, wasiBadFile) }

// answer puts a result on the stack, which has room for it even if a function has no parameters.
func answer(stack []uint64, errno uint64) { stack[0] = errno }

func wasiNoSizes(in *instance, stack []uint64) {
	binary.LittleEndian.PutUint32(in.bytes(uint32(stack[0]), 4), 0)
	binary.LittleEndian.PutUint32(in.bytes(uint32(stack[1]), 4), 0)
	answer(stack, wasiSuccess)
}

func wasiClockResolution(in *instance, stack []uint64) {
	binary.LittleEndian.PutUint64(in.bytes(uint32(stack[1]), 8), uint64(time.Millisecond))
	answer(stack, wasiSuccess)
}

func wasiClock(in *instance, stack []uint64) {
	const realtime, monotonic = 0, 1
	nanos := monotonicNanos
	switch uint32(stack[0]) {
	case realtime:
		nanos = startInstant * int64(time.Millisecond)
		if in.request != nil {
			nanos = in.request.Now * int64(time.Millisecond)
		}
	case monotonic:
	default:
		answer(stack, wasiInvalid)
		return
	}
	binary.LittleEndian.PutUint64(in.bytes(uint32(stack[2]), 8), uint64(nanos))
	answer(stack, wasiSuccess)
}

// wasiRandom fills a buffer from splitmix64, whose state is set from the request's seed at the start of every call.
func wasiRandom(in *instance, stack []uint64) {
	b := in.bytes(uint32(stack[0]), int32(stack[1]))
	in.pull(len(b))
	var word [8]byte
	for len(b) > 0 {
		in.random += 0x9e3779b97f4a7c15
		z := in.random
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(word[:], z^z>>31)
		b = b[copy(b, word[:]):]
	}
	answer(stack, wasiSuccess)
}

func wasiExit(in *instance, stack []uint64) {
	in.stop(plan.StatusTrap, "the policy called proc_exit(%d)", int32(stack[0]))
}

// wasiPoll ends every wait at once: the Go runtime sleeps while it panics, and otherwise its message would be lost. A
// guest that waits for the clock to move runs out of fuel.
func wasiPoll(in *instance, stack []uint64) {
	const subscriptionSize, eventSize, typeAt, errorAt, eventTypeAt, clock = 48, 32, 8, 8, 10, 0
	le := binary.LittleEndian
	n := uint32(stack[2])
	if n == 0 || n > maxVectors {
		answer(stack, wasiInvalid)
		return
	}
	in.spend(int(n) * fuelPerVector)
	subscriptions := in.bytes(uint32(stack[0]), int32(n*subscriptionSize))
	events := in.bytes(uint32(stack[1]), int32(n*eventSize))
	for i := range n {
		subscription, event := subscriptions[i*subscriptionSize:], events[i*eventSize:][:eventSize]
		userdata, typ := le.Uint64(subscription), subscription[typeAt]
		clear(event)
		le.PutUint64(event, userdata)
		event[eventTypeAt] = typ
		if typ != clock {
			le.PutUint16(event[errorAt:], wasiNotSupported)
		}
	}
	le.PutUint32(in.bytes(uint32(stack[3]), 4), n)
	answer(stack, wasiSuccess)
}

// maxVectors is the maximum number of items in a list in one call.
const maxVectors = 1024

// wasiWrite keeps what a runtime prints when it panics. Long output is truncated rather than refused, because the call
// fails anyway.
func wasiWrite(in *instance, stack []uint64) {
	const stdout, stderr, maxPrinted = 1, 2, 512
	le := binary.LittleEndian
	fd, vectors := uint32(stack[0]), uint32(stack[2])
	if fd != stdout && fd != stderr {
		answer(stack, wasiBadFile)
		return
	}
	if vectors > maxVectors {
		answer(stack, wasiInvalid)
		return
	}
	in.spend(int(vectors) * fuelPerVector)
	iovs := in.bytes(uint32(stack[1]), int32(vectors*8))
	total := uint32(0)
	for ; len(iovs) > 0; iovs = iovs[8:] {
		b := in.bytes(le.Uint32(iovs), int32(le.Uint32(iovs[4:])))
		total += uint32(len(b))
		if fd == stderr {
			in.printed = append(in.printed, b[:min(len(b), maxPrinted-len(in.printed))]...)
		}
	}
	le.PutUint32(in.bytes(uint32(stack[3]), 4), total)
	answer(stack, wasiSuccess)
}
