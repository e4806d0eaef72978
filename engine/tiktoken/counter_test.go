package tiktoken

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

func newCounter(t testing.TB) *Counter {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Counts known from the tokenizers' own documentation and from encoding by hand.
func TestKnownCounts(t *testing.T) {
	c := newCounter(t)
	for _, test := range []struct {
		text string
		want [2]uint32
	}{
		{"", [2]uint32{0, 0}},
		{"hello world", [2]uint32{2, 2}},
		{"tiktoken is great!", [2]uint32{6, 6}},
		{"antidisestablishmentarianism", [2]uint32{6, 6}},
		{"<|endoftext|>", [2]uint32{7, 7}}, // ordinary text, never the special token
		{"123456", [2]uint32{2, 2}},
	} {
		if got := c.CountBoth(test.text); got != test.want {
			t.Errorf("%q: %d, want %d", test.text, got, test.want)
		}
		for i, name := range []string{O200K, CL100K} {
			if got := c.Count(name, test.text); uint32(got) != test.want[i] {
				t.Errorf("%q in %s: %d, want %d", test.text, name, got, test.want[i])
			}
		}
	}
}

var alphabet = []string{
	"a", "b", "the", " the", "Z", "HTTP", "é", "É", "ß", "ǅ", "ʰ", "日", "本", "ひ", "한", "\u0301", "ि", "1", "23", "½", "٣",
	" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "'", "'s", "'LL", "'re", "/", "//", ".", ",", "!?", "{\"", "_", "-",
	"👍", "👩‍👧", "🇳", "\u200d", "\ufffd", "<|endoftext|>", "\xff",
}

func random(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

// Cutting changes no count of a text without an overlong run, and what is remembered equals what is counted.
func TestCuttingKeepsCounts(t *testing.T) {
	c := newCounter(t)
	r := rand.New(rand.NewPCG(7, 0))
	for range 500 {
		text := random(r, r.IntN(400))
		for _, e := range []*encoding{c.o200k, c.cl100k} {
			want := len(e.tokenizer.EncodeOrdinary(text))
			if got := e.count(text); got != want {
				t.Fatalf("%q: %d, want %d", text, got, want)
			}
			if got := e.count(text); got != want {
				t.Fatalf("%q, remembered: %d, want %d", text, got, want)
			}
		}
	}
}

// The pieces of any text are bounded where a run of one class is long, and make up the text.
func TestCutBoundsRuns(t *testing.T) {
	for _, unit := range []string{"a", "漢字", "👩‍👧", " ", "\u0301", "=-", "1", "\n", "\xff"} {
		text := "see: " + strings.Repeat(unit, 64<<10/len(unit)) + " end"
		joined, pieces := "", 0
		for rest := text; rest != ""; pieces++ {
			n := cut(rest)
			if n == 0 || n > maxRun+64 {
				t.Fatalf("%q: a piece of %d bytes", unit, n)
			}
			joined, rest = joined+rest[:n], rest[n:]
		}
		if joined != text || pieces < 32 {
			t.Errorf("%q: %d pieces", unit, pieces)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	c := newCounter(t)
	text := strings.Repeat("some words, 12 of them; ", 200)
	want := c.CountBoth(text)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if got := c.CountBoth(text); got != want {
					t.Errorf("%d, want %d", got, want)
				}
				c.Count(O200K, "user")
			}
		})
	}
	wg.Wait()
}

func FuzzCount(f *testing.F) {
	c := newCounter(f)
	for _, s := range []string{"", "it's 'Tis we'Ll", "日本語 \u0301x", "👩‍👩‍👧‍👦 🇳🇴", "\xff\xfe", "<|endoftext|>", " \n\t "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxRun {
			t.Skip() // the library is slow on long runs
		}
		for _, e := range []*encoding{c.o200k, c.cl100k} {
			if got, want := e.count(text), len(e.tokenizer.EncodeOrdinary(text)); got != want {
				t.Errorf("%q: %d, want %d", text, got, want)
			}
		}
	})
}

func TestUnknownEncoding(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an unknown encoding counts")
		}
	}()
	newCounter(t).Count("p50k_base", "text")
}

func BenchmarkCount(b *testing.B) {
	c := newCounter(b)
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
