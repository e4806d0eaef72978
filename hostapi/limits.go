package hostapi

import (
	"runtime"
	"time"
)

// Limits bounds what policies may take from their host: each call, each module, and all of them together. wasm.Limits
// bounds a module before it is compiled.
type Limits struct {
	// One call.
	Fuel          int           // about one per instruction; deterministic, and meant to run out before CallTime does
	FuelPerRecord int           // added for each record of the request
	CallTime      time.Duration // by the clock, host functions included: bounds what fuel does not measure
	Depth         int           // nested calls
	MemoryBytes   int           // linear memory of one instance
	HostCalls     int           // all functions together
	TextBytes     int           // text copied, searched or tokenised
	LogBytes      int           // log lines and author's message
	InsertedBytes int           // texts in one plan

	// Starting an instance: _initialize and mneme_arena. Language runtimes work much there, once for many calls.
	StartFuel int
	StartTime time.Duration

	// Compiling a module, in a child process. Real modules take less than two seconds.
	CompileTime   time.Duration // computing time, in whole seconds; by the clock ten times as much
	CompileMemory int           // bytes

	// All tenants together. While another tenant is about, one tenant may have all but one of Calls, so that the other's
	// calls need not wait; its first one waits for a millisecond and a slice of fuel. One tenant may have one of Compiles.
	Calls     int           // at once: one per processor, because guests compute and never wait
	Compiles  int           // at once, at a low priority
	IdleBytes int           // memory of instances that wait for their next call, one tenant's a quarter of it at most
	IdleTime  time.Duration // how long an instance waits for its next call at least; at most twice as long
	CodeBytes int           // loaded modules: machine code, snapshots and manifests in memory
	DiskBytes int           // machine code on disk
}

// DefaultLimits leave real policies ample room; see docs/ABI.md.
func DefaultLimits() Limits {
	processors := runtime.GOMAXPROCS(0)
	return Limits{
		Fuel:          10_000_000,
		FuelPerRecord: 40_000,
		CallTime:      150 * time.Millisecond,
		Depth:         500,
		MemoryBytes:   16 << 20,
		HostCalls:     10_000,
		TextBytes:     1 << 20,
		LogBytes:      4 << 10,
		InsertedBytes: 16 << 10,

		StartFuel: 100_000_000,
		StartTime: time.Second,

		CompileTime:   5 * time.Second,
		CompileMemory: 1 << 30,

		Calls:     processors,
		Compiles:  max(2, processors/2),
		IdleBytes: 128 << 20,
		IdleTime:  5 * time.Second,
		CodeBytes: 256 << 20,
		DiskBytes: 1 << 30,
	}
}
