// Package rank ranks documents by the words they hold: pure functions over postings, without a store.
package rank

// Word is one word of a query that says something: the terms that may stand for it in the index, one for each way of
// stemming it that differs.
type Word struct {
	Text  string
	Terms []string
}
