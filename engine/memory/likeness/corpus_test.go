package likeness

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// lines decodes the lines of a corpus.
func lines[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	f, err := os.Open("../../../testdata/memories/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var one T
		if err := json.Unmarshal(s.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// No contradiction is equal to or covered by the other.
func TestContradictions(t *testing.T) {
	c := newComparer(t)
	pairs := lines[struct{ One, Other string }](t, "contradictions.jsonl")
	if len(pairs) < 100 {
		t.Fatalf("%d pairs", len(pairs))
	}
	found := 0
	for _, p := range pairs {
		l := Compare(c.Read(p.One), c.Read(p.Other), 0)
		if l.Equal || l.Covers || l.Covered {
			t.Errorf("%q and %q: %+v", p.One, p.Other, l)
		}
		if l.Score >= 300_000 {
			found++
		}
	}
	t.Logf("%d of %d pairs are alike enough to be shown to a policy", found, len(pairs))
}

// Most wordings of a fact are alike enough to be shown to a policy, and hardly any two facts are.
func TestWordings(t *testing.T) {
	c := newComparer(t)
	facts := lines[struct{ Wordings []string }](t, "facts.jsonl")
	later, found, strangers, pairs := 0, 0, 0, 0
	for i, f := range facts {
		for n := 1; n < len(f.Wordings); n++ {
			later++
			for _, earlier := range f.Wordings[:n] {
				if Compare(c.Read(f.Wordings[n]), c.Read(earlier), 0).Score >= 300_000 {
					found++
					break
				}
			}
		}
		for _, other := range facts[:i] {
			for _, a := range f.Wordings {
				for _, b := range other.Wordings {
					pairs++
					if Compare(c.Read(a), c.Read(b), 0).Score >= 300_000 {
						strangers++
					}
				}
			}
		}
	}
	t.Logf("an earlier wording is found for %d of %d later ones; %d of %d pairs of different facts are alike", found, later,
		strangers, pairs)
	if found*100 < later*95 || strangers*100 > pairs {
		t.Error("too few wordings are found, or too many strangers")
	}
}
