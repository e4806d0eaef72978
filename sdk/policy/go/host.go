package mneme

// Host answers a policy's questions. In a module they are the ABI's host functions, each charged; in a native build
// the test supplies them.
type Host interface {
	// Text copies the text of a record from an offset into buf and returns the text's whole length, -1 where there
	// is no such record.
	Text(record, offset int, buf []byte) int
	// Tokens counts the tokens of a text in the request's tokenizer.
	Tokens(text string) int
	// Find returns the byte offset of needle in the text of a record, or -1.
	Find(record int, needle string) int
	// Args copies the arguments of a call of a record from an offset into buf and returns their whole length, -1 where
	// there is no such call.
	Args(record, call, offset int, buf []byte) int
	// Name copies the name of the tool that a call names into buf and returns the name's whole length, -1 where there
	// is no such call.
	Name(record, call int, buf []byte) int
	// Score says how well the text of a record answers a query, from 0 to MaxScore, or -1.
	Score(record int, query string) int
	// Log writes a line into the decision.
	Log(level Level, line string)
}

// Text copies the text of a record from an offset into buf, as much as fits, and returns the text's whole length in
// bytes, or -1 where there is no such record.
func (q *Request) Text(record, offset int, buf []byte) int { return q.host.Text(record, offset, buf) }

// Tokens counts the tokens of a text in the request's tokenizer. A message costs a few tokens more than its text.
func (q *Request) Tokens(text string) int { return q.host.Tokens(text) }

// Find returns the byte offset of needle in the text of a record, or -1.
func (q *Request) Find(record int, needle string) int { return q.host.Find(record, needle) }

// Args copies the arguments of a call of a record from an offset into buf, as much as fits, and returns their whole
// length in bytes, or -1 where there is no such call. Calls count from 0. Of a result, 0 is the call that it answers.
func (q *Request) Args(record, call, offset int, buf []byte) int {
	return q.host.Args(record, call, offset, buf)
}

// Name copies the name of the tool that a call names into buf, as Args does with its arguments. A record with one call
// has the name as its Tool too.
func (q *Request) Name(record, call int, buf []byte) int { return q.host.Name(record, call, buf) }

// Score says how well the text of a record answers a query, by the words of the two alone, from 0 to MaxScore, or -1
// where there is no such record.
func (q *Request) Score(record int, query string) int { return q.host.Score(record, query) }

// Log writes a line into the decision, where the operator finds it.
func (q *Request) Log(level Level, line string) { q.host.Log(level, line) }
