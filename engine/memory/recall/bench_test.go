package recall_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// benchWords makes texts of words with a frequency distribution like that of a language.
type benchWords struct {
	r    *rand.Rand
	zipf *rand.Zipf
}

func newBenchWords(seed uint64) *benchWords {
	r := rand.New(rand.NewPCG(seed, 3))
	return &benchWords{r, rand.NewZipf(r, 1.1, 8, 40_000)}
}

func word(rank uint64) string {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	var b strings.Builder
	for n := rank + 20; n > 0; n /= 70 {
		b.WriteByte(consonants[n%14])
		b.WriteByte(vowels[n/14%5])
	}
	return b.String()
}

// text returns about 200 characters.
func (w *benchWords) text() string {
	var b strings.Builder
	for b.Len() < 200 {
		b.WriteString(word(w.zipf.Uint64()))
		b.WriteByte(' ')
	}
	return b.String()
}

// query returns two to four words: of any frequency, or only words that are not among the thousand most frequent.
func (w *benchWords) query(rare bool) string {
	var words []string
	for len(words) < 2+w.r.IntN(3) {
		if rank := w.zipf.Uint64(); !rare || rank > 1000 {
			words = append(words, word(rank))
		}
	}
	return strings.Join(words, " ")
}

// BenchmarkRecall measures a query of two to four words for the five best of 100,000 memories of 200 characters in one
// tenant, or of 20,000 with -short, compared with reading five memories by their keys.
func BenchmarkRecall(b *testing.B) {
	memories := 100_000
	if testing.Short() {
		memories = 20_000
	}
	k := enginetest.Open(b, enginetest.OpenBadger(b, b.TempDir()))
	keep(b, k, k.Admin, memories)
	start := time.Now()
	k.Drain()
	b.Logf("putting them into blocks took %v", time.Since(start).Round(time.Millisecond))
	index, records := 0, 0
	for _, it := range k.Everything(ident.DefaultTenant) {
		size := len(it.Key) + len(it.Value)
		if it.Key[0] == 'v' {
			index += size
		} else if it.Key[0] == 'e' {
			records += size
		}
	}
	for _, rare := range []bool{false, true} {
		b.Run(map[bool]string{false: "any-words", true: "rarer-words"}[rare], func(b *testing.B) {
			againstReading(b, k, k.Admin, memories, rare)
			b.ReportMetric(math.Round(float64(index)/float64(memories)), "index-B/memory")
			b.ReportMetric(math.Round(float64(records)/float64(memories)), "own-B/memory")
			b.ReportMetric(heapInUse(), "heap-MB")
		})
	}
}

// BenchmarkRecallAmongTenants measures the same in one of a thousand tenants with 100 memories each.
func BenchmarkRecallAmongTenants(b *testing.B) {
	const tenants, memories = 1000, 100
	counted := &readsOf{Store: enginetest.OpenBadger(b, b.TempDir())}
	k := enginetest.Open(b, counted)
	var c ident.Caller
	share(tenants, func(i int) {
		made, err := k.CreateTenant(b.Context(), ident.Once{}, tenant.Spec{ID: fmt.Sprint("t", i)})
		if err != nil {
			b.Error(err)
			return
		}
		admin, err := k.Tenants.Authenticate(b.Context(), made.AdminKey)
		if err != nil {
			b.Error(err)
		}
		keep(b, k, admin, memories)
		if i == tenants/2 {
			c = admin
		}
	})
	counted.items = map[string]int{}
	againstReading(b, k, c, memories, false)
	if len(counted.items) != 1 || counted.items[c.Tenant] == 0 {
		b.Errorf("queries of %s read %v", c.Tenant, counted.items)
	}
}

// heapInUse returns the heap in use after a garbage collection, in MB.
func heapInUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return math.Round(float64(m.HeapInuse) / (1 << 20))
}

func againstReading(b *testing.B, k *enginetest.Kit, c ident.Caller, memories int, rare bool) {
	words := newBenchWords(99)
	b.ReportAllocs()
	m := benchtest.Compare(b, 1, func(int) {
		q := recall.Query{Query: words.query(rare)}
		if _, err := k.Recall.Recall(b.Context(), c, ident.DefaultProject, q); err != nil {
			b.Fatal(err)
		}
	}, func(int) {
		for range 5 {
			key := fmt.Sprint("m", words.r.IntN(memories))
			if _, err := k.Memories.Get(b.Context(), c, ident.DefaultProject, key); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(m.Subject.Seconds()*1e6, "recall-p50-µs")
	b.ReportMetric(m.Baseline.Seconds()*1e6, "read-p50-µs")
	b.ReportMetric(m.Ratio, "x-read")
}

// keep stores memories of a caller, with several writers.
func keep(b *testing.B, k *enginetest.Kit, c ident.Caller, n int) {
	b.Helper()
	start := time.Now()
	share(n, func(i int) {
		text := newBenchWords(uint64(i)).text()
		if _, _, err := k.Memories.Store(b.Context(), c, ident.Once{}, ident.DefaultProject,
			memory.Spec{Key: fmt.Sprint("m", i), Content: text}); err != nil {
			b.Error(err)
		}
	})
	if n > 1000 {
		b.Logf("storing %d memories took %v", n, time.Since(start).Round(time.Millisecond))
	}
}

// share calls work for 0 to n-1, 32 at a time.
func share(n int, work func(i int)) {
	var running sync.WaitGroup
	for w := range min(n, 32) {
		running.Go(func() {
			for i := w; i < n; i += 32 {
				work(i)
			}
		})
	}
	running.Wait()
}
