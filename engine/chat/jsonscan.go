package chat

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"
	"unicode/utf8"
)

// Messages are read by walking their bytes. encoding/json matches names in any case, takes the last of two equal names
// and does not say where a value stood; each of these would let one of Mneme's own fields pass into a window. The walk
// needs text that json.Valid has accepted.

// object is a JSON object with the places of its members.
type object struct {
	raw    []byte
	fields []field
}

// field is one member of an object: raw[start:end] is all of it, raw[value:end] its value. The name is decoded.
type field struct {
	name              []byte
	start, value, end int
}

// manyFields is the number of fields from which names are looked up in a map, so that a hostile object takes linear
// time.
const manyFields = 24

// readObject finds the members of a valid JSON object. A name that appears twice is a problem.
func readObject(raw []byte) (object, *problem) {
	o := object{raw: raw}
	if len(raw) == 0 || raw[0] != '{' {
		return o, &problem{CodeMalformed, "must be a JSON object"}
	}
	var seen map[string]struct{}
	for i := skipSpace(raw, 1); raw[i] != '}'; {
		f := field{start: i}
		nameEnd := skipString(raw, i)
		f.name = raw[i+1 : nameEnd-1]
		if bytes.IndexByte(f.name, '\\') >= 0 {
			name, _ := decodeString(raw[i:nameEnd])
			f.name = []byte(name)
		}
		f.value = skipSpace(raw, skipSpace(raw, nameEnd)+1)
		f.end = skipValue(raw, f.value)
		if o.has(f.name, &seen) {
			return o, &problem{CodeDuplicateField, "the field " + quoteForDetail(f.name) +
				" appears twice; send it once"}
		}
		if o.fields == nil {
			o.fields = make([]field, 0, 8)
		}
		o.fields = append(o.fields, f)
		if i = skipSpace(raw, f.end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return o, nil
}

// has reports whether the name was read before. It uses the map seen once there are many names.
func (o *object) has(name []byte, seen *map[string]struct{}) bool {
	if len(o.fields) < manyFields {
		return o.find(string(name)) != nil
	}
	if *seen == nil {
		*seen = make(map[string]struct{}, 2*manyFields)
		for _, f := range o.fields {
			(*seen)[string(f.name)] = struct{}{}
		}
	}
	if _, ok := (*seen)[string(name)]; ok {
		return true
	}
	(*seen)[string(name)] = struct{}{}
	return false
}

// find returns the member of that name, or nil.
func (o *object) find(name string) *field {
	for i := range o.fields {
		if string(o.fields[i].name) == name {
			return &o.fields[i]
		}
	}
	return nil
}

// get returns the value of a member, or nil where it is absent or null.
func (o *object) get(name string) []byte {
	f := o.find(name)
	if f == nil || o.raw[f.value] == 'n' {
		return nil
	}
	return o.raw[f.value:f.end]
}

// text returns a string member, "" where it is absent, null or another type.
func (o *object) text(name string) string {
	s, _ := decodeString(o.get(name))
	return s
}

// with returns the object's bytes with one member's value set.
func (o *object) with(name string, value []byte) []byte {
	out := make([]byte, 0, len(o.raw)+len(name)+len(value)+4)
	if f := o.find(name); f != nil {
		out = append(append(out, o.raw[:f.value]...), value...)
		return append(out, o.raw[f.end:]...)
	}
	out = append(out, o.raw[:len(o.raw)-1]...)
	if len(o.fields) > 0 {
		out = append(out, ',')
	}
	out = append(AppendString(out, name), ':')
	return append(append(out, value...), '}')
}

// without returns the object's bytes without the chosen members, all other bytes unchanged. Where none is chosen, the
// result is the object's own bytes and not a copy.
func (o *object) without(cut func(o *object, f *field) bool) []byte {
	first := 0
	for first < len(o.fields) && !cut(o, &o.fields[first]) {
		first++
	}
	if first == len(o.fields) {
		return o.raw
	}
	out := make([]byte, 0, len(o.raw))
	out = append(out, o.raw[:o.fields[0].start]...)
	kept := 0
	for i := range o.fields {
		f := &o.fields[i]
		if i >= first && cut(o, f) {
			continue
		}
		if kept > 0 {
			out = append(out, o.raw[o.fields[i-1].end:f.start]...)
		}
		out = append(out, o.raw[f.start:f.end]...)
		kept++
	}
	return append(out, o.raw[o.fields[len(o.fields)-1].end:]...)
}

// elements yields start and end of each element of a JSON array.
func elements(raw []byte) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for i := skipSpace(raw, 1); raw[i] != ']'; {
			end := skipValue(raw, i)
			if !yield(i, end) {
				return
			}
			if i = skipSpace(raw, end); raw[i] == ',' {
				i = skipSpace(raw, i+1)
			}
		}
	}
}

func isArray(raw []byte) bool  { return len(raw) > 0 && raw[0] == '[' }
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r' {
		i++
	}
	return i
}

// skipString returns the end of the string that starts at i.
func skipString(b []byte, i int) int {
	for j := i + 1; ; {
		j += bytes.IndexByte(b[j:], '"')
		slashes := 0
		for b[j-1-slashes] == '\\' {
			slashes++
		}
		if j++; slashes%2 == 0 {
			return j
		}
	}
}

// skipValue returns the end of the value that starts at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; ; {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	return i
}

// decodeString returns a JSON string's value; false where the JSON is no string.
func decodeString(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// AppendString appends a text as a JSON string. Unlike encoding/json it does not escape <, > and &, which only HTML
// needs.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, "\uFFFD"...)
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

// arrayOf makes an array of values.
func arrayOf(values ...[]byte) []byte {
	size := 1 + len(values)
	for _, v := range values {
		size += len(v)
	}
	out := append(make([]byte, 0, size), '[')
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

// quoteForDetail quotes a client's own text for an error text, at most 40 bytes of it. It escapes nothing, because the
// answer's JSON does.
func quoteForDetail(s []byte) string {
	const most = 40
	if len(s) > most {
		s = append(s[:most:most], "..."...)
	}
	return `"` + strings.ToValidUTF8(string(s), "\uFFFD") + `"`
}

// quoteValue quotes a value for an error text: a string's text, and the JSON of any other value.
func quoteValue(raw []byte) string {
	if text, ok := decodeString(raw); ok {
		raw = []byte(text)
	}
	return quoteForDetail(raw)
}
