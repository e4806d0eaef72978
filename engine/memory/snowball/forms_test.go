package snowball

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
)

// identifier is a regular expression for what identifiers finds.
var identifier = regexp.MustCompile(`[\p{L}\p{N}]+(?:[-_.,/'][\p{L}\p{N}]+)*`)

// FuzzIdentifiers compares the runs found with those of the expression.
func FuzzIdentifiers(f *testing.F) {
	for _, text := range []string{"", "a", "-a", "a-", "a-b", "a--b", "a-.b", "a.b,c/d'e_f", "getUserDetails(id_7)", "ABC-1234, 1,299.00.",
		"Küchenschublade 猫が v2.1-β", "a \xff b-\xff-c", "x- y", "½-²", "…a…"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, want := slices.Collect(identifiers(text)), identifier.FindAllString(text, -1)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	})
}

// TestSpacedIdentifiers checks that searching only words finds what searching the whole text would.
func TestSpacedIdentifiers(t *testing.T) {
	pieces := []string{"ABC", "AB", "x", "é", "É", "ABCDEF", " ", " ", " ", "12", "7", "345", "-", "猫", "\n", "\xff", "_", "٣"}
	rng := rand.New(rand.NewPCG(16, 6))
	for range 50_000 {
		text := ""
		for range rng.IntN(12) {
			text += pieces[rng.IntN(len(pieces))]
		}
		for _, by := range []*regexp.Regexp{spacedIdentifier, spacedAsked} {
			var want []string
			for _, parts := range by.FindAllStringSubmatch(text, -1) {
				want = append(want, fold(parts[1]+parts[2]))
			}
			if got := spacedIdentifiers(by, text); !slices.Equal(got, want) {
				t.Fatalf("%q has %q, found are %q", text, want, got)
			}
		}
	}
}
