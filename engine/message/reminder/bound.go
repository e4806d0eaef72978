package reminder

import (
	"encoding/binary"
	"encoding/json"
	"errors"
)

// Bound is a reminder as a session keeps it with the user's message that it was shown for, so that later windows show
// it there again.
type Bound struct {
	// Before is the number of the user's message; 0: the message that has the reminder.
	Before   uint64   `json:"before,omitempty"`
	AsSystem bool     `json:"as_system,omitempty"`
	Words    uint32   `json:"words"`    // of its text, in tokens before they are scaled
	Encoding uint8    `json:"encoding"` // that Words were counted in
	Memories []Memory `json:"memories"`
	Style    uint8    `json:"style,omitempty"` // of its text
	// Of is a hash of the message while it is pending, and Asked one of what was asked for, by which the next window
	// knows them again.
	Of    uint64 `json:"of,omitempty"`
	Asked uint64 `json:"asked,omitempty"`
}

// Current is what a window shows before the newest user message.
type Current struct {
	Bound
	Pending int  `json:"pending"`         // the message's index among the pending ones; -1: it was stored
	Again   bool `json:"again,omitempty"` // the window before showed it, too
}

var errBadBound = errors.New("a packed reminder does not parse")

// Append packs the reminder: the length of its JSON, and its JSON.
func (b *Bound) Append(dst []byte) []byte {
	packed, err := json.Marshal(b)
	if err != nil { // all of it is numbers and strings
		panic(err)
	}
	return append(binary.AppendUvarint(dst, uint64(len(packed))), packed...)
}

// ParseBound unpacks what Append packed, and gives the bytes behind it.
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
