// Package fault is what can go wrong: an Error has a code for programs, a detail for people, and a Kind for the edge,
// which maps each kind to one status. codes.go is the table of all codes.
package fault

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Kind sorts errors by what the caller can do about them. The edge maps each kind to one status.
type Kind uint8

const (
	Internal     Kind = iota // a defect or a broken disk; the words stay in the log
	BadRequest               // not readable as a request at all
	Unauthorized             // no key, or an unknown one
	Forbidden                // the key's role is too low
	NotFound                 // absent, or not the caller's to know of
	Conflict                 // clashes with what is stored
	Gone                     // was here, is purged
	Precondition             // not as the caller says that it is
	TooLarge                 // over a limit on size
	Invalid                  // readable but wrong: Fields say where
	Unavailable              // cannot be done now, may be later
	NoSpace                  // the disk or a quota is full
)

// Error is every failure that leaves the engine on purpose. Any other error is a defect or a broken disk: the edge
// answers 500 to it and keeps its words in the log.
type Error struct {
	Kind   Kind
	Code   string // stable, for programs: one of ErrorCodes
	Detail string // what was wrong, where, and what to do
	Fields []FieldError
	// Needed and Allowed are set for budget_too_small, in Unit ("tokens" or "messages").
	Needed, Allowed int
	Unit            string
	// Refusal is set for module_refused: the check that a module failed.
	Refusal *plan.Refusal
	// Current is set for version_mismatch: what there is now.
	Current *Current
}

// Current is the version of a thing that a precondition did not hold for; version 0: there is none.
type Current struct {
	Version int
	ETag    string
}

// FieldError is one fault inside a request.
type FieldError struct {
	Index   *int   `json:"index,omitempty"` // of the message in its list; nil where the fault is in no message
	Field   string `json:"field,omitempty"`
	Pointer string `json:"pointer,omitempty"` // the place in the body, as of RFC 6901
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Detail }

// Errorf makes an Error without fields.
func Errorf(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Detail: Words(format, args...)}
}

// Words is fmt.Sprintf for texts that a client reads: %q puts a string between quotes as it is, because the answer's
// JSON escapes it, and shortens it to 128 bytes.
func Words(format string, args ...any) string {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = word(text)
		}
	}
	return fmt.Sprintf(format, args...)
}

type word string

func (w word) Format(f fmt.State, verb rune) {
	text, quote := string(w), ""
	if verb == 'q' {
		const longest = 128
		if quote = `"`; len(text) > longest {
			text = strings.ToValidUTF8(text[:longest], "") + "…"
		}
	}
	_, _ = io.WriteString(f, quote+text+quote)
}

// InvalidField makes an Error of kind Invalid about one field. The code is that of the field and of the whole request.
func InvalidField(field, code, format string, args ...any) *Error {
	detail := Words(format, args...)
	return &Error{Kind: Invalid, Code: code, Detail: field + ": " + detail,
		Fields: []FieldError{{Field: field, Code: code, Detail: detail}}}
}

// TooSmall makes the Error of a budget that cannot hold what must stay.
func TooSmall(unit string, needed, allowed int, detail string) *Error {
	return &Error{Kind: Invalid, Code: "budget_too_small", Unit: unit, Needed: needed, Allowed: allowed, Detail: detail}
}

// MustStay is TooSmall for the messages that every window must show.
func MustStay(unit string, needed, allowed int) *Error {
	return TooSmall(unit, needed, allowed, fmt.Sprintf(
		"the newest user message and the newest atom need %d %s, the budget allows %d", needed, unit, allowed))
}

// As gives the error of ours in an error, if there is one.
func As(err error) (*Error, bool) { return errors.AsType[*Error](err) }

// IsNotFound tells whether an error says that something is absent, or not the caller's to know of.
func IsNotFound(err error) bool {
	known, ok := errors.AsType[*Error](err)
	return ok && known.Kind == NotFound
}
