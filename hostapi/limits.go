package hostapi

import (
	"runtime"
	"time"
)

// Limits limits what policies may take from their host: each call, each module, and all of them together. wasm.Limits
// limits a module before it is compiled.
type Limits struct {
	// One call.
	Fuel          int           // about one per instruction; deterministic, and meant to run out before CallTime does
	FuelPerRecord int           // added for each record of the request
	CallTime      time.Duration // elapsed time, including host functions: limits what fuel does not measure
	Depth         int           // nested calls
	MemoryBytes   int           // linear memory of one instance
	HostCalls     int           // of all functions together
	TextBytes     int           // text copied, searched or tokenised, beside that of the records; see textReads
	LogBytes      int           // log lines and the author's message
	InsertedBytes int           // texts in one plan
	StoredBytes   int           // texts in one plan of the hooks remember and retain

	// Starting an instance: _initialize and mneme_arena. Language runtimes do a lot of work there, once for many calls.
	StartFuel int
	StartTime time.Duration

	// Compiling a module, in a child process. Real modules take less than two seconds.
	CompileTime   time.Duration // CPU time, in whole seconds; the elapsed time may be ten times as long
	CompileMemory int           // bytes

	// All tenants together. When several tenants are active, each may use all but one of Calls, so that the others'
	// calls need not wait; otherwise the first call of another tenant would wait for a millisecond and a slice of fuel.
	// Each tenant may use one of Compiles.
	Calls     int           // at once: one per processor, because guests compute and never wait
	Compiles  int           // at once, at a low priority
	IdleBytes int           // memory of idle instances; one tenant's at most a quarter of it
	IdleTime  time.Duration // how long an instance stays idle at least before it is closed; at most twice as long
	CodeBytes int           // loaded modules: machine code, snapshots and manifests in memory
	DiskBytes int           // machine code on disk
}

// DefaultLimits returns limits that leave ample room for real policies; see docs/ABI.md.
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
		StoredBytes:   64 << 10,

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
