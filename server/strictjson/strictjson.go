// Package strictjson decodes request bodies. It refuses what encoding/json accepts: unknown and repeated names, names
// in another case, and invalid UTF-8. It reports all such faults of a body at once, each with its path. A
// json.RawMessage is the client's own value: any valid JSON is allowed.
//
// A body is read twice. encoding/json decodes it; then a walker compares its text with the shape of the Go type,
// because encoding/json does not report the names that it met.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// MaxFaults is the maximum number of faults in one response, so that a hostile body does not get a response of its
// size.
const MaxFaults = 100

// SyntaxError reports where a body stops being JSON. Line and Column count from 1, Column in bytes; Offset from 0.
type SyntaxError struct {
	Offset, Line, Column int
	Problem              string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d (byte %d): %s", e.Line, e.Column, e.Offset, e.Problem)
}

// Fault codes.
const (
	UnknownField   = "unknown_field"
	DuplicateField = "duplicate_field"
	WrongType      = "wrong_type"
	InvalidTime    = "invalid_time"
	Unreadable     = "unreadable_number"
	Surrogate      = "lone_surrogate"
)

// Fault says why one field does not fit the request's type. Path has the form budget.max_tokens or
// pipeline[0].policy; Pointer is the same path as defined in RFC 6901, such as /pipeline/0/policy.
type Fault struct{ Path, Pointer, Code, Detail string }

// FaultsError lists the faults of a body in the order of its text. More is the number of faults beyond MaxFaults.
type FaultsError struct {
	Faults []Fault
	More   int
}

func (e *FaultsError) Error() string {
	var b bytes.Buffer
	for i, f := range e.Faults {
		if i > 0 {
			b.WriteString("; ")
		}
		if f.Path != "" {
			b.WriteString(f.Path + ": ")
		}
		b.WriteString(f.Detail)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "; and %d more", e.More)
	}
	return b.String()
}

// Decoder decodes bodies into a T. It is safe for concurrent use. Make one per type.
type Decoder[T any] struct{ shape *shape }

// For returns a decoder for the type's fields and their json tags.
func For[T any]() *Decoder[T] {
	return &Decoder[T]{shape: shapeOf(reflect.TypeFor[T](), map[reflect.Type]*shape{})}
}

// Decode decodes body, which must be one JSON value, into dst, which must be zero. Nothing in dst points into body.
// It fails with a *SyntaxError or a *FaultsError.
func (d *Decoder[T]) Decode(body []byte, dst *T) error {
	_, err := d.decode(body, dst)
	return err
}

// Check validates a body as Decode does, and returns it with all times and integers in the form that encoding/json
// reads.
func (d *Decoder[T]) Check(body []byte) ([]byte, error) {
	var decoded T
	return d.decode(body, &decoded)
}

func (d *Decoder[T]) decode(body []byte, dst *T) ([]byte, error) {
	if at := invalidUTF8(body); at >= 0 {
		return nil, syntaxError(body, at, "invalid UTF-8")
	}
	err := json.Unmarshal(body, dst)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, syntaxError(body, max(int(syntax.Offset)-1, 0), syntax.Error())
	}

	w := walker{body: body, root: d.shape}
	w.value(d.shape)
	if w.faults.Faults != nil {
		return nil, &w.faults
	}
	if len(w.edits) > 0 {
		var zero T
		*dst = zero
		body = edited(body, w.edits)
		err = json.Unmarshal(body, dst)
	}
	if err == nil {
		return body, nil
	}
	// The walk does not check the range of numbers. encoding/json does, and names the first one that is out of range.
	fault := Fault{Code: WrongType, Detail: "value does not fit the field"}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		fault.Path, fault.Detail = wrong.Field, fmt.Sprintf("%s does not fit the field", clip(wrong.Value))
	}
	return nil, &FaultsError{Faults: []Fault{fault}}
}

// invalidUTF8 returns the offset of the first byte that is not valid UTF-8, or -1.
func invalidUTF8(body []byte) int {
	if utf8.Valid(body) {
		return -1
	}
	for at := 0; ; {
		r, size := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
}

func syntaxError(body []byte, offset int, problem string) *SyntaxError {
	before := body[:min(offset, len(body))]
	return &SyntaxError{
		Offset:  offset,
		Line:    1 + bytes.Count(before, []byte{'\n'}),
		Column:  offset - bytes.LastIndexByte(before, '\n'),
		Problem: problem,
	}
}

// edit replaces the bytes from start to end. encoding/json does not read times without a zone, which are UTC, or
// integers with a fraction or an exponent, such as 1.0.
type edit struct {
	start, end int
	text       string
}

// edited returns body after the edits, which must be in the order of the text.
func edited(body []byte, edits []edit) []byte {
	out := make([]byte, 0, len(body)+len(edits)*20)
	from := 0
	for _, e := range edits {
		out = append(append(out, body[from:e.start]...), e.text...)
		from = e.end
	}
	return append(out, body[from:]...)
}

// clip shortens a client's text to 128 bytes, so that it does not fill the response.
func clip(s string) string {
	const longest = 128
	if len(s) <= longest {
		return s
	}
	cut := longest
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
