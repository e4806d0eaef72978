// Package campaign provides the size and the seed of long tests. A campaign is a test whose name begins with
// TestCampaign: `go test` runs it in a short form, `scripts/campaigns` runs the same code in its long form.
package campaign

import (
	"os"
	"strconv"
	"testing"
)

// Long reports whether MNEME_CAMPAIGN is "long", as scripts/campaigns sets it.
func Long() bool { return os.Getenv("MNEME_CAMPAIGN") == "long" }

// Size returns long in a long run and short otherwise. MNEME_SIZE is another size, to run a part.
func Size(short, long int) int {
	if n, err := strconv.Atoi(os.Getenv("MNEME_SIZE")); err == nil && n > 0 {
		return n
	}
	if Long() {
		return long
	}
	return short
}

// Seed returns MNEME_SEED, or 1 if it is not set, and prints it if the test fails, so that the failure can be repeated.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv("MNEME_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("MNEME_SEED is not a number: %q", text)
		}
		seed = n
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat it with MNEME_SEED=%d", seed)
		}
	})
	return seed
}
