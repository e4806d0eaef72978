package hostapi

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/testdata/hostile"
)

// What an attack costs others: while one tenant continuously uploads or calls a hostile module, a heartbeat records its
// longest gap, and a neighbour the p99 of a usual call. x-p99 is relative to the same run without the attack, and
// x-usual to the same tenant continuously calling a usual policy, which it is allowed to do. docs/SANDBOX.md says how
// to run it and shows the results.
func BenchmarkNeighbours(b *testing.B) {
	heap := make([]byte, serverHeap)
	h := newHost(b, Options{})
	neighbour := usualCall(b, h, "neighbour")
	quiet := func(ctx context.Context) { <-ctx.Done() }
	usual := calling(h, usualCall(b, h, "attacker"))
	run := func(name string, rush func(*testing.B) func(context.Context)) {
		b.Run(name, func(b *testing.B) {
			attackers := []func(context.Context){quiet, usual, rush(b)}
			var seen [3]observation
			for b.Loop() { // alternating, so that other load on the machine affects all alike
				for i, attacker := range attackers {
					seen[i] = seen[i].and(observe(h, neighbour, attacker))
				}
			}
			without, same, with := seen[0], seen[1], seen[2]
			b.ReportMetric(with.gap, "gap-ms")
			b.ReportMetric(without.gap, "quiet-gap-ms")
			b.ReportMetric(with.p99, "p99-µs")
			b.ReportMetric(with.p99/without.p99, "x-p99")
			b.ReportMetric(with.p99/same.p99, "x-usual")
			b.ReportMetric(0, "ns/op")
		})
	}
	for _, a := range hostile.Attacks() {
		run(a.Name, func(b *testing.B) func(context.Context) { return rush(b, h, a) })
	}
	nonce := int32(0)
	run("compiling", func(*testing.B) func(context.Context) {
		return func(ctx context.Context) {
			for ; ctx.Err() == nil; nonce++ {
				_, _ = h.Load(ctx, "attacker", hostile.Heavy(nonce))
			}
		}
	})
	runtime.KeepAlive(heap)
}

// serverHeap is roughly the size of the vocabularies of a server's tokenizers: with a tiny heap, the garbage collector
// would run all the time, whatever is allocated.
const serverHeap = 128 << 20

// usualCall is the most expensive built-in policy over a usual window.
func usualCall(b *testing.B, h *Host, tenant string) plan.Call {
	m, err := h.Load(b.Context(), "", builtins(b)["tool-pair-trim.wasm"])
	if err != nil {
		b.Fatal(err)
	}
	config, err := m.Manifest.Config(nil)
	if err != nil {
		b.Fatal(err)
	}
	c := conversation(m.Digest, config, 200)
	c.Tenant = tenant
	return c
}

// calling makes one call after the other.
func calling(h *Host, c plan.Call) func(context.Context) {
	return func(ctx context.Context) {
		for ctx.Err() == nil {
			h.Run(ctx, c)
		}
	}
}

// rush repeats an attack until told to stop: it uploads the module if that is refused, and otherwise calls it with as
// many records as a request may have.
func rush(b *testing.B, h *Host, a hostile.Attack) func(context.Context) {
	code := a.Build()
	if a.Check != "" {
		return func(ctx context.Context) {
			for ctx.Err() == nil {
				_, _ = h.Load(ctx, "attacker", code)
			}
		}
	}
	m, err := h.Load(b.Context(), "attacker", code)
	if err != nil {
		b.Fatal(err)
	}
	return calling(h, attackRequest(m.Digest, 4096))
}

// observation is what the others noticed: the longest gap between two heartbeats in milliseconds, and the p99 of a
// neighbour's call in microseconds.
type observation struct{ gap, p99 float64 }

// and returns the quieter of two runs: other load on the machine only ever adds, and an attack happens many times in
// each. The zero observation is none.
func (o observation) and(p observation) observation {
	if o == (observation{}) {
		return p
	}
	return observation{min(o.gap, p.gap), min(o.p99, p.p99)}
}

func observe(h *Host, neighbour plan.Call, attacker func(context.Context)) observation {
	const (
		length = 400 * time.Millisecond
		beat   = time.Millisecond
		pause  = 200 * time.Microsecond
	)
	runtime.GC()
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var wg sync.WaitGroup
	var gap time.Duration
	var times []float64
	wg.Go(func() { attacker(ctx) })
	wg.Go(func() {
		for last := time.Now(); ctx.Err() == nil; {
			time.Sleep(beat)
			now := time.Now()
			gap, last = max(gap, now.Sub(last)), now
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			h.Run(context.Background(), neighbour)
			times = append(times, float64(time.Since(began))/float64(time.Microsecond))
			time.Sleep(pause)
		}
	})
	wg.Wait()
	slices.Sort(times)
	return observation{float64(gap) / float64(time.Millisecond), times[len(times)*99/100]}
}
