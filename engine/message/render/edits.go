package render

import (
	"encoding/binary"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// Edits are what an Anthropic window removes from its blocks, or adds to them. The zero Edits changes nothing.
type Edits struct {
	// Thinking reports, for each thinking block in order, whether it is kept; nil means all are.
	Thinking []bool
	// Marks reports, for each posted breakpoint in order, whether it is kept; nil means all are.
	Marks []bool
	// Breakpoints are the parts that get a breakpoint, by index, ascending.
	Breakpoints []int
	// SystemBreakpoint gives the system prompt a breakpoint.
	SystemBreakpoint bool
	// Uncited disables the citations of all documents and search results. Anthropic requires that either all of a request
	// have them or none.
	Uncited bool
}

// Append appends bytes that identify the edits.
func (e *Edits) Append(dst []byte) []byte {
	for _, list := range [...][]bool{e.Thinking, e.Marks, {e.SystemBreakpoint}} {
		dst = append(dst, 'e')
		for _, ok := range list {
			if ok {
				dst = append(dst, 1)
				continue
			}
			dst = append(dst, 0)
		}
	}
	if e.Uncited {
		dst = append(dst, 'c')
	}
	for _, n := range e.Breakpoints {
		dst = binary.LittleEndian.AppendUint32(append(dst, 'b'), uint32(n))
	}
	return dst
}

// Placed is a part of a window, in order.
type Placed struct {
	prefix.Part
	Item    int32 // the window's entry that it shows, in the order in which they were added; -1 if none
	Message int32 // the element of the messages that contains it
}

// uncited replaces the value that enables a document's citations.
const uncited = `{"enabled":false}`

// breakpoint is added to a block before its closing brace.
const breakpoint = `,"cache_control":{"type":"ephemeral"}`

// replacement replaces blocks[start:end] of a fragment.
type replacement struct {
	start, end int
	with       string
}

// edit is the change to one fragment's blocks in a window.
type edit struct {
	drop         []bool        // by block; nil if none is dropped
	replacements []replacement // ascending
	changed      bool
}

func (e *edit) reset() {
	e.drop, e.replacements, e.changed = e.drop[:0], e.replacements[:0], false
}

// note appends the parts of an added fragment, and computes its edit.
func (b *Builder) note(fr *Fragment, ids *windowIDs, message int) {
	e := &b.run.edit
	e.reset()
	first := len(b.Parts)
	for i := range fr.Parts {
		p := &fr.Parts[i]
		if p.Kind == prefix.Thinking && fr.Format == AnthropicMessages {
			b.thinking++
			if n := b.thinking - 1; n < len(b.Edits.Thinking) && !b.Edits.Thinking[n] {
				if e.drop = slices.Grow(e.drop, len(fr.Parts)); len(e.drop) == 0 {
					e.drop = append(e.drop, make([]bool, len(fr.Parts))...)
				}
				e.drop[i], e.changed = true, true
				continue
			}
		}
		placed := Placed{Part: p.Part, Item: b.item, Message: int32(message)}
		if fr.Format != AnthropicMessages {
			placed.Message += int32(i)
		}
		if slices.Contains(b.Edits.Breakpoints, len(b.Parts)) && fr.Format == AnthropicMessages {
			end := int(p.End) - 1
			e.replacements = append(e.replacements, replacement{end, end, breakpoint})
		}
		b.Parts = append(b.Parts, placed)
	}
	for i := range fr.Marks {
		m := &fr.Marks[i]
		b.Marks = append(b.Marks, m.Long)
		if n := len(b.Marks) - 1; n < len(b.Edits.Marks) && !b.Edits.Marks[n] {
			e.replacements = append(e.replacements, replacement{int(m.Start), int(m.End), ""})
		}
	}
	b.Cited, b.Uncited = b.Cited || len(fr.Cited) > 0, b.Uncited || fr.Uncited
	changes := ids.renamed
	if b.Edits.Uncited {
		for _, at := range fr.Cited {
			e.replacements, changes = append(e.replacements, replacement{int(at.Start), int(at.End), uncited}), true
		}
	}
	for i, name := range ids.names {
		if id := &fr.IDs[i]; name != id.ID {
			e.replacements = append(e.replacements,
				replacement{id.Start, id.End, string(rawjson.AppendString(nil, name))})
		}
	}
	if len(e.replacements) == 0 {
		return
	}
	e.changed = true
	slices.SortFunc(e.replacements, func(x, y replacement) int { return x.start - y.start })
	if changes {
		b.rehash(fr, b.Parts[first:])
	}
}

// rehash hashes the blocks as the window shows them.
func (b *Builder) rehash(fr *Fragment, placed []Placed) {
	e, json, role := &b.run.edit, fr.Blocks, RoleByte(fr.Role)
	if fr.Format != AnthropicMessages {
		json, role = fr.Bytes, 0
	}
	for i := range fr.Parts {
		if e.dropped(i) {
			continue
		}
		p := &fr.Parts[i]
		if raw := e.apply(nil, json, int(p.Start), int(p.End)); len(raw) > 0 {
			placed[0].Digest = prefix.Digest(raw).As(role)
		}
		placed = placed[1:]
	}
}

func (e *edit) dropped(block int) bool { return block < len(e.drop) && e.drop[block] }

// apply appends blocks[from:to] with its replacements.
func (e *edit) apply(dst, blocks []byte, from, to int) []byte {
	for _, r := range e.replacements {
		if r.start < from || r.end > to {
			continue
		}
		dst = append(append(dst, blocks[from:r.start]...), r.with...)
		from = r.end
	}
	return append(dst, blocks[from:to]...)
}

// LatestMarks returns which cache breakpoints to keep: the last ones, at most room of them. long reports for each
// whether its ttl is an hour. A breakpoint of an hour must not follow one of five minutes, so shorter ones before it
// are dropped.
func LatestMarks(long []bool, room int) []bool {
	keep, hour := make([]bool, len(long)), false
	for i := len(long) - 1; i >= 0 && room > 0; i-- {
		if hour && !long[i] {
			continue
		}
		keep[i], hour = true, hour || long[i]
		room--
	}
	return keep
}
