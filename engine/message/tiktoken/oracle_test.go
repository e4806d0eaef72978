package tiktoken

import (
	"hash/maphash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	library "github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// oracles are tiktoken-go's own encoders, O200K first.
var oracles = sync.OnceValue(func() (out [2]*library.Tiktoken) {
	library.SetBpeLoader(loader.NewOfflineLoader()) // otherwise the library would download its vocabularies
	for i, name := range names {
		var err error
		if out[i], err = library.GetEncoding(name); err != nil {
			panic(err)
		}
	}
	return out
})

var names = [2]string{O200K, CL100K}

// counter is shared by all tests, because loading takes a while.
var counter = sync.OnceValue(func() *Counter {
	c, err := New()
	if err != nil {
		panic(err)
	}
	return c
})

// hold fails the test if a text's counts differ from those of tiktoken-go.
func hold(t *testing.T, text string) {
	t.Helper()
	for i, name := range names {
		want := len(oracles()[i].EncodeOrdinary(text))
		for range 2 { // the second time, pieces are cached
			if got := counter().Count(name, text); got != want {
				t.Fatalf("%s: %q: %d, want %d", name, text, got, want)
			}
		}
	}
}

// classesOfText generates random texts of different kinds.
var classesOfText = []struct {
	name string
	of   func(r *rand.Rand) string
}{
	{"mixed", pick(strings.Fields(`a b the Z HTTP é É ß ǅ ʰ 日 本 ひ 한 ́ ि 1 23 ½ ٣ ' 's 'LL 're / // . , !? {" _ - 👍 👩‍👧 🇳 `),
		" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u200d", "\ufffd", "\xff", "<|endoftext|>", " the")},
	{"words", pick([]string{"the ", "quick", " Brown", "fox", "es", "anti", "disestablish", "XML", "Http", "é", ", ", ". ", "\n"})},
	{"letters", pick([]string{"a", "b", "A", "B", "ʰ", "日", "ǅ", "ß", "é", "É", "\u0301", "'s", " ", "ſ", "K", "İ"})},
	{"marks", pick([]string{"\u0301", "\u0308", "ि", "\u20dd", "a", "A", " ", "\n", "1", "."})},
	{"contractions", pick([]string{"'s", "'S", "'t", "'rE", "'VE", "'m", "'ll", "'Ll", "'d", "'", "'l", "'r", "I", "we", "\u2019s",
		"'ſ", " ", "\n", "1", "\u0301"})},
	{"blanks", pick([]string{" ", "  ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\u0085", "\u00a0", "\u2028", "\u3000", "\u200b", "x"})},
	{"digits", pick([]string{"0", "1", "12", "٣", "½", "Ⅷ", "²", "x", " ", "."})},
	{"code", pick([]string{"func ", "main", "(", ")", "{", "}", "\n", "\t", "\t\t", "//", "/*", "*/", "://", ":=", "==", "\"", "a.b", "_x", "42",
		"0x", " ", "/\n/", "\r\n"})},
	{"emoji", pick([]string{"👍", "🏽", "\u200d", "👩", "❤", "\ufe0f", "🇳", "🇴", " ", "1\ufe0f\u20e3", "a"})},
	{"two letters", pick([]string{"a", "b"})},
	{"one class", func(r *rand.Rand) string {
		unit := []string{"a", "A", " ", "\n", "=", "-", "1", "漢", "👍", "\u0301", "\u3000", "ab", "=-", "/", "\xff"}
		return strings.Repeat(unit[r.IntN(len(unit))], 1+r.IntN(300))
	}},
	{"base64", func(r *rand.Rand) string {
		const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
		return random(r, 200, func() string { i := r.IntN(len(digits)); return digits[i : i+1] })
	}},
	{"any character", func(r *rand.Rand) string {
		return random(r, 40, func() string { return string(rune(r.IntN(unicode.MaxRune + 1))) })
	}},
	{"low characters", func(r *rand.Rand) string {
		return random(r, 60, func() string { return string(rune(r.IntN(0x3000))) })
	}},
	{"bytes", func(r *rand.Rand) string {
		return random(r, 60, func() string { return string([]byte{byte(r.IntN(256))}) })
	}},
}

func random(r *rand.Rand, most int, unit func() string) string {
	var b strings.Builder
	for range r.IntN(most + 1) {
		b.WriteString(unit())
	}
	return b.String()
}

func pick(units []string, more ...string) func(r *rand.Rand) string {
	units = append(units, more...)
	return func(r *rand.Rand) string {
		most := 30
		if r.IntN(10) == 0 {
			most = 400
		}
		return random(r, most, func() string { return units[r.IntN(len(units))] })
	}
}

// TestCampaignTokens compares random texts of every kind, and all lines of the transcripts that MNEME_TESTDATA names,
// with tiktoken-go.
func TestCampaignTokens(t *testing.T) {
	seed := campaign.Seed(t)
	texts := campaign.Size(3_000, 1_000_000)
	for i, class := range classesOfText {
		t.Run(class.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range texts / len(classesOfText) {
				hold(t, class.of(r))
			}
		})
	}
	t.Run("transcripts", func(t *testing.T) {
		t.Parallel()
		files, err := filepath.Glob(filepath.Join(os.Getenv("MNEME_TESTDATA"), "*.json*"))
		if err != nil || len(files) == 0 {
			t.Skip("MNEME_TESTDATA names no folder of transcripts")
		}
		left := campaign.Size(200_000, 1<<40)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// Both the text as it is stored and the lines in its strings.
			for line := range strings.Lines(strings.ReplaceAll(string(data), `\n`, "\n")) {
				for len(line) > 0 && left > 0 {
					n := min(len(line), 8<<10)
					hold(t, line[:n])
					left, line = left-n, line[n:]
				}
			}
		}
	})
}

