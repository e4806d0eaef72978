package plan

import (
	"encoding/json"
	"fmt"
)

// Policy is a module that passed all checks and can be called.
type Policy struct {
	Digest   Digest
	Manifest Manifest
	Size     int     // in bytes, as uploaded
	Checks   []Check // all that it passed
}

// Check is one of the checks that a module must pass before it may run.
type Check struct {
	Name   string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Refusal is the error for a module that may not run. Check is the check that it failed. Found and Limit are set if the
// check counts something, and Detail otherwise.
type Refusal struct {
	Check        string
	Found, Limit int64
	Detail       string
}

func (r *Refusal) Error() string {
	if r.Detail != "" {
		return fmt.Sprintf("module refused: %s: %s", r.Check, r.Detail)
	}
	return fmt.Sprintf("module refused: %s: %d is over the limit of %d", r.Check, r.Found, r.Limit)
}

// Manifest is what a module says about itself, in its custom section `mneme.policy`.
type Manifest struct {
	ABI         string             `json:"abi"` // "major.minor"
	Hooks       []string           `json:"hooks"`
	Name        string             `json:"name,omitempty"`    // for people; the policy is known by the name given at upload
	Version     string             `json:"version,omitempty"` // for people; the server numbers versions itself
	Description string             `json:"description,omitempty"`
	Schema      map[string]Setting `json:"config,omitempty"`
	Tests       []json.RawMessage  `json:"tests,omitempty"` // not decoded here; the engine runs them at upload
}

// Setting is the schema of one config key.
type Setting struct {
	Type        string            `json:"type"` // integer, number, boolean or string
	Default     json.RawMessage   `json:"default,omitempty"`
	Minimum     *json.Number      `json:"minimum,omitempty"` // integer and number
	Maximum     *json.Number      `json:"maximum,omitempty"`
	Enum        []json.RawMessage `json:"enum,omitempty"`
	Description string            `json:"description,omitempty"`
}
