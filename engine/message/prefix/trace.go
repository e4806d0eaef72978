package prefix

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Trace is what is kept of a window so that the next one can be compared with it: four bytes for each part.
type Trace struct {
	Parts  []uint32 // the base, and then each part, by Short
	Stored int      // how many of them are not pending messages
	Tokens uint64   // of the window
	End    Place    // behind the last part
	// Replies are the pending replies that the window showed.
	Replies []Reply
}

// Reply is a pending reply of a window.
type Reply struct {
	ID   uint64 // Part.ID of its last part that is not thinking
	Made Place  // where its thinking was made; the zero Place if it has none or nobody knows
}

// Shared returns the number of parts at the beginning that both have in common.
func (t *Trace) Shared(parts []uint32) int {
	n := 0
	for n < len(t.Parts) && n < len(parts) && t.Parts[n] == parts[n] {
		n++
	}
	return n
}

// Reply returns the window's pending reply with the given ID, or nil.
func (t *Trace) Reply(id uint64) *Reply {
	if t == nil {
		return nil
	}
	for i := range t.Replies {
		if t.Replies[i].ID == id {
			return &t.Replies[i]
		}
	}
	return nil
}

// traceVersion is the version that Append writes. Version 1 had no reply IDs.
const traceVersion = 2

// Append appends the encoded trace.
func (t *Trace) Append(dst []byte) []byte {
	dst = append(slices.Grow(dst, 64+(9+Size)*len(t.Replies)+4*len(t.Parts)), traceVersion)
	for _, n := range [...]uint64{t.Tokens, uint64(t.Stored), uint64(len(t.Replies)), uint64(len(t.Parts))} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = t.End.Append(dst)
	for i := range t.Replies {
		r := &t.Replies[i]
		dst = binary.LittleEndian.AppendUint64(dst, r.ID)
		if !r.Made.Known() {
			dst = append(dst, 0)
			continue
		}
		dst = r.Made.Append(append(dst, 1))
	}
	for _, p := range t.Parts {
		dst = binary.LittleEndian.AppendUint32(dst, p)
	}
	return dst
}

var errTrace = errors.New("a window's trace does not parse")

// ParseTrace decodes the result of Append. A trace of version 1 does not say which replies it is about, so it is read
// without them and without its end: thinking made after it then counts as made after an unknown prompt.
func ParseTrace(b []byte) (*Trace, error) {
	if len(b) == 0 || b[0] < 1 || b[0] > traceVersion {
		return nil, errTrace
	}
	version := b[0]
	b = b[1:]
	var counts [4]uint64
	for i := range counts {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, errTrace
		}
		counts[i] = n
		b = b[size:]
	}
	replies, parts := counts[2], counts[3]
	if most := uint64(len(b)); replies > most || parts > most || counts[1] > parts || len(b) < Size {
		return nil, errTrace
	}
	t := &Trace{Tokens: counts[0], Stored: int(counts[1]), End: Parse(b), Parts: make([]uint32, parts)}
	b = b[Size:]
	if version == 1 {
		if uint64(len(b)) < replies*Size {
			return nil, errTrace
		}
		t.End = Place{}
		b = b[replies*Size:]
		replies = 0
	}
	for range replies {
		r, size := parseReply(b)
		if size == 0 {
			return nil, errTrace
		}
		t.Replies = append(t.Replies, r)
		b = b[size:]
	}
	if uint64(len(b)) != parts*4 {
		return nil, errTrace
	}
	for i := range t.Parts {
		t.Parts[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return t, nil
}

// parseReply reads one reply and returns its size, 0 if it does not parse.
func parseReply(b []byte) (r Reply, size int) {
	const head = 9
	switch {
	case len(b) < head || b[head-1] > 1:
		return r, 0
	case b[head-1] == 1 && len(b) < head+Size:
		return r, 0
	}
	r.ID = binary.LittleEndian.Uint64(b)
	if b[head-1] == 0 {
		return r, head
	}
	r.Made = Parse(b[head:])
	return r, head + Size
}
