package prefix

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// Digest names a JSON value, which must be valid. Two values have one digest where a provider reads the same from them:
// white space, escapes and the order of members do not matter, nor does cache_control. In the member input, which holds
// the arguments of a call, the order matters and nothing is left out, because the model wrote it that way.
func Digest(raw []byte) Hash {
	var few [512]byte
	c := canonical{raw: raw, out: slices.Grow(few[:0], len(raw)+32)}
	c.value(rawjson.SkipSpace(raw, 0), false)
	return sum(c.out)
}

// List names an array of blocks. One block alone is named as itself, because providers read a text as a list of it.
func List(raw []byte) Hash {
	var only []byte
	for from, to := range rawjson.Elements(raw) {
		if only != nil {
			return Digest(raw)
		}
		only = raw[from:to]
	}
	if only == nil {
		return Hash{}
	}
	return Digest(only)
}

// Text names a text block, as Digest names {"type":"text","text":…}.
func Text(s string) Hash {
	var few [512]byte
	out := appendText(append(slices.Grow(few[:0], len(s)+40), 'o', 2), "text")
	out = appendText(appendText(out, s), "type")
	return sum(appendText(out, "text"))
}

// Line names a text that is no JSON.
func Line(b []byte) Hash { return sum(b) }

func sum(b []byte) Hash {
	h := sha256.Sum256(b)
	return Hash(h[:len(Hash{})])
}

// canonical writes a value so that equal values give equal bytes and no two others do.
type canonical struct {
	raw []byte
	out []byte
}

func (c *canonical) tag(kind byte, n int) {
	c.out = binary.AppendUvarint(append(c.out, kind), uint64(n))
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(append(dst, 's'), uint64(len(s))), s...)
}

// value writes the value that begins at i, and gives its end. ordered says that members keep their order.
func (c *canonical) value(i int, ordered bool) int {
	switch c.raw[i] {
	case '"':
		end := rawjson.SkipString(c.raw, i)
		c.string(c.raw[i:end])
		return end
	case '[':
		return c.array(i, ordered)
	case '{':
		return c.object(i, ordered)
	}
	end := i
	for end < len(c.raw) && c.raw[end] != ',' && c.raw[end] != '}' && c.raw[end] != ']' && c.raw[end] > ' ' {
		end++
	}
	c.tag('n', end-i)
	c.out = append(c.out, c.raw[i:end]...)
	return end
}

func (c *canonical) string(raw []byte) {
	if bytes.IndexByte(raw, '\\') < 0 {
		c.tag('s', len(raw)-2)
		c.out = append(c.out, raw[1:len(raw)-1]...)
		return
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	c.out = appendText(c.out, s)
}

// array writes an array. The number of its elements is not known beforehand, so an end is written.
func (c *canonical) array(i int, ordered bool) int {
	c.out = append(c.out, 'a')
	for i = rawjson.SkipSpace(c.raw, i+1); c.raw[i] != ']'; {
		i = rawjson.SkipSpace(c.raw, c.value(i, ordered))
		if c.raw[i] == ',' {
			i = rawjson.SkipSpace(c.raw, i+1)
		}
	}
	c.out = append(c.out, 'e')
	return i + 1
}

// The names of the two members that count in a way of their own, as string writes them.
const (
	inputName      = "s\x05input"
	breakpointName = "s\x0dcache_control"
)

// member is a member of an object as it was written.
type member struct {
	name, value []byte
}

// object writes an object: its members one by one, then in the order of their names.
func (c *canonical) object(i int, ordered bool) int {
	start := len(c.out)
	var few [12]member
	members := few[:0]
	for i = rawjson.SkipSpace(c.raw, i+1); c.raw[i] != '}'; {
		at := len(c.out)
		end := rawjson.SkipString(c.raw, i)
		c.string(c.raw[i:end])
		named := len(c.out)
		name := string(c.out[at:named])
		i = rawjson.SkipSpace(c.raw, rawjson.SkipSpace(c.raw, end)+1)
		i = rawjson.SkipSpace(c.raw, c.value(i, ordered || name == inputName))
		if !ordered && name == breakpointName {
			c.out = c.out[:at]
		} else {
			members = append(members, member{c.out[at:named], c.out[named:]})
		}
		if c.raw[i] == ',' {
			i = rawjson.SkipSpace(c.raw, i+1)
		}
	}
	// out may have moved while it grew; what was written before is unchanged in the old array, which members name.
	sorted := make([]byte, 0, len(c.out)-start+4)
	if !ordered {
		slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	}
	for _, m := range members {
		sorted = append(append(sorted, m.name...), m.value...)
	}
	c.out = c.out[:start]
	c.tag('o', len(members))
	c.out = append(c.out, sorted...)
	return i + 1
}
