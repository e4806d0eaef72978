package tiktoken

import (
	"strings"
	"testing"
)

func BenchmarkCount(b *testing.B) {
	c, err := New()
	if err != nil {
		b.Fatal(err)
	}
	prose := strings.Repeat("The quick brown fox, aged 12, jumps over {\"lazy\": \"dogs\"}; it's fun.\n", 60)
	for _, bench := range []struct{ name, text string }{{"role", "assistant"}, {"prose", prose}} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.text)))
			for b.Loop() {
				c.Count(O200K, bench.text)
			}
		})
		b.Run(bench.name+"-both", func(b *testing.B) {
			b.SetBytes(int64(len(bench.text)))
			for b.Loop() {
				c.CountBoth(bench.text)
			}
		})
	}
}
