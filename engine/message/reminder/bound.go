package reminder

import (
	"encoding/binary"
	"encoding/json"
	"errors"
)

// Bound is a reminder stored with the user message that it was shown for, so that later windows show it there again.
type Bound struct {
	// Before is the number of the user message; 0 means the message that the reminder is stored with.
	Before   uint64   `json:"before,omitempty"`
	AsSystem bool     `json:"as_system,omitempty"`
	Words    uint32   `json:"words"`    // of its text, before scaling
	Encoding uint8    `json:"encoding"` // in which Words were counted
	Memories []Memory `json:"memories"`
	Style    uint8    `json:"style,omitempty"` // of its text
	// Of is a hash of the message while it is pending, and Asked a hash of the query. The next window recognises them
	// by these.
	Of    uint64 `json:"of,omitempty"`
	Asked uint64 `json:"asked,omitempty"`
}

// Current is the reminder that a window shows before the newest user message.
type Current struct {
	Bound
	Pending int  `json:"pending"`         // the message's index among the pending ones; -1 if it was stored
	Again   bool `json:"again,omitempty"` // the previous window showed it, too
}

var errBadBound = errors.New("a packed reminder does not parse")

// Append appends the encoded reminder: the length of its JSON, and the JSON.
func (b *Bound) Append(dst []byte) []byte {
	packed, err := json.Marshal(b)
	if err != nil { // cannot fail: all fields are numbers and strings
		panic(err)
	}
	return append(binary.AppendUvarint(dst, uint64(len(packed))), packed...)
}

// ParseBound decodes what Append encoded, and returns the remaining bytes.
func ParseBound(b []byte) (*Bound, []byte, error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, errBadBound
	}
	out := new(Bound)
	if json.Unmarshal(b[size:size+int(n)], out) != nil {
		return nil, nil, errBadBound
	}
	return out, b[size+int(n):], nil
}
