package badgerstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// BenchmarkAppend measures durable 1 KB appends, and in the same run a plain file whose writers share fdatasyncs:
// disks have moods, so only the ratio tells anything.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(writers, "-writers"), func(b *testing.B) {
			s := store.Seal(open(b, b.TempDir()))
			defer s.Close()
			f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			raw := newRawLog(f)
			defer raw.close()
			value := benchValue(1 << 10)
			var next atomic.Int64
			var stored, plain time.Duration
			b.ResetTimer()
			for done := 0; done < b.N; {
				n := min(b.N-done, 64*writers)
				stored += measure(b, writers, n, func() error {
					key := fmt.Appendf(nil, "m%012d", next.Add(1))
					return s.Commit(b.Context(), "acme", store.Batch{Put: []store.Pair{{Key: key, Value: value}}})
				})
				plain += measure(b, writers, n, func() error { return raw.append(value) })
				done += n
			}
			b.ReportMetric(0, "ns/op") // Of both together: it tells nothing.
			b.ReportMetric(float64(b.N)/stored.Seconds(), "appends/s")
			b.ReportMetric(float64(b.N)/plain.Seconds(), "raw/s")
			b.ReportMetric(plain.Seconds()/stored.Seconds(), "of-raw")
		})
	}
}

// measure shares n calls among writers and returns how long they took.
func measure(b *testing.B, writers, n int, call func() error) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	start := time.Now()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// rawLog appends to a file. One goroutine syncs, over and over, for all who wrote before.
type rawLog struct {
	mu      sync.Mutex
	file    *os.File
	waiting chan struct{} // Closed by the sync that covers what was written since it was made.
	dirty   chan struct{}
	err     error
}

func newRawLog(f *os.File) *rawLog {
	l := &rawLog{file: f, waiting: make(chan struct{}), dirty: make(chan struct{}, 1)}
	go func() {
		for range l.dirty {
			l.mu.Lock()
			covered := l.waiting
			l.waiting = make(chan struct{})
			l.mu.Unlock()
			if err := fdatasync(f); err != nil {
				l.err = err
			}
			close(covered)
		}
	}()
	return l
}

func (l *rawLog) append(p []byte) error {
	l.mu.Lock()
	_, err := l.file.Write(p)
	covered := l.waiting
	l.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case l.dirty <- struct{}{}:
	default:
	}
	<-covered
	return l.err
}

func (l *rawLog) close() { close(l.dirty) }

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
