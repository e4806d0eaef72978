package snowball

import (
	"regexp"
	"slices"
	"testing"
)

// identifier says in a regular expression what identifiers finds.
var identifier = regexp.MustCompile(`[\p{L}\p{N}]+(?:[-_.,/'][\p{L}\p{N}]+)*`)

// FuzzIdentifiers holds the runs that are found against those of the expression.
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
