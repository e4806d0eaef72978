package engine

import "testing"

// Every kind of record has exactly one check, and every check is of a kind that there is.
func TestVerifyChecksEachKindOnce(t *testing.T) {
	checks := map[string]int{}
	for _, room := range append(verifiedRooms(), ownChecks{}) {
		for _, c := range room.checks() {
			checks[c.kind]++
		}
	}
	for _, kind := range kinds {
		name := kind.base().name
		if checks[name] != 1 {
			t.Errorf("the kind %s has %d checks", name, checks[name])
		}
		delete(checks, name)
	}
	for kind := range checks {
		t.Errorf("there is a check of the kind %q, and no such kind", kind)
	}
}
