// Package rawjson reads JSON by walking its bytes, so that a value can be kept, removed or moved byte for byte.
//
// encoding/json matches names in any case, takes the last of two equal names, and does not report where a value was.
// Each of these would let one of Mneme's own fields pass into a window. The functions require JSON that json.Valid has
// accepted.
package rawjson

import (
	"bytes"
	"iter"
	"unicode/utf8"
)

// Object is a JSON object with the positions of its members.
type Object struct {
	Raw    []byte
	Fields []Field
}

// Field is one member of an object. Raw[Start:End] is the whole member, and Raw[Value:End] its value. Name is decoded.
type Field struct {
	Name              []byte
	Start, Value, End int
}

// manyFields is the number of fields from which names are looked up in a map, so that hostile objects take linear time.
const manyFields = 24

// usualFields is the usual number of members of a message or a part, or more.
const usualFields = 4

// ReadObject finds the members of a valid JSON object; ok is false for any other value. If a name appears twice, it
// stops there and returns the name.
func ReadObject(raw []byte) (o Object, twice []byte, ok bool) {
	twice, ok = o.Read(raw)
	return o, twice, ok
}

// Read is ReadObject for an Object that was used before, whose memory for fields is reused.
func (o *Object) Read(raw []byte) (twice []byte, ok bool) {
	o.Raw, o.Fields = raw, o.Fields[:0]
	if len(raw) == 0 || raw[0] != '{' {
		return nil, false
	}
	var seen map[string]struct{}
	for i := SkipSpace(raw, 1); raw[i] != '}'; {
		f := Field{Start: i}
		nameEnd := SkipString(raw, i)
		f.Name = raw[i+1 : nameEnd-1]
		if bytes.IndexByte(f.Name, '\\') >= 0 {
			name, _ := String(raw[i:nameEnd])
			f.Name = []byte(name)
		}
		f.Value = SkipSpace(raw, SkipSpace(raw, nameEnd)+1)
		f.End = SkipValue(raw, f.Value)
		if o.has(f.Name, &seen) {
			return f.Name, true
		}
		if o.Fields == nil {
			o.Fields = make([]Field, 0, usualFields)
		}
		o.Fields = append(o.Fields, f)
		if i = SkipSpace(raw, f.End); raw[i] == ',' {
			i = SkipSpace(raw, i+1)
		}
	}
	return nil, true
}

// has reports whether the name was read before. If there are many names, it uses the map seen.
func (o *Object) has(name []byte, seen *map[string]struct{}) bool {
	if len(o.Fields) < manyFields {
		return o.Find(string(name)) != nil
	}
	if *seen == nil {
		*seen = make(map[string]struct{}, 2*manyFields)
		for _, f := range o.Fields {
			(*seen)[string(f.Name)] = struct{}{}
		}
	}
	if _, ok := (*seen)[string(name)]; ok {
		return true
	}
	(*seen)[string(name)] = struct{}{}
	return false
}

// Find returns the member with that name, or nil.
func (o *Object) Find(name string) *Field {
	for i := range o.Fields {
		if string(o.Fields[i].Name) == name {
			return &o.Fields[i]
		}
	}
	return nil
}

// Get returns the value of a member, or nil if it is absent or null.
func (o *Object) Get(name string) []byte {
	f := o.Find(name)
	if f == nil || o.Raw[f.Value] == 'n' {
		return nil
	}
	return o.Raw[f.Value:f.End]
}

// Text returns a string member; "" if it is absent, null or another type.
func (o *Object) Text(name string) string {
	s, _ := String(o.Get(name))
	return s
}

// With returns the object's bytes with one member's value set.
func (o *Object) With(name string, value []byte) []byte {
	out := make([]byte, 0, len(o.Raw)+len(name)+len(value)+4)
	if f := o.Find(name); f != nil {
		out = append(append(out, o.Raw[:f.Value]...), value...)
		return append(out, o.Raw[f.End:]...)
	}
	out = append(out, o.Raw[:len(o.Raw)-1]...)
	if len(o.Fields) > 0 {
		out = append(out, ',')
	}
	out = append(AppendString(out, name), ':')
	return append(append(out, value...), '}')
}

// Without returns the object's bytes without the members for which cut returns true. All other bytes are unchanged. If
// there are none to remove, the result is the object's own bytes, not a copy.
func (o *Object) Without(cut func(o *Object, f *Field) bool) []byte {
	first := 0
	for first < len(o.Fields) && !cut(o, &o.Fields[first]) {
		first++
	}
	if first == len(o.Fields) {
		return o.Raw
	}
	out := make([]byte, 0, len(o.Raw))
	out = append(out, o.Raw[:o.Fields[0].Start]...)
	kept := 0
	for i := range o.Fields {
		f := &o.Fields[i]
		if i >= first && cut(o, f) {
			continue
		}
		if kept > 0 {
			out = append(out, o.Raw[o.Fields[i-1].End:f.Start]...)
		}
		out = append(out, o.Raw[f.Start:f.End]...)
		kept++
	}
	return append(out, o.Raw[o.Fields[len(o.Fields)-1].End:]...)
}

// Elements yields the start and the end of each element of a JSON array.
func Elements(raw []byte) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for i := SkipSpace(raw, 1); raw[i] != ']'; {
			end := SkipValue(raw, i)
			if !yield(i, end) {
				return
			}
			if i = SkipSpace(raw, end); raw[i] == ',' {
				i = SkipSpace(raw, i+1)
			}
		}
	}
}

// IsArray and IsObject check the type of a value by its first byte; both return false for empty input.
func IsArray(raw []byte) bool  { return len(raw) > 0 && raw[0] == '[' }
func IsObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// SkipSpace returns the position of the next value or punctuation at or after i.
func SkipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r' {
		i++
	}
	return i
}

// SkipString returns the end of the string that starts at i.
func SkipString(b []byte, i int) int {
	for j := i + 1; ; {
		j += bytes.IndexByte(b[j:], '"')
		slashes := 0
		for b[j-1-slashes] == '\\' {
			slashes++
		}
		j++
		if slashes%2 == 0 {
			return j
		}
	}
}

// SkipValue returns the end of the value that starts at i.
func SkipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return SkipString(b, i)
	case '{', '[':
		for depth := 0; ; {
			switch b[i] {
			case '"':
				i = SkipString(b, i)
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

// AppendString appends a text as a JSON string. Unlike encoding/json, it does not escape <, > and &, which is needed
// only in HTML.
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

// ArrayOf returns a JSON array of values.
func ArrayOf(values ...[]byte) []byte {
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
