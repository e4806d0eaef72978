// Package fault defines the errors that the engine returns. An Error has a code for programs, a detail for people, and
// a Kind, which the server maps to an HTTP status. codes.go is the table of all codes.
package fault

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Kind classifies errors by what the caller can do about them. The server maps each kind to one status.
type Kind uint8

const (
	Internal     Kind = iota // a bug or a broken disk; the details are only logged
	BadRequest               // cannot be parsed as a request
	Unauthorized             // no key, or an unknown one
	Forbidden                // the key's role is too low
	NotFound                 // does not exist, or is outside the caller's reach
	Conflict                 // conflicts with what is stored
	Gone                     // existed, but was purged
	Precondition             // the state is not the one the caller expects
	TooLarge                 // over a size limit
	Invalid                  // well-formed but wrong: Fields say where
	Unavailable              // not possible now, may be later
	NoSpace                  // the disk or a quota is full
)

// Error is a failure that the engine reports on purpose. Any other error is a bug or a broken disk: the server answers
// it with 500 and only logs its details.
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
	// Current is set for version_mismatch: the current version.
	Current *Current
}

// Current is the version of a thing whose precondition failed; version 0 means that it does not exist.
type Current struct {
	Version int
	ETag    string
}

// FieldError is one error in a request.
type FieldError struct {
	Index   *int   `json:"index,omitempty"` // of the message in its list; nil if the error is not in a message
	Field   string `json:"field,omitempty"`
	Pointer string `json:"pointer,omitempty"` // position in the body, as defined in RFC 6901
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Detail }

// Errorf returns an Error without fields.
func Errorf(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Detail: Words(format, args...)}
}

// Words is fmt.Sprintf for texts that a client reads: %q shortens a string to 128 bytes and puts it between quotes, but
// does not escape it, because the JSON encoder of the response does.
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
		quote = `"`
		if len(text) > longest {
			text = strings.ToValidUTF8(text[:longest], "") + "…"
		}
	}
	_, _ = io.WriteString(f, quote+text+quote)
}

// InvalidField returns an Error of kind Invalid about one field. The code applies to the field and to the whole
// request.
func InvalidField(field, code, format string, args ...any) *Error {
	detail := Words(format, args...)
	return &Error{Kind: Invalid, Code: code, Detail: field + ": " + detail,
		Fields: []FieldError{{Field: field, Code: code, Detail: detail}}}
}

// TooSmall returns the Error for a budget that cannot hold the mandatory messages.
func TooSmall(unit string, needed, allowed int, detail string) *Error {
	return &Error{Kind: Invalid, Code: "budget_too_small", Unit: unit, Needed: needed, Allowed: allowed, Detail: detail}
}

// MustStay is TooSmall for the mandatory messages, which every window must show.
func MustStay(unit string, needed, allowed int) *Error {
	return TooSmall(unit, needed, allowed, fmt.Sprintf(
		"the newest user message and the newest atom need %d %s, the budget allows %d", needed, unit, allowed))
}

// As returns the *Error in an error, if there is one.
func As(err error) (*Error, bool) { return errors.AsType[*Error](err) }

// IsNotFound reports whether an error says that something does not exist, or is outside the caller's reach.
func IsNotFound(err error) bool {
	known, ok := errors.AsType[*Error](err)
	return ok && known.Kind == NotFound
}
