package rank

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNumericRuns checks that searching only runs of digits finds the same dates as searching the whole text.
func TestNumericRuns(t *testing.T) {
	pieces := []string{"7", "12", "5", "2023", "23", ".", ".", "/", "/", "-", " ", "a", "_", "é", "\xff", "年", "7.5.2023", "12/5/23", "1-2-2023"}
	rng := rand.New(rand.NewPCG(16, 6))
	found := 0
	for range 50_000 {
		text := ""
		for range rng.IntN(16) {
			text += pieces[rng.IntN(len(pieces))]
		}
		var got []Date
		for run := range numericRuns(text) {
			got = append(got, datesOfRun(run)...)
		}
		if want := datesOfRun(text); !slices.Equal(got, want) {
			t.Fatalf("%q names %v, found are %v", text, want, got)
		}
		found += len(got)
	}
	if found < 1000 {
		t.Errorf("the texts name %d dates", found)
	}
}
