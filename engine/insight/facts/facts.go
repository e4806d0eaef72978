// Package facts measures whether windows contain what the agent's next step needs. It needs no model.
//
// A literal is an id, a code, a date, an address, a path, or a number of at least three digits. A step of a recorded
// agent needs a literal if it writes the literal, an earlier message of the session has it, and the system prompt does
// not. The measure is the share of needed literals that the window of that step contains. The whole history contains
// all of them.
//
// Containing the literals is necessary but not sufficient: a window may list them without saying what they mean.
// Anchored therefore counts only literals that are next to a word that they were next to before.
package facts

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Call is a tool call.
type Call struct {
	Name      string
	Arguments string // JSON, as the model wrote it
}

// Message is the part of a message that counts.
type Message struct {
	Text  string
	Calls []Call
}

// Parse reads a message in OpenAI's chat format.
func Parse(raw []byte) (m Message, err error) {
	var of struct {
		Content   json.RawMessage
		ToolCalls []struct {
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(raw, &of); err != nil {
		return m, err
	}
	m.Text = textOf(of.Content)
	for _, c := range of.ToolCalls {
		m.Calls = append(m.Calls, Call(c.Function))
	}
	return m, nil
}

// textOf returns the text of a message's content: a string, or a list of parts.
func textOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}

// Append appends everything that a reader of the message sees to dst, and ends it with a newline.
func (m *Message) Append(dst []byte) []byte {
	dst = append(append(dst, m.Text...), '\n')
	for _, c := range m.Calls {
		dst = append(append(dst, c.Name...), ' ')
		dst = append(append(dst, c.Arguments...), '\n')
	}
	return dst
}

// A Source is a text that may have a step's literals.
type Source struct {
	History string // all that the session showed before the step
	System  string // the system prompt
}

// Need is what one step needs.
type Need struct {
	Literals []string // each once
	Called   int      // the first of them, which are in the arguments of calls
}

// Of returns what a step of the agent needs.
func (s *Source) Of(step *Message) (n Need) {
	seen := map[string]bool{}
	add := func(text string) {
		for _, literal := range literals(text) {
			if !seen[literal] && holds(s.History, literal) && !holds(s.System, literal) {
				n.Literals = append(n.Literals, literal)
			}
			seen[literal] = true
		}
	}
	for _, c := range step.Calls {
		add(argumentText(c.Arguments))
	}
	n.Called = len(n.Literals)
	add(step.Text)
	return n
}

// Count sums up over windows.
type Count struct {
	Needed   int // literals that steps need
	Present  int // of these, those in the window
	Anchored int // of these, those next to a word that was next to them in the history
	Steps    int // steps with a call that needs a literal
	Complete int // of these, those whose windows hold all literals of all calls
}

// Add counts one window, given as the text that Append makes of its messages.
func (c *Count) Add(n Need, s *Source, window string) {
	lower := strings.ToLower(window)
	whole := true
	for i, literal := range n.Literals {
		c.Needed++
		if !holds(window, literal) {
			whole = whole && i >= n.Called
			continue
		}
		c.Present++
		words := anchors(s.History, literal)
		if len(words) == 0 || anchored(window, lower, literal, words) {
			c.Anchored++
		}
	}
	if n.Called > 0 {
		c.Steps++
		if whole {
			c.Complete++
		}
	}
}

// Plus adds the counts of other windows.
func (c *Count) Plus(o Count) {
	c.Needed += o.Needed
	c.Present += o.Present
	c.Anchored += o.Anchored
	c.Steps += o.Steps
	c.Complete += o.Complete
}

// Share returns part/whole, or nil if there is nothing to divide by: the share is unknown then.
func Share(part, whole int) *float64 {
	if whole == 0 {
		return nil
	}
	return new(float64(part) / float64(whole))
}

var literalPattern = regexp.MustCompile(strings.Join([]string{
	`[\w\pL.+-]+@[\w\pL-]+(?:\.[\w\pL-]+)+`,         // mail address
	`#?[A-Za-z]+(?:_[A-Za-z0-9]+)*_\d+`,             // mia_li_3668
	`#?[A-Z]{1,4}\d{2,}[A-Z0-9]*`,                   // #W2378156
	mixed(),                                         // 4WQ150
	`\b[A-Z]{6}\b`,                                  // ZFAOKY
	`\b\d{4}-\d{2}-\d{2}\b`,                         // 2024-05-15
	`(?:/?[\w\pL.-]+/)+[\w\pL.-]+\.?[\w\pL]*`,       // path
	`\b[\w\pL-]+\.(?:` + fileEndings + `)\b`,        // file
	`\b0x[0-9a-fA-F]{3,}\b`, `\b\d{3,}(?:\.\d+)?\b`, // numbers
}, "|"))

const fileEndings = "py|c|h|txt|md|json|cfg|toml|sh|js|go|zip|jpg|png|wav|log|php|html"

// mixed matches words of five to eight capitals and digits that have at least one of each.
func mixed() string {
	var of []string
	for first := 1; first < 8; first++ { // characters before the first of the other kind
		rest := "[A-Z0-9]{" + strconv.Itoa(max(0, 4-first)) + "," + strconv.Itoa(7-first) + "}"
		times := "{" + strconv.Itoa(first) + "}"
		of = append(of, "[A-Z]"+times+"[0-9]"+rest, "[0-9]"+times+"[A-Z]"+rest)
	}
	return `\b(?:` + strings.Join(of, "|") + `)\b`
}

// literals returns the literals of a text, as often as it has them.
func literals(text string) (out []string) {
	for _, one := range literalPattern.FindAllString(text, -1) {
		if one = strings.Trim(one, ".,:;"); utf8.RuneCountInString(one) >= 3 {
			out = append(out, one)
		}
	}
	return out
}

// argumentText returns the names, strings and numbers of a call's arguments, one a line, or the arguments themselves if
// they are not JSON.
func argumentText(arguments string) string {
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()
	var out strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out.String()
		} else if err != nil {
			return arguments
		}
		switch token := token.(type) {
		case string:
			out.WriteString(token + "\n")
		case json.Number:
			out.WriteString(token.String() + "\n")
		}
	}
}

