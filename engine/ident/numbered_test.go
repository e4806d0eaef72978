package ident_test

import (
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

func ExampleNumbered() {
	board := ident.Incarnation{1, 2, 3, 4, 5, 6, 7, 8}
	id := ident.Numbered("bme_", board, 12)
	number, err := ident.ParseNumbered("bme_", "after", id, board)
	fmt.Println(id, number, err)
	// Output: bme_04106105_000000000012 12 <nil>
}

func TestParseNumbered(t *testing.T) {
	inc := ident.Incarnation{1}
	for id, want := range map[string]uint64{
		ident.Numbered("ntf_", inc, 7):                     7,
		ident.Numbered("ntf_", ident.Incarnation{2}, 7):    0, // of an earlier inbox
		ident.Numbered("ntf_", inc, 1_000_000_000_000):     1_000_000_000_000,
		ident.Numbered("ntf_", ident.Incarnation{0, 9}, 0): 0,
	} {
		if got, err := ident.ParseNumbered("ntf_", "after", id, inc); got != want || err != nil {
			t.Errorf("%s: got %d, %v, want %d", id, got, err, want)
		}
	}
	for _, id := range []string{"", "ntf_", "bme_04000000_000000000001", "ntf_04000000_x", "7"} {
		if _, err := ident.ParseNumbered("ntf_", "after", id, inc); err == nil {
			t.Errorf("%q is taken for an id", id)
		}
		if _, _, ok := ident.SplitNumbered("ntf_", id); ok {
			t.Errorf("%q is split", id)
		}
	}
	// SplitNumbered parses the ids in a file. The ids are formatted again, so it accepts no other spelling.
	if _, _, ok := ident.SplitNumbered("ntf_", "ntf_04000000_7"); ok {
		t.Error("an id without its leading zeros is split")
	}
}
