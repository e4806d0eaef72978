package ident

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// Metadata are strings, numbers and booleans by name, as JSON. Programs filter by them.
type Metadata = map[string]json.RawMessage

// The limits of metadata.
const (
	maxMetadata      = 64       // names
	maxMetadataBytes = 16 << 10 // of names and values
	maxMetadataName  = 128      // bytes
)

// CheckMetadata checks metadata against their limits, and returns them without the names whose value is null, as if they
// were absent; nil if none is left. It returns invalid_value, too_many and too_long.
func CheckMetadata(field string, m Metadata) (Metadata, error) {
	kept := Metadata{}
	size := 0
	for name, raw := range m {
		if name == "" || len(name) > maxMetadataName || name[0] == '$' || !utf8.ValidString(name) ||
			strings.ContainsFunc(name, unicode.IsControl) {
			return nil, fault.InvalidField(field, "invalid_value",
				"each name must be 1 to %d bytes without control characters, and not begin with $", maxMetadataName)
		}
		raw = bytes.TrimSpace(raw)
		if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' {
			return nil, fault.InvalidField(field, "invalid_value",
				"%s: must be a string, a number or a boolean; arrays and objects are not allowed", name)
		}
		if string(raw) != "null" {
			kept[name], size = raw, size+len(name)+len(raw)
		}
	}
	if len(kept) > maxMetadata {
		return nil, fault.InvalidField(field, "too_many", "there are %d names, and the limit is %d", len(kept), maxMetadata)
	}
	if size > maxMetadataBytes {
		return nil, fault.InvalidField(field, "too_long", "has %d bytes, and the limit is %d", size, maxMetadataBytes)
	}
	if len(kept) == 0 {
		return nil, nil
	}
	return kept, nil
}
