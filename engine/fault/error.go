package fault

import (
	"errors"
	"fmt"

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
	TooLarge                 // over a limit on size
	Invalid                  // readable but wrong: Fields say where
	Unavailable              // cannot be done now, may be later
	NoSpace                  // the disk or a quota is full
)

// Error is every failure that leaves the engine on purpose. Code is stable and meant for programs, Detail says what
// was wrong, where, and what to do.
type Error struct {
	Kind   Kind
	Code   string
	Detail string
	Fields []FieldError
	// Needed and Allowed are set for budget_too_small, in Unit ("tokens" or "messages").
	Needed, Allowed int
	Unit            string
	// Refusal is set for module_refused: the check that a module failed.
	Refusal *plan.Refusal
}

// FieldError places one fault inside a request. Index is the message's place in its list, nil elsewhere.
type FieldError struct {
	Index  *int   `json:"index,omitempty"`
	Field  string `json:"field,omitempty"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Detail }

func Errorf(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Detail: fmt.Sprintf(format, args...)}
}

func InvalidField(field, code, format string, args ...any) *Error {
	detail := fmt.Sprintf(format, args...)
	return &Error{Kind: Invalid, Code: code, Detail: field + ": " + detail,
		Fields: []FieldError{{Field: field, Code: code, Detail: detail}}}
}

func IsNotFound(err error) bool {
	known, ok := errors.AsType[*Error](err)
	return ok && known.Kind == NotFound
}
