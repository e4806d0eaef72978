package recall_test

import (
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
)

// Who has moved no longer lives where an older memory says. Other things that move say nothing about that.
func TestRecallKnowsWhoMoved(t *testing.T) {
	for _, c := range []struct {
		older, newer, query string
		first               string // "": the older
	}{
		{"Anna lives in Berlin", "Anna moved to Lisbon", "Where does Anna live?", "newer"},
		{"Tom is living in Oslo", "Tom relocated to Bergen last year", "where is Tom living now", "newer"},
		{"Greta resides in Utrecht", "Greta has moved to Ghent", "Where does Greta reside?", "newer"},
		{"Lena wohnt in Köln", "Lena ist nach Graz gezogen", "Wo wohnt Lena?", "newer"},
		{"Paul habite à Nantes", "Paul a déménagé à Lyon", "Où habite Paul ?", "newer"},
		{"Eva vive en Madrid", "Eva se mudó a Sevilla", "¿Dónde vive Eva?", "newer"},
		{"Anna lives in Berlin", "Anna moved the meeting to Friday", "Where does Anna live?", ""},
		{"Anna lives in Berlin", "Anna moved the sofa", "Where does Anna live?", ""},
		{"Anna lives in Berlin", "Bernd moved to Lisbon", "Where does Anna live?", ""},
		{"Anna moved to Lisbon", "Anna likes Berlin", "Where did Anna move to?", ""},
	} {
		k := enginetest.New(t)
		k.Remember(memory.Spec{Key: "older", Content: c.older})
		k.Advance(24 * time.Hour)
		k.Remember(memory.Spec{Key: "newer", Content: c.newer})
		want := c.first
		if want == "" {
			want = "older"
		}
		if got := k.Found(recall.Query{Query: c.query, Scope: "memories"}); len(got) == 0 || got[0] != want {
			t.Errorf("%q, then %q: %q finds %q, want %s first", c.older, c.newer, c.query, got, want)
		}
	}
}
