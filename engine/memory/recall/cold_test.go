package recall_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// reopened is a store in a folder that can be closed and reopened while an engine uses it.
type reopened struct {
	store.Store
	dir string
}

func (r *reopened) open(b *testing.B, drop bool) {
	b.Helper()
	if r.Store != nil {
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	if drop { // This must happen before opening, because mapped pages cannot be dropped.
		if err := benchtest.DropFiles(r.dir); err != nil {
			b.Skip(err)
		}
	}
	r.Store = enginetest.OpenBadger(b, r.dir)
	if drop {
		if err := benchtest.DropFiles(r.dir); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRecallCold measures the first query after the store is opened, for the five best of 100,000 memories of one
// tenant, and of the 100 of one of a thousand tenants, compared with a first read of five memories by their keys: once
// with the kernel's page cache, and once without. All memories are in blocks.
func BenchmarkRecallCold(b *testing.B) {
	for _, shape := range []struct {
		name              string
		tenants, memories int
	}{{"one-tenant", 1, 100_000}, {"thousand-tenants", 1000, 100}} {
		b.Run(shape.name, func(b *testing.B) {
			s := &reopened{dir: b.TempDir()}
			s.open(b, false)
			k := enginetest.Open(b, s)
			callers := make([]ident.Caller, shape.tenants)
			share(shape.tenants, func(i int) {
				made, err := k.CreateTenant(b.Context(), ident.Once{}, tenant.Spec{ID: fmt.Sprint("t", i)})
				if err == nil {
					callers[i], err = k.Tenants.Authenticate(b.Context(), made.AdminKey)
				}
				if err != nil {
					b.Error(err)
					return
				}
				keep(b, k, callers[i], shape.memories)
			})
			k.Drain()
			for _, how := range []string{"opened", "dropped"} {
				b.Run(how, func(b *testing.B) { againstReadingCold(b, k, s, callers, shape.memories, how == "dropped") })
			}
		})
	}
}

func againstReadingCold(b *testing.B, k *enginetest.Kit, s *reopened, callers []ident.Caller, memories int, drop bool) {
	words := newBenchWords(99)
	// cold returns how long work takes after the store is opened, and how many KB it reads from the disk.
	cold := func(work func()) (µs, kb float64) {
		s.open(b, drop)
		before, err := benchtest.DiskRead()
		if err != nil {
			b.Skip(err)
		}
		start := time.Now()
		work()
		took := time.Since(start)
		after, err := benchtest.DiskRead()
		if err != nil {
			b.Fatal(err)
		}
		return took.Seconds() * 1e6, float64(after-before) / 1024
	}
	var found, again, read, ratio, foundKB, readKB []float64
	b.ReportMetric(0, "ns/op")
	for b.Loop() {
		c := callers[words.r.IntN(len(callers))]
		find := func() {
			q := recall.Query{Query: words.query(false)}
			if _, err := k.Recall.Recall(b.Context(), c, ident.DefaultProject, q); err != nil {
				b.Fatal(err)
			}
		}
		f, fKB := cold(find)
		start := time.Now()
		find() // other words, which share blocks of the store's files with the first ones
		again = append(again, time.Since(start).Seconds()*1e6)
		r, rKB := cold(func() {
			for range 5 {
				key := fmt.Sprint("m", words.r.IntN(memories))
				if _, err := k.Memories.Get(b.Context(), c, ident.DefaultProject, key); err != nil {
					b.Fatal(err)
				}
			}
		})
		found, read, ratio = append(found, f), append(read, r), append(ratio, f/r)
		foundKB, readKB = append(foundKB, fKB), append(readKB, rKB)
	}
	for name, values := range map[string][]float64{"first-p50-µs": found, "second-p50-µs": again, "read-p50-µs": read,
		"x-read": ratio, "first-disk-KB": foundKB, "read-disk-KB": readKB} {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name)
	}
}
