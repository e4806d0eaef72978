package badgerstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// BenchmarkAppend measures durable 1 KB appends against a plain file whose writers share fdatasyncs.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(writers, "-writers"), func(b *testing.B) {
			s := store.Seal(open(b, b.TempDir()))
			defer s.Close()
			raw := benchtest.NewRawLog(b)
			value := benchValue(1 << 10)
			var next atomic.Int64
			m := benchtest.Compare(b, 64*writers, func(n int) {
				benchtest.Share(b, writers, n, func() error {
					key := fmt.Appendf(nil, "m%012d", next.Add(1))
					return s.Commit(b.Context(), "acme", store.Batch{Put: []store.Pair{{Key: key, Value: value}}})
				})
			}, func(n int) {
				benchtest.Share(b, writers, n, func() error { return raw.Append(value) })
			})
			b.ReportMetric(1/m.Subject.Seconds(), "appends/s")
			b.ReportMetric(1/m.Baseline.Seconds(), "raw/s")
			b.ReportMetric(1/m.Ratio, "of-raw")
		})
	}
}

func benchValue(n int) []byte {
	random := rand.New(rand.NewPCG(1, 1))
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(random.Uint32())
	}
	return v
}

// BenchmarkLoose measures one writer's commits of a 4 KB value that is not synced; the mean bears flushes as well.
func BenchmarkLoose(b *testing.B) {
	s := store.Seal(open(b, b.TempDir()))
	defer s.Close()
	value := benchValue(4 << 10)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		mustCommit(b, s, store.Batch{Put: []store.Pair{{Key: fmt.Appendf(nil, "z%012d", i), Value: value}}})
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
}

// BenchmarkRead measures reads among 100,000 pairs of 300 bytes, from memory and, after a restart, from tables.
func BenchmarkRead(b *testing.B) {
	const pairs, each = 100_000, 1_000
	keys := make([][]byte, pairs)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "m%08d", i)
	}
	dir := b.TempDir()
	fresh := open(b, dir)
	value := benchValue(300)
	for i := 0; i < pairs; i += each {
		var batch store.Batch
		for j := range each {
			batch.Put = append(batch.Put, store.Pair{Key: keys[i+j], Value: value})
		}
		mustCommit(b, store.Seal(fresh), batch)
	}
	run := func(name string, s store.Store, query func(i int) store.Query, items int) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				res, err := s.Read(b.Context(), "acme", query(i*7919%(pairs-items)))
				if err != nil || (len(res.Keys) > 0 && res.Keys[0].Value == nil) ||
					(len(res.Ranges) > 0 && len(res.Ranges[0]) != items) {
					b.Fatal("missing items", err)
				}
			}
		})
	}
	all := func(kind string, s store.Store) {
		run(kind+"/4-keys", s, func(i int) store.Query {
			return store.Query{Keys: keys[i : i+4]}
		}, 4)
		run(kind+"/newest-50", s, func(i int) store.Query {
			return store.Query{Ranges: []store.Range{{From: keys[0], To: keys[i+50], Reverse: true, Limit: 50}}}
		}, 50)
	}
	all("memory", store.Seal(fresh))
	if err := fresh.Close(); err != nil {
		b.Fatal(err)
	}
	again := open(b, dir)
	defer again.Close()
	all("tables", store.Seal(again))
}
