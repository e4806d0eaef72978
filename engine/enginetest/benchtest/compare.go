// Package benchtest compares two ways of doing something in the same run. Absolute times depend on the machine and its
// load at the moment, so the result is the median ratio of alternating rounds.
package benchtest

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Medians are a comparison's result: the time of one operation each way, and how many times the baseline's the
// subject's was, round by round.
type Medians struct {
	Subject, Baseline time.Duration
	Ratio             float64
}

// Compare does b.N operations each way, in alternating rounds of at most round. It does not report ns/op, because
// each iteration does both: report the medians instead.
func Compare(b *testing.B, round int, subject, baseline func(n int)) Medians {
	var subjects, baselines []time.Duration
	var ratios []float64
	b.ResetTimer()
	b.ReportMetric(0, "ns/op")
	for done := 0; done < b.N && !b.Failed(); {
		n := min(round, b.N-done)
		s, p := timed(n, subject), timed(n, baseline)
		done += n
		if n < round && len(ratios) > 0 {
			break // a short last round would count like a whole one
		}
		subjects, baselines = append(subjects, s), append(baselines, p)
		ratios = append(ratios, float64(s)/float64(p))
	}
	b.StopTimer()
	return Medians{median(subjects), median(baselines), median(ratios)}
}

func timed(n int, work func(n int)) time.Duration {
	start := time.Now()
	work(n)
	return time.Since(start) / time.Duration(n)
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// Share splits n calls among workers and returns when all are done. A worker that fails ends.
func Share(b *testing.B, workers, n int, call func() error) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range workers {
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
}
