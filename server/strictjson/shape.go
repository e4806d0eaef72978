package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// kind is the JSON type that a value must have. Null is always allowed and means the same as an absent field.
type kind uint8

const (
	anything kind = iota
	object
	array
	text
	ownText
	timestamp
	boolean
	integer
	number
)

var kindNames = [...]string{"anything", "an object", "an array", "a string", "a string", "an RFC 3339 time or a day", "true or false",
	"an integer", "a number"}

// shape describes the JSON that a Go type allows.
type shape struct {
	kind   kind
	fields map[string]field // of an object
	elem   *shape           // of an array
	typ    reflect.Type     // of an ownText, which decodes itself from a text
	end    bool             // of a timestamp: a date means the end of that day, as the field's tag `day:"end"` says
}

// field is one field of an object. The fields of an object are numbered from 0.
type field struct {
	number int
	shape  *shape
}

// maxFields is the maximum number of fields of an object, because the walker marks the fields it has seen in 64 bits.
const maxFields = 64

// shapeOf derives the shape of a type. seen holds the shapes made so far, so that a type may contain itself. Types
// that no request uses (maps, types that decode their own JSON) match anything here; only encoding/json checks them.
func shapeOf(t reflect.Type, seen map[reflect.Type]*shape) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := seen[t]; ok {
		return s
	}
	s := &shape{}
	seen[t] = s
	switch t {
	case reflect.TypeFor[time.Time]():
		s.kind = timestamp
		return s
	case reflect.TypeFor[json.RawMessage]():
		return s
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		s.kind, s.typ = ownText, t
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		s.kind, s.fields = object, map[string]field{}
		addFields(t, s.fields, seen)
	case reflect.Slice, reflect.Array:
		s.kind, s.elem = array, shapeOf(t.Elem(), seen)
	case reflect.String:
		s.kind = text
	case reflect.Bool:
		s.kind = boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.kind = integer
	case reflect.Float32, reflect.Float64:
		s.kind = number
	}
	return s
}

// addFields adds the fields of a struct, and those of embedded structs, under their JSON names.
func addFields(t reflect.Type, fields map[string]field, seen map[reflect.Type]*shape) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			addFields(f.Type, fields, seen)
			continue
		case name == "":
			name = f.Name
		}
		if len(fields) == maxFields {
			panic(t.String() + " has more fields than a request may have")
		}
		s := shapeOf(f.Type, seen)
		if s.kind == timestamp && f.Tag.Get("day") == "end" {
			s = &shape{kind: timestamp, end: true}
		}
		fields[name] = field{number: len(fields), shape: s}
	}
}
