package prefix

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// Digest returns the hash of a valid JSON value. Two values have the same digest if they mean the same to a provider:
// white space, escapes, the order of members, and cache_control do not matter. In the member input, which holds the
// arguments of a call, the order matters and nothing is ignored, because the model wrote it that way.
func Digest(raw []byte) Hash {
	var few [512]byte
	c := canonical{raw: raw, out: slices.Grow(few[:0], len(raw)+32)}
	c.value(rawjson.SkipSpace(raw, 0), false)
	return sum(c.out)
}

// List returns the hash of an array of blocks. An array of one block has the hash of the block, because providers treat
// a text as a list with one block.
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

// Text returns the hash of a text block, equal to Digest of {"type":"text","text":…}.
func Text(s string) Hash {
	var few [512]byte
	out := appendText(append(slices.Grow(few[:0], len(s)+40), 'o', 2), "text")
	out = appendText(appendText(out, s), "type")
	return sum(appendText(out, "text"))
}

// Line returns the hash of a text that is not JSON.
func Line(b []byte) Hash { return sum(b) }

func sum(b []byte) Hash {
	h := sha256.Sum256(b)
	return Hash(h[:len(Hash{})])
}

// canonical encodes values so that equal values, and only those, have equal bytes.
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

// value encodes the value that begins at i, and returns its end. ordered means that members keep their order.
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

// array encodes an array. The number of elements is not known in advance, so the end is marked.
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

// The names of the two members that are treated specially, as string encodes them.
const (
	inputName      = "s\x05input"
	breakpointName = "s\x0dcache_control"
)

// member is an encoded member of an object.
type member struct {
	name, value []byte
}

// object encodes an object: first its members one by one, then all of them sorted by name.
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
	// out may have been reallocated while it grew. The members refer to the old array, whose contents did not change.
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
