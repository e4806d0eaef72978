package tokens_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/message/tiktoken"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// oddText joins random pieces that tokenizers treat differently.
func oddText(r *rand.Rand, pieces int) string {
	kinds := []string{"word", " word", "it's", "'s", "'", " ", "   ", "\n", "\r\n\n", "\t", "é", "e\u0301", "日本語", "。", "漢字 ",
		"123", "4567890", " 12", ".", "...", "/*", " {\"a\":1}", "ABCdef", "XMLHttp", "\u0301", "🙂", "नमस्ते", "\u00a0", "I'LL", "'", "n't",
		"aGVsbG8gd29ybGQ=", "ſ", "K'S", "\u2028", "|", "ǅ", "ʰ"}
	var b strings.Builder
	for range pieces {
		b.WriteString(kinds[r.IntN(len(kinds))])
	}
	return b.String()
}

// TestCampaignSeams checks that truncating by counts of parts gives the same result as by counts of the whole.
func TestCampaignSeams(t *testing.T) {
	counter, err := tiktoken.New()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(campaign.Seed(t), 0))
	for range campaign.Size(300, 40_000) {
		text := oddText(r, 1+r.IntN(120))
		for _, name := range []string{tiktoken.O200K, tiktoken.CL100K} {
			count := func(s string) int { return counter.Count(name, s) }
			want := count(text)
			limit := r.IntN(2*want + 2)
			got, naive := tokens.Middle(text, limit, count), tokens.MiddleWhole(text, limit, count)
			if got != naive || !utf8.ValidString(got) {
				t.Fatalf("%s: truncated to %d:\n%q\n%q\n%q", name, limit, text, got, naive)
			}
			known, size := tokens.Known(text, want, limit, "; more", count)
			if size != count(known) || size > limit || known != text && want <= limit || !utf8.ValidString(known) {
				t.Fatalf("%s: %d tokens cut to %d are said to be %d, and are %d:\n%q\n%q", name, want, limit, size,
					count(known), text, known)
			}
			if _, size = tokens.Known(text, want, limit, "", count); size+6 < count(naive) {
				t.Fatalf("%s: %d tokens are left of %d, might be %d", name, size, limit, count(naive))
			}
		}
	}
}
