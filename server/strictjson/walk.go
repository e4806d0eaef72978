package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// walker compares a body, which must be valid JSON, with a shape. It descends only into fields that the shape names
// and skips all others without recursion, so the recursion is only as deep as the Go types.
type walker struct {
	body   []byte
	at     int
	root   *shape
	path   []step
	faults FaultsError
	edits  []edit
}

// step is one part of a path: a field's name, or an index if name is nil.
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
		w.timestamp(s, literal)
	case c == '"' && s.kind == ownText:
		if err := reflect.New(s.typ).Interface().(encoding.TextUnmarshaler).UnmarshalText(unquote(literal)); err != nil {
			w.fault(WrongType, "does not fit the field: "+err.Error())
		}
	case s.kind == integer && (c == '-' || '0' <= c && c <= '9'):
		w.integer(start, literal)
	case !fits(s.kind, literal):
		w.fault(WrongType, "must be "+kindNames[s.kind])
	}
}

// fits reports whether a non-null value is of kind k, judging by its first byte.
func fits(k kind, literal []byte) bool {
	c := literal[0]
	switch k {
	case text:
		return c == '"'
	case boolean:
		return c == 't' || c == 'f'
	case number:
		return c == '-' || '0' <= c && c <= '9'
	default:
		return false
	}
}

// timestamp takes RFC 3339 times, those without a zone as UTC, and days.
func (w *walker) timestamp(s *shape, literal []byte) {
	var t time.Time
	written := unquote(literal)
	if t.UnmarshalText(written) == nil {
		return
	}
	if _, err := time.Parse(time.DateOnly, string(written)); err == nil {
		rest := "T00:00:00Z"
		if s.end {
			rest = "T23:59:59.999Z"
		}
		w.edits = append(w.edits, edit{w.at - 1, w.at - 1, rest})
		return
	}
	if t.UnmarshalText(append(bytes.Clone(written), 'Z')) == nil {
		w.edits = append(w.edits, edit{w.at - 1, w.at - 1, "Z"})
		return
	}
	w.fault(InvalidTime, "must be "+kindNames[timestamp])
}

// integer accepts every number without a fraction, in any notation: 1.0 and 1e2 are integers.
func (w *walker) integer(start int, literal []byte) {
	if !bytes.ContainsAny(literal, ".eE") || !rawjson.Readable(literal) {
		return // an unreadable number is already a fault
	}
	r, ok := new(big.Rat).SetString(string(literal))
	if !ok || !r.IsInt() {
		w.fault(WrongType, "must be "+kindNames[integer])
		return
	}
	w.edits = append(w.edits, edit{start, w.at, r.Num().String()})
}

func (w *walker) object(s *shape) {
	var seen uint64 // one bit per field; shapeOf refuses types with more
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
		w.at++ // skip the colon
		f, known := s.fields[string(name)]
		w.path = append(w.path, step{name: name})
		switch {
		case !known:
			w.fault(UnknownField, "unknown field"+w.meant(s, name))
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

// meant returns a hint for an unknown field: a field of that name elsewhere in the body, or the most similar name
// here.
func (w *walker) meant(s *shape, name []byte) string {
	if s != w.root {
		if _, ok := w.root.fields[string(name)]; ok {
			return "; it belongs to the body itself"
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(w.root.fields)) {
		at := w.root.fields[owner].shape
		if at.elem != nil {
			at = at.elem
		}
		if _, ok := at.fields[string(name)]; ok && at != s {
			return "; it belongs to `" + owner + "`"
		}
	}
	return DidYouMean(string(name), maps.Keys(s.fields))
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
		if w.body[w.at] == 'n' && s.elem.kind != anything {
			w.fault(WrongType, "must be "+kindNames[s.elem.kind])
		}
		w.value(s.elem)
		w.path = w.path[:len(w.path)-1]
		i++
	}
}

// skip skips one value of any kind.
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

// scalar skips a number, true, false or null. An unreadable number is a fault anywhere, because the client's own
// values are passed on unchanged.
func (w *walker) scalar() {
	start := w.at
scalar:
	for w.at < len(w.body) {
		switch w.body[w.at] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			break scalar
		}
		w.at++
	}
	if c := w.body[start]; (c == '-' || '0' <= c && c <= '9') && !rawjson.Readable(w.body[start:w.at]) {
		w.fault(Unreadable, "has a number that many JSON parsers cannot read: it must fit in a 64-bit float, "+
			"and its text must be at most 1,000 bytes")
	}
}

// str skips a string. Texts are long and mostly plain, so the vectorised IndexByte searches for the quote and for
// escapes. It searches for the quote again only after an escape beyond the last quote it found, so the time is linear
// for any number of escapes.
func (w *walker) str() {
	start := w.at
	w.at++
	quote := -1
	for {
		if quote < w.at {
			quote = w.at + bytes.IndexByte(w.body[w.at:], '"')
		}
		escape := bytes.IndexByte(w.body[w.at:quote], '\\')
		if escape < 0 {
			if escaped := w.at != start+1; escaped && rawjson.LoneSurrogate(w.body[start:quote+1]) {
				w.fault(Surrogate, "has half of a UTF-16 pair, such as \\ud800 alone, which is not a character")
			}
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
	var path, pointer strings.Builder
	for _, s := range w.path {
		pointer.WriteByte('/')
		if s.name == nil {
			pointer.WriteString(strconv.Itoa(s.index))
		} else {
			pointer.WriteString(escapePointer.Replace(clip(string(s.name))))
		}
		switch {
		case s.name == nil:
			path.WriteString("[" + strconv.Itoa(s.index) + "]")
		case path.Len() > 0:
			path.WriteString("." + clip(string(s.name)))
		default:
			path.WriteString(clip(string(s.name)))
		}
	}
	w.faults.Faults = append(w.faults.Faults, Fault{Path: path.String(), Pointer: pointer.String(), Code: code,
		Detail: detail})
}

// escapePointer escapes a name for a JSON pointer.
var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// unquote decodes a JSON string that is known to be valid. The result is never nil and may share memory with literal.
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