// places yields each place of a literal in a text.
func places(text, literal string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for from := 0; ; {
			at := strings.Index(text[from:], literal)
			if at < 0 || !yield(from+at) {
				return
			}
			from += at + 1
		}
	}
}

// holds reports whether a text has a literal that is not a part of a longer word.
func holds(text, literal string) bool {
	alphanumeric := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
	first, _ := utf8.DecodeRuneInString(literal)
	last, _ := utf8.DecodeLastRuneInString(literal)
	for at := range places(text, literal) {
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(literal):])
		if !(alphanumeric(before) && alphanumeric(first)) && !(alphanumeric(after) && alphanumeric(last)) {
			return true
		}
	}
	return false
}

var wordPattern = regexp.MustCompile(`[A-Za-z_]{4,}`)

// anchors returns the words near a literal in lower case: for each occurrence, the last two words in the 48 bytes
// before it and the first in the 32 bytes after it.
func anchors(text, literal string) map[string]bool {
	words := map[string]bool{}
	for at := range places(text, literal) {
		end := at + len(literal)
		before := wordPattern.FindAllString(text[max(0, at-48):at], -1)
		for _, word := range before[max(0, len(before)-2):] {
			words[strings.ToLower(word)] = true
		}
		if word := wordPattern.FindString(text[end:min(len(text), end+32)]); word != "" {
			words[strings.ToLower(word)] = true
		}
	}
	return words
}

// anchored reports whether one of the words is near the literal in a text: in the 96 bytes before it, in the literal
// itself, or in the 64 bytes after it.
func anchored(text, lower, literal string, words map[string]bool) bool {
	if len(lower) != len(text) { // lower case may be shorter or longer
		lower = text
	}
	for at := range places(text, literal) {
		near := lower[max(0, at-96):min(len(lower), at+len(literal)+64)]
		for word := range words {
			if strings.Contains(near, word) {
				return true
			}
		}
	}
	return false
}
