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

// walker compares a body, which must be valid JSON, with a shape. It descends only into fields that the shape names and
// skips all others without recursion, so the depth of its recursion is that of our own types.
type walker struct {
	body   []byte
	at     int
	root   *shape
	path   []step
	faults FaultsError
	edits  []edit
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

// fits reports whether a value that is not null is of a kind, which its first byte tells.
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

// integer takes every number without a fraction, however it is written: 1.0 and 1e2 are integers.
func (w *walker) integer(start int, literal []byte) {
	if !bytes.ContainsAny(literal, ".eE") || !rawjson.Readable(literal) {
		return // an unreadable number is a fault already
	}
	r, ok := new(big.Rat).SetString(string(literal))
	if !ok || !r.IsInt() {
		w.fault(WrongType, "must be "+kindNames[integer])
		return
	}
	w.edits = append(w.edits, edit{start, w.at, r.Num().String()})
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

// meant says what an unknown field may have been meant to be: a field of that name elsewhere in the body, or the one
// here whose name is nearest.
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

// scalar passes over a number, true, false or null. An unreadable number is a fault wherever it stands, because the
// client's own values are passed on as they came.
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
		w.fault(Unreadable, "holds a number that many readers of JSON cannot hold: its size must be that of a 64-bit "+
			"float, and its text at most 1,000 bytes")
	}
}

// str passes over a string. Texts are long and mostly plain, so the vectorised IndexByte searches for the quote and for
// escapes. The quote is searched again only where an escape has passed the one found before, so the time stays linear
// however many escapes there are.
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
				w.fault(Surrogate, "holds half of a UTF-16 pair, such as \\ud800 alone, which is no character")
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

// escapePointer writes a name as a part of a JSON pointer.
var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

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
