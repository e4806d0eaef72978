package mneme

// Host provides a policy with texts and counts. In a module its methods are the ABI's host functions, each of which is
// charged; in a native build the test provides them.
type Host interface {
	// Text copies the text of a record from an offset into buf, and returns the whole length of the text, or -1 if
	// there is no such record.
	Text(record, offset int, buf []byte) int
	// Tokens counts the tokens of a text with the request's tokenizer.
	Tokens(text string) int
	// Find returns the byte offset of needle in the text of a record, or -1.
	Find(record int, needle string) int
	// Args copies the arguments of a record's call from an offset into buf, and returns their whole length, or -1 if
	// there is no such call.
	Args(record, call, offset int, buf []byte) int
	// Name copies the tool name of a record's call into buf, and returns its whole length, or -1 if there is no such
	// call.
	Name(record, call int, buf []byte) int
	// Score returns how well the text of a record matches a query, from 0 to MaxScore, or -1.
	Score(record int, query string) int
	// Search returns the byte offset of the first needle at or behind from, in the text of a record, or in the arguments of
	// its call if call is not -1. It returns -1 if there is none, and -2 if there is no such record or call.
	Search(record, call, from int, needle string) int
	// JSON copies into buf what a JSON pointer names in an answer, or in the spec of a candidate or a memory. It returns
	// the whole length, -1 if there is no such value, or -2 if the text is not JSON.
	JSON(record int, pointer string, buf []byte) int
	// Log writes a line into the decision.
	Log(level Level, line string)
}

// Text copies the text of a record from an offset into buf, as much as fits, and returns the whole length of the text
// in bytes, or -1 if there is no such record.
func (q *Request) Text(record, offset int, buf []byte) int { return q.host.Text(record, offset, buf) }

// Tokens counts the tokens of a text with the request's tokenizer. A message costs a few tokens more than its text.
func (q *Request) Tokens(text string) int { return q.host.Tokens(text) }

// Find returns the byte offset of needle in the text of a record, or -1.
func (q *Request) Find(record int, needle string) int { return q.host.Find(record, needle) }

// InText as a call makes Search look in the text.
const InText = -1

// Search returns the byte offset of the first needle at or behind from, in the arguments of a record's call, or in its text
// if call is InText. It returns -1 if there is none, and -2 if there is no such record or call.
func (q *Request) Search(record, call, from int, needle string) int {
	return q.host.Search(record, call, from, needle)
}

// Args copies the arguments of a record's call from an offset into buf, as much as fits, and returns their whole length
// in bytes, or -1 if there is no such call. Calls count from 0. Call 0 of a result is the call that it answers.
func (q *Request) Args(record, call, offset int, buf []byte) int {
	return q.host.Args(record, call, offset, buf)
}

// Name copies the tool name of a record's call into buf, like Args. A record with one call also has the name as its
// Tool.
func (q *Request) Name(record, call int, buf []byte) int { return q.host.Name(record, call, buf) }

// Score returns how well the text of a record matches a query, from 0 to MaxScore, or -1 if there is no such record. It
// only compares words.
func (q *Request) Score(record int, query string) int { return q.host.Score(record, query) }

// JSON copies what a JSON pointer (RFC 6901) such as "/metadata/source" names in an answer, or in the spec of a candidate
// or a memory, into buf, as much as fits: a string without its quotes and escapes, anything else as JSON. It returns the
// whole length in bytes, -1 if there is no such value or record, or -2 if the text is not JSON.
func (q *Request) JSON(record int, pointer string, buf []byte) int {
	return q.host.JSON(record, pointer, buf)
}

// Log writes a line into the decision, where the operator can read it.
func (q *Request) Log(level Level, line string) { q.host.Log(level, line) }