// Every character is compared with the library by itself, between letters, after a blank and before an apostrophe: the
// classes of characters are the library's.
func TestCampaignCharacters(t *testing.T) {
	step := campaign.Size(37, 1)
	for i := range oracles() {
		for from := 0; from <= unicode.MaxRune; from += 256 * step {
			var b strings.Builder
			for c := rune(from); c < rune(from+256); c++ {
				for _, s := range []string{"a", string(c), "Z", string(c), " ", string(c), "'s", string(c), string(c), "1\n"} {
					b.WriteString(s)
				}
			}
			text := b.String()
			if got, want := counter().Count(names[i], text), len(oracles()[i].EncodeOrdinary(text)); got != want {
				t.Errorf("%s: characters from %U: %d, want %d", names[i], from, got, want)
			}
		}
	}
}

// A long piece has the same number of tokens whether it is merged in windows of any size or as a whole.
func TestCampaignWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(campaign.Seed(t), 0))
	alphabets := []string{"ab", "a", " ", "aeinorst", "etaoinshrdlu", "=-", "AaBb", "XYZ", "\u3000 \t", "日本語漢字", "!?.", "\u0301\u0308"}
	for range campaign.Size(15, 4_000) {
		letters := []rune(alphabets[r.IntN(len(alphabets))])
		piece := random(r, 1500, func() string { return string(letters[r.IntN(len(letters))]) })
		if r.IntN(3) == 0 { // a period, as tokens of equal rank in a row
			piece = strings.Repeat(random(r, 7, func() string { return string(letters[r.IntN(len(letters))]) }), 1+r.IntN(200))
		}
		for _, e := range []*encoding{counter().o200k, counter().cl100k} {
			if piece == "" {
				continue
			}
			want := mergeSlowly(e.vocabulary, piece)
			for _, size := range []int{8, window, 256} {
				if got := e.countLong(piece, size, &watch{stop: never}); got != want {
					t.Fatalf("windows of %d: %q: %d, want %d", size, piece, got, want)
				}
			}
		}
	}
}

// Tokens may be found in another order than that of their lengths: joining two may create neighbours that come first.
func TestMergeOrder(t *testing.T) {
	var ends []uint32
	tokens := ""
	for _, token := range []string{"a", "b", "c", "aba", "bcab", "ab", "bc", "cab"} {
		tokens += token
		ends = append(ends, uint32(len(tokens)))
	}
	v := newVocabulary(tokens, ends)
	r := rand.New(rand.NewPCG(3, 0))
	for range 2000 {
		text := random(r, 40, func() string { return "abc"[r.IntN(3):][:1] })
		if text == "" {
			continue
		}
		if got, want := len(v.merge(text, nil))-1, mergeSlowly(v, text); got != want {
			t.Fatalf("%q: %d tokens, want %d", text, got, want)
		}
	}
	if got := v.merge("abab", nil); len(got) != 3 || got[1].at != 3 {
		t.Errorf("abab: %v, want aba and b", got)
	}
}

// mergeSlowly counts the tokens of a piece by the definition: it joins the first two neighbours of the lowest rank,
// again and again.
func mergeSlowly(v *vocabulary, piece string) int {
	tokens := strings.Split(piece, "")
	for i := 0; i < len(tokens); i++ { // into bytes
		if c := tokens[i]; len(c) > 1 {
			tokens = slices.Replace(tokens, i, i+1, c[:1], c[1:])
		}
	}
	for {
		least, at := uint32(none), 0
		for i := range len(tokens) - 1 {
			both := tokens[i] + tokens[i+1]
			if r := v.rank(both, maphash.String(v.seed, both)); r < least {
				least, at = r, i
			}
		}
		if least == none {
			return len(tokens)
		}
		tokens = slices.Replace(tokens, at, at+2, tokens[at]+tokens[at+1])
	}
}

func FuzzCount(f *testing.F) {
	for _, s := range []string{"", "it's 'Tis we'Ll", "日本語 \u0301x", "👩‍👩‍👧‍👦 🇳🇴", "\xff\xfe", "<|endoftext|>", " \n\t ",
		"日AB'S", "\u0301ABC", "  \r\n /\n/", "1234567", strings.Repeat("ab", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			t.Skip() // the library is slow on long runs
		}
		hold(t, text)
		prefix := text[:len(text)/3]
		for i := range text {
			if i >= len(prefix) {
				prefix = text[:i]
				break
			}
		}
		holdBehind(t, prefix, text[len(prefix):])
	})
}

// holdBehind fails the test if a text after a prefix counts differently from the two as one text.
func holdBehind(t *testing.T, prefix, text string) {
	t.Helper()
	alone, behind, err := counter().CountBehind(t.Context(), prefix, text)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if want := uint32(counter().Count(name, text)); alone[i] != want {
			t.Errorf("%s: %q: %d, want %d", name, text, alone[i], want)
		}
		if want := uint32(counter().Count(name, valid(prefix)+valid(text))); behind[i] != want {
			t.Errorf("%s: %q behind %q: %d, want %d", name, text, prefix, behind[i], want)
		}
	}
}

// base64Text returns random base64 of a length.
func base64Text(n int) string {
	return spelled(n, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}

// randomLetters returns a word of a length that is in no vocabulary.
func randomLetters(n int) string { return spelled(n, "abcdefghijklmnopqrstuvwxyz") }

func spelled(n int, alphabet string) string {
	r, out := rand.New(rand.NewPCG(11, 0)), make([]byte, n)
	for i := range out {
		out[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(out)
}
