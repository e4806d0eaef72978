package engine

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// Every kind of record has exactly one check, and every check is for an existing kind.
func TestVerifyChecksEachKindOnce(t *testing.T) {
	checks := map[string]int{}
	for _, room := range append(verifiedRooms(), verify.OwnChecks{}) {
		for _, c := range room.Checks() {
			checks[c.Kind.Name()]++
		}
	}
	for _, kind := range records.Kinds {
		name := kind.Name()
		if checks[name] != 1 {
			t.Errorf("the kind %s has %d checks", name, checks[name])
		}
		delete(checks, name)
	}
	for kind := range checks {
		t.Errorf("there is a check of the kind %q, and no such kind", kind)
	}
}
