package mneme

// Host answers a policy's questions. In a module they are the ABI's host functions, each charged; in a native build
// the test supplies them.
type Host interface {
	// Text copies the text of a record from an offset into buf and returns the text's whole length, -1 where there
	// is no such place.
	Text(record, offset int, buf []byte) int
	// Tokens counts the tokens of a text in the request's tokenizer.
	Tokens(text string) int
	// Find returns the byte offset of needle in the text of a record, or -1.
	Find(record int, needle string) int
	// Log writes a line into the decision.
	Log(level Level, line string)
}

// Text copies the text of a record from an offset into buf, as much as fits, and returns the text's whole length in
// bytes, or -1 where the record has no such place.
func (q *Request) Text(record, offset int, buf []byte) int { return q.host.Text(record, offset, buf) }

// Tokens counts the tokens of a text in the request's tokenizer. A message costs a few tokens more than its text.
func (q *Request) Tokens(text string) int { return q.host.Tokens(text) }

// Find returns the byte offset of needle in the text of a record, or -1.
func (q *Request) Find(record int, needle string) int { return q.host.Find(record, needle) }

// Log writes a line into the decision, where the operator finds it.
func (q *Request) Log(level Level, line string) { q.host.Log(level, line) }
