package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// walker compares a body, which must be valid JSON, with a shape. It descends only into fields that the shape names and
// skips all others without recursion, so the depth of its recursion is that of our own types.
type walker struct {
	body     []byte
	at       int
	path     []step
	faults   FaultsError
	zoneless []int // offsets at which times without a zone end
}

// step is one part of a path: a field's name, or an index where name is nil.
type step struct {
	name  []byte
	index int
}

func (w *walker) value(s *shape) {
	w.space()
	start, c := w.at, w.body[w.at]
	switch {
	case c == '{' && s.kind == object:
		w.object(s)
		return
	case c == '[' && s.kind == array:
		w.array(s)
		return
	}
	w.skip()
	literal := w.body[start:w.at]
	switch {
	case c == 'n' || s.kind == anything:
	case c == '"' && s.kind == timestamp:
		w.timestamp(literal)
	case !fits(s.kind, literal):
		w.fault(WrongType, "must be "+kindNames[s.kind])
	}
}

// fits reports whether a value that is not null is of a kind. Its first byte tells, except that an integer has no
// fraction or exponent.
func fits(k kind, literal []byte) bool {
	switch c := literal[0]; k {
	case text:
		return c == '"'
	case boolean:
		return c == 't' || c == 'f'
	case number:
		return c == '-' || '0' <= c && c <= '9'
	case integer:
		return (c == '-' || '0' <= c && c <= '9') && !bytes.ContainsAny(literal, ".eE")
	default:
		return false
	}
}

func (w *walker) timestamp(literal []byte) {
	var t time.Time
	written := unquote(literal)
	if t.UnmarshalText(written) == nil {
		return
	}
	if t.UnmarshalText(append(bytes.Clone(written), 'Z')) == nil {
		w.zoneless = append(w.zoneless, w.at-1)
		return
	}
	w.fault(InvalidTime, "must be "+kindNames[timestamp])
}

func (w *walker) object(s *shape) {
	var seen uint64 // one bit for each field; shapeOf refuses types with more
	w.at++
	for {
		w.space()
		switch w.body[w.at] {
		case '}':
			w.at++
			return
		case ',':
			w.at++
			continue
		}
		start := w.at
		w.str()
		name := unquote(w.body[start:w.at])
		w.space()
		w.at++ // the colon
		f, known := s.fields[string(name)]
		w.path = append(w.path, step{name: name})
		switch {
		case !known:
			w.fault(UnknownField, "unknown field"+meant(s, name))
			w.space()
			w.skip()
		case seen&(1<<f.number) != 0:
			w.fault(DuplicateField, "field given twice")
			w.space()
			w.skip()
		default:
			seen |= 1 << f.number
			w.value(f.shape)
		}
		w.path = w.path[:len(w.path)-1]
	}
}

// meant suggests the field whose name in lower case is the unknown one's: the most likely mistake.
func meant(s *shape, name []byte) string {
	lower := strings.ToLower(string(name))
	if _, ok := s.fields[lower]; !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", lower)
}

func (w *walker) array(s *shape) {
	w.at++
	for i := 0; ; {
		w.space()
		switch w.body[w.at] {
		case ']':
			w.at++
			return
		case ',':
			w.at++
			continue
		}
		w.path = append(w.path, step{index: i})
		w.value(s.elem)
		w.path = w.path[:len(w.path)-1]
		i++
	}
}

// skip passes over one value of any kind.
func (w *walker) skip() {
	depth := 0
	for {
		switch w.body[w.at] {
		case '"':
			w.str()
		case '{', '[':
			depth++
			w.at++
		case '}', ']':
			depth--
			w.at++
		case ' ', '\t', '\r', '\n', ',', ':':
			w.at++
			continue
		default:
			w.scalar()
		}
		if depth == 0 {
			return
		}
	}
}

func (w *walker) scalar() {
	for w.at < len(w.body) {
		switch w.body[w.at] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			return
		}
		w.at++
	}
}

// str passes over a string. Texts are long and mostly plain, so the vectorised IndexByte searches for the quote and for
// escapes. The quote is searched again only where an escape has passed the one found before, so the time stays linear
// however many escapes there are.
func (w *walker) str() {
	w.at++
	quote := -1
	for {
		if quote < w.at {
			quote = w.at + bytes.IndexByte(w.body[w.at:], '"')
		}
		escape := bytes.IndexByte(w.body[w.at:quote], '\\')
		if escape < 0 {
			w.at = quote + 1
			return
		}
		w.at += escape + 2
	}
}

func (w *walker) space() {
	for {
		switch w.body[w.at] {
		case ' ', '\t', '\r', '\n':
			w.at++
		default:
			return
		}
	}
}

func (w *walker) fault(code, detail string) {
	if len(w.faults.Faults) == MaxFaults {
		w.faults.More++
		return
	}
	var path strings.Builder
	for _, s := range w.path {
		switch {
		case s.name == nil:
			path.WriteString("[" + strconv.Itoa(s.index) + "]")
		case path.Len() > 0:
			path.WriteString("." + clip(string(s.name)))
		default:
			path.WriteString(clip(string(s.name)))
		}
	}
	w.faults.Faults = append(w.faults.Faults, Fault{Path: path.String(), Code: code, Detail: detail})
}

// unquote reads a JSON string that is known to be valid. The answer is never nil, and may lie within literal.
func unquote(literal []byte) []byte {
	if bytes.IndexByte(literal, '\\') < 0 {
		return literal[1 : len(literal)-1]
	}
	var s string
	if err := json.Unmarshal(literal, &s); err != nil {
		return literal
	}
	return []byte(s)
}
