package plan

import "strings"

// ItemTexts implements Texts for the items of a window before a step.
type ItemTexts struct {
	Items  []Item
	Source Source
	// Count counts the tokens of a text; whole is false if it was stopped.
	Count func(text string, stop func() bool) (tokens int, whole bool)
	// Rate returns how well a text matches a query, from 0 to MaxScore.
	Rate func(text, query string) int
	Err  error // the last text that could not be read
}

// Text returns a record's text.
func (t *ItemTexts) Text(record int) ([]byte, error) {
	text, err := TextOf(&t.Items[record], t.Source)
	if err != nil {
		t.Err = err
		return nil, err
	}
	return []byte(text), nil
}

// Tokens counts a text.
func (t *ItemTexts) Tokens(text []byte, stop func() bool) int {
	n, _ := t.Count(string(text), stop)
	return n
}

// Call returns a record's call; false if there is none.
func (t *ItemTexts) Call(record, call int) (Called, bool, error) {
	c, ok, err := CallOf(&t.Items[record], call, t.Source)
	if err != nil {
		t.Err = err
	}
	return c, ok, err
}

// JSON returns false, because windows have no records with a spec.
func (t *ItemTexts) JSON(int) ([]byte, bool, error) { return nil, false, nil }

// Score returns how well a text matches a query.
func (t *ItemTexts) Score(text, query []byte) int {
	return t.Rate(strings.ToValidUTF8(string(text), ""), strings.ToValidUTF8(string(query), ""))
}
