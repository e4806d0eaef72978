package snowball

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

// Rates are inputs of policies, so replays of decisions depend on them: the expected values may change only together
// with plan.Rules.
func TestRatesAreFrozen(t *testing.T) {
	an := mustNew(t)
	for _, c := range []struct {
		text, query string
		want        int
	}{
		{"The flight to Lisbon was cancelled.", "cancel the Lisbon flight", 645_994},
		{"The flight to Lisbon was cancelled. Flights to Lisbon are often cancelled.", "cancelled flights Lisbon", 781_860},
		{"Der Flug nach Lissabon wurde storniert.", "Flüge nach Lissabon", 645_161},
		{"東京行きの飛行機", "東京", 641_848},
		{"nothing of that", "cancel the Lisbon flight", 0},
		{"half of the flight", "cancelled flight", 323_624},
		{"", "flight", 0}, {"flight", "", 0}, {"flight", "!?", 0},
	} {
		if got := rank.Rate(an, c.text, c.query); got != c.want {
			t.Errorf("%q answers %q by %d, not %d", c.text, c.query, got, c.want)
		}
	}
}

// A rate is between its limits, is 0 only if no word is found, grows with each further word and occurrence, shrinks as
// other words are added to text or query, and does not depend on order or case.
func TestRateLaws(t *testing.T) {
	an := mustNew(t)
	words := strings.Fields("flight hotel Lisbon refund baggage window aisle seat gate booking ticket 17A größe Übernachtung")
	other := strings.Fields("walnut copper harvest meadow lantern ribbon")
	rate := func(text, query []string) int {
		return rank.Rate(an, strings.Join(text, " "), strings.Join(query, " "))
	}
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		pick := func(from []string, n int) (out []string) {
			for range n {
				out = append(out, from[rng.IntN(len(from))])
			}
			return out
		}
		query := pick(words, 1+rng.IntN(6))
		text := append(pick(words, rng.IntN(12)), pick(other, rng.IntN(30))...)
		rng.Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
		got := rate(text, query)
		held := false
		for _, w := range query {
			held = held || strings.Contains(" "+strings.Join(text, " ")+" ", " "+w+" ")
		}
		fail := func(law string, with int) {
			t.Errorf("seed %d: %s: %d, and %d for text %q, query %q", seed, law, with, got, text, query)
		}
		if got < 0 || got > 1_000_000 || (got > 0) != held {
			fail("out of bounds, or 0 wrongly", got)
		}
		if n := rate(append(pick(other, 5), text...), query); held && n >= got {
			fail("more of other words does not lower it", n)
		}
		if n := rate(append([]string{query[0]}, text...), query); n <= got {
			fail("one more occurrence does not raise it", n)
		}
		if n := rate(text, append([]string{"zeppelin"}, query...)); held && n >= got {
			fail("a word that is not there does not lower it", n)
		}
		reversed, upper := append([]string(nil), text...), strings.ToUpper(strings.Join(query, " "))
		rng.Shuffle(len(reversed), func(i, j int) { reversed[i], reversed[j] = reversed[j], reversed[i] })
		if n := rank.Rate(an, strings.Join(reversed, " "), upper); n != got {
			fail("order or case matters", n)
		}
	}
}

func FuzzRate(f *testing.F) {
	f.Add("The flight was cancelled", "flight")
	f.Add("\xff\xfe", "\xc3")
	f.Add(strings.Repeat("ab ", 300), strings.Repeat("ab cd ", 100))
	an := mustNew(f)
	f.Fuzz(func(t *testing.T, text, query string) {
		got := rank.Rate(an, text, query)
		if got < 0 || got > 1_000_000 || got != rank.Rate(an, text, query) {
			t.Fatalf("%q answers %q by %d", text, query, got)
		}
	})
}

func mustNew(t testing.TB) *Analyser {
	t.Helper()
	a, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return a
}
