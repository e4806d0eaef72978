package prefix

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Trace is what is stored of a window so that the next one can be compared with it: four bytes per part.
type Trace struct {
	Parts  []uint32 // the base, and then each part, by Short
	Stored int      // how many of them are not pending messages
	Tokens uint64   // of the window
	End    Place    // after the last part
	// Made are the places at which its pending thinking was made.
	Made []Place
}

// Shared returns the number of parts at the beginning that both have in common.
func (t *Trace) Shared(parts []uint32) int {
	n := 0
	for n < len(t.Parts) && n < len(parts) && t.Parts[n] == parts[n] {
		n++
	}
	return n
}

// At returns the place at which thinking was made that is now at the given place, if the previous window ended or
// showed it there; nil if unknown.
func (t *Trace) At(now *Place) *Place {
	if t == nil {
		return nil
	}
	if t.End.Known() && t.End.Equal(now) {
		return &t.End
	}
	for i := range t.Made {
		if t.Made[i].Equal(now) {
			return &t.Made[i]
		}
	}
	return nil
}

const traceVersion = 1

// Append appends the encoded trace.
func (t *Trace) Append(dst []byte) []byte {
	dst = append(slices.Grow(dst, 64+Size*len(t.Made)+4*len(t.Parts)), traceVersion)
	for _, n := range [...]uint64{t.Tokens, uint64(t.Stored), uint64(len(t.Made)), uint64(len(t.Parts))} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = t.End.Append(dst)
	for i := range t.Made {
		dst = t.Made[i].Append(dst)
	}
	for _, p := range t.Parts {
		dst = binary.LittleEndian.AppendUint32(dst, p)
	}
	return dst
}

// ParseTrace decodes what Append encoded.
func ParseTrace(b []byte) (*Trace, error) {
	bad := errors.New("a window's trace does not parse")
	if len(b) == 0 || b[0] != traceVersion {
		return nil, bad
	}
	b = b[1:]
	var counts [4]uint64
	for i := range counts {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, bad
		}
		counts[i], b = n, b[size:]
	}
	made, parts := counts[2], counts[3]
	if most := uint64(len(b)); made > most || parts > most || counts[1] > parts || most != Size+made*Size+parts*4 {
		return nil, bad
	}
	t := &Trace{Tokens: counts[0], Stored: int(counts[1]), End: Parse(b), Parts: make([]uint32, parts)}
	b = b[Size:]
	for range made {
		t.Made = append(t.Made, Parse(b))
		b = b[Size:]
	}
	for i := range t.Parts {
		t.Parts[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return t, nil
}
