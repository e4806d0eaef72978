package wire

import (
	"bytes"
	"regexp"
	"slices"
)

// halves joins UTF-16 pairs that a provider has split over two events, such as "\ud83d" and "\ude00". Decoded one by one,
// both would be U+FFFD.
type halves struct {
	high []byte // the escape of a first half that ended a string of an earlier event; nil: none
}

// The escape of a first half at the end of a string, and of a second one at the beginning. A backslash before an escape
// or a quote is part of the text.
var (
	highAtEnd  = regexp.MustCompile(`(?:^|[^\\])(?:\\\\)*(\\u[dD][89aAbB][0-9a-fA-F]{2})"`)
	lowAtStart = regexp.MustCompile(`[^\\]"(\\u[dD][c-fC-F][0-9a-fA-F]{2})`)
)

// join returns an event's data with the missing first half of a pair added, and with a first half at the end held back
// until its second half arrives.
func (h *halves) join(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\ud`)) && !bytes.Contains(data, []byte(`\uD`)) {
		return data
	}
	if at := lowAtStart.FindSubmatchIndex(data); at != nil && h.high != nil {
		data = slices.Concat(data[:at[2]], h.high, data[at[2]:])
		h.high = nil
	}
	if at := highAtEnd.FindSubmatchIndex(data); at != nil {
		h.high = bytes.Clone(data[at[2]:at[3]])
		data = slices.Concat(data[:at[2]], data[at[3]:])
	}
	return data
}
