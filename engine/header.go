package engine

import (
	"encoding/binary"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// header is what planning needs of a stored message, packed apart from its body. Token counts are per entry of
// Encodings, counted once, at write.
type header struct {
	seq        uint64 // counts the session's messages from 1
	call       uint64 // seq of the call that a result answers; the message's own seq elsewhere
	created    int64  // ms since 1970
	turn       uint32
	tokens     [2]uint32 // of the message
	content    [2]uint32 // of its shown text alone
	compressed [2]uint32 // as an earlier question; users' only
	textBytes  uint32
	bodyBytes  uint32 // of the body record
	calls      uint16 // number of tool calls that a call message makes
	callIndex  uint16 // which of them a result answers
	flags      plan.Flags
	role       plan.Role
	kind       plan.Kind

	agent, delegation, tool string
	tags                    []string
}

// atomStart tells whether the message begins an atom.
func (h *header) atomStart() bool { return h.call == h.seq }

const (
	headerVersion = 1
	headerSize    = 3*8 + 4 + 3*8 + 2*4 + 2*2 + 2 + 2 + 4*2 + 2
)

var errBadHeaders = errors.New("a packed header record does not parse")

// appendHeaders packs the headers of one turn: version, counts, a string table, then fixed-size entries.
func appendHeaders(dst []byte, hs []header) []byte {
	ids := map[string]uint16{"": 0}
	strings := []string{""}
	id := func(s string) uint16 {
		n, ok := ids[s]
		if !ok {
			n = uint16(len(strings))
			ids[s], strings = n, append(strings, s)
		}
		return n
	}
	fixed := make([]byte, 0, len(hs)*headerSize)
	var tags []byte
	le := binary.LittleEndian
	for i := range hs {
		h := &hs[i]
		fixed = le.AppendUint64(fixed, h.seq)
		fixed = le.AppendUint64(fixed, h.call)
		fixed = le.AppendUint64(fixed, uint64(h.created))
		fixed = le.AppendUint32(fixed, h.turn)
		for _, pair := range [...][2]uint32{h.tokens, h.content, h.compressed} {
			fixed = le.AppendUint32(le.AppendUint32(fixed, pair[0]), pair[1])
		}
		fixed = le.AppendUint32(le.AppendUint32(fixed, h.textBytes), h.bodyBytes)
		fixed = le.AppendUint16(le.AppendUint16(fixed, h.calls), h.callIndex)
		fixed = le.AppendUint16(fixed, uint16(h.flags))
		fixed = append(fixed, byte(h.role), byte(h.kind))
		fixed = le.AppendUint16(le.AppendUint16(le.AppendUint16(fixed, id(h.agent)), id(h.delegation)), id(h.tool))
		fixed = le.AppendUint16(le.AppendUint16(fixed, uint16(len(tags)/2)), uint16(len(h.tags)))
		for _, tag := range h.tags {
			tags = le.AppendUint16(tags, id(tag))
		}
	}
	dst = append(dst, headerVersion)
	dst = le.AppendUint16(dst, uint16(len(hs)))
	dst = le.AppendUint16(dst, uint16(len(strings)-1))
	dst = le.AppendUint16(dst, uint16(len(tags)/2))
	for _, s := range strings[1:] {
		dst = append(le.AppendUint16(dst, uint16(len(s))), s...)
	}
	return append(append(dst, tags...), fixed...)
}

// parseHeaders unpacks what appendHeaders packed and returns what follows it.
func parseHeaders(b []byte) (hs []header, rest []byte, err error) {
	le := binary.LittleEndian
	if len(b) < 7 || b[0] != headerVersion {
		return nil, nil, errBadHeaders
	}
	n, nstrings, ntags := int(le.Uint16(b[1:])), int(le.Uint16(b[3:])), int(le.Uint16(b[5:]))
	b = b[7:]
	strings := make([]string, 1, nstrings+1)
	for range nstrings {
		if len(b) < 2 || len(b) < 2+int(le.Uint16(b)) {
			return nil, nil, errBadHeaders
		}
		size := 2 + int(le.Uint16(b))
		strings = append(strings, string(b[2:size]))
		b = b[size:]
	}
	if len(b) < 2*ntags+n*headerSize {
		return nil, nil, errBadHeaders
	}
	tags, b := b[:2*ntags], b[2*ntags:]
	hs = make([]header, n)
	for i := range hs {
		h, f := &hs[i], b[i*headerSize:(i+1)*headerSize]
		h.seq, h.call, h.created = le.Uint64(f), le.Uint64(f[8:]), int64(le.Uint64(f[16:]))
		h.turn = le.Uint32(f[24:])
		for j, pair := range [...]*[2]uint32{&h.tokens, &h.content, &h.compressed} {
			pair[0], pair[1] = le.Uint32(f[28+8*j:]), le.Uint32(f[32+8*j:])
		}
		f = f[52:]
		h.textBytes, h.bodyBytes = le.Uint32(f), le.Uint32(f[4:])
		h.calls, h.callIndex = le.Uint16(f[8:]), le.Uint16(f[10:])
		h.flags, h.role, h.kind = plan.Flags(le.Uint16(f[12:])), plan.Role(f[14]), plan.Kind(f[15])
		agent, delegation, tool := int(le.Uint16(f[16:])), int(le.Uint16(f[18:])), int(le.Uint16(f[20:]))
		at, count := int(le.Uint16(f[22:])), int(le.Uint16(f[24:]))
		if max(agent, delegation, tool) > nstrings || at+count > ntags {
			return nil, nil, errBadHeaders
		}
		h.agent, h.delegation, h.tool = strings[agent], strings[delegation], strings[tool]
		for j := range count {
			tag := int(le.Uint16(tags[2*(at+j):]))
			if tag > nstrings {
				return nil, nil, errBadHeaders
			}
			h.tags = append(h.tags, strings[tag])
		}
	}
	return hs, b[n*headerSize:], nil
}
