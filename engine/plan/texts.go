package plan

// ItemTexts answers a policy's questions about the items of a window as they stand before its step.
type ItemTexts struct {
	Items  []Item
	Source Source
	// Count counts the tokens of a text, or answers false where it was told to stop.
	Count func(text string, stop func() bool) (tokens int, whole bool)
	Err   error // the last text that could not be read
}

// Text is a record's text.
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
