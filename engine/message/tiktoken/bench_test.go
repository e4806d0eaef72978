package tiktoken

import (
	"context"
	"strings"
	"testing"
	"time"
)

const prose = "The quick brown fox, aged 12, jumps over {\"lazy\": \"dogs\"}; it's fun. Ein Übermaß an Wörtern, обычный текст.\n"

// BenchmarkCount counts prose with tiktoken-go and with this package in one run, and prints how many times faster the
// latter is.
func BenchmarkCount(b *testing.B) {
	text := strings.Repeat(prose, 60)
	var took [2]time.Duration
	for i, bench := range []struct {
		name  string
		count func()
	}{
		{"tiktoken-go", func() { oracles()[0].EncodeOrdinary(text) }},
		{"mneme", func() { counter().Count(O200K, text) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			bench.count() // loads the vocabulary
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				bench.count()
			}
			took[i] = b.Elapsed() / time.Duration(b.N)
			if i == 1 && took[0] > 0 {
				b.ReportMetric(float64(took[0])/float64(took[1]), "times-faster")
			}
		})
	}
}

// BenchmarkWorstCases counts texts that an attacker would send, in both encodings.
func BenchmarkWorstCases(b *testing.B) {
	for _, bench := range worstCases() {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.text)))
			for b.Loop() {
				if _, _, err := counter().CountBehind(context.Background(), "", bench.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// worstCase is a text that takes long to count: a unit, repeated as often as fits into a request.
type worstCase struct{ name, text string }

func worstCases() []worstCase {
	return []worstCase{
		{"base64", base64Text(8 << 20)},
		{"one letter", strings.Repeat("a", 8<<20)},
		{"letters", randomLetters(8 << 20)},
		{"blanks", strings.Repeat(" ", 900<<10)},
		{"CJK", strings.Repeat("漢字仮名交", 64_000/5)},
		{"emoji", strings.Repeat("👩\u200d👧🏽", 64_000/4)},
		{"rules", strings.Repeat("=-", 4<<20)},
	}
}
