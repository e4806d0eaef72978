// Package prefix names the beginnings of prompts. Providers bill a prompt by the part that it shares with the one before
// it, and newer models accept a thinking block only behind the very system prompt, tools and messages that it was made
// behind. Both questions are about what stands before a place in a window, so both are answered by one rolling hash.
//
// The hard idea is what the hash leaves out. Thinking is not part of it, because providers let thinking be left out at
// the front of a conversation: a block is valid behind the same messages, whether older thinking is still there or
// not. What must not change is the block right before it, so each place names that block beside the hash. Breakpoints
// of caches (cache_control) are left out too, because they may come and go.
//
// Everything here is a pure function of its arguments.
package prefix

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/bits"
)

// Hash names what stands before a place, or one block. The zero Hash is nothing.
type Hash [16]byte

// Kind says how a block counts.
type Kind uint8

const (
	// Content is all that is neither of the others.
	Content Kind = iota
	// Thinking is a thinking or redacted_thinking block, or a reasoning item.
	Thinking
	// Restart is a block that makes the provider ignore all messages before it: a compaction block without a
	// signature.
	Restart
)

// Part is one block of a rendered window: a content block of Anthropic's, an item of OpenAI's Responses, or a message.
type Part struct {
	Digest Hash // by Digest or Text, with the role by As
	Kind   Kind
}

// ID names a thinking block for the one behind it.
func (p *Part) ID() uint64 { return binary.LittleEndian.Uint64(p.Digest[:]) | 1 }

// Short is enough of a part to tell it from another in the same place of another window.
func (p *Part) Short() uint32 { return binary.LittleEndian.Uint32(p.Digest[8:]) }

// As is the digest of a block that a role says.
func (h Hash) As(role byte) Hash {
	for i := range h {
		h[i] ^= role * byte(2*i+1)
	}
	return h
}

// Mix makes a digest that of a block with something else beside it.
func (h *Hash) Mix(other Hash) {
	for i := range h {
		h[i] ^= bits.RotateLeft8(other[i], 3)
	}
}

// Place is a place in a prompt: what stands before it.
type Place struct {
	// State is the rolling hash of the system prompt and of each block but thinking.
	State Hash
	// Thought names the thinking block right before the place, by its ID; 0: there is none.
	Thought uint64
	// Tools names the list of tools; 0: it is not known.
	Tools uint64
}

// Known tells whether anything is known of the place.
func (p *Place) Known() bool { return p.State != Hash{} }

// Equal tells whether what was made at p is valid at now, as far as the messages go. Tools that one of them does not
// know count as unchanged.
func (p *Place) Equal(now *Place) bool {
	return p.State == now.State && (p.Tools == now.Tools || p.Tools == 0 || now.Tools == 0)
}

// Walk is a walk along a prompt.
type Walk struct {
	Place
	base Hash
}

// Start begins before the first message, behind the system prompt and the tools. A zero hash is none.
func Start(system, tools Hash) Walk {
	w := Walk{base: fold(Hash{}, system)}
	w.State = w.base
	if tools != (Hash{}) {
		w.Tools = binary.LittleEndian.Uint64(tools[:]) | 1
	}
	return w
}

// From goes on from a place that was reached before. Where it meets a restart, the state is no longer known to be
// that of a walk from the start.
func From(p Place) Walk { return Walk{Place: p, base: p.State} }

// Add goes past a block.
func (w *Walk) Add(p *Part) {
	switch p.Kind {
	case Thinking:
		w.Thought = p.ID()
		return
	case Restart:
		w.State, w.Thought = w.base, 0
	}
	w.State = fold(w.State, p.Digest)
}

// fold is the step of MurmurHash3 for 128 bits. Each of the two arguments alone decides the result where the other stays
// the same, so a difference never vanishes by itself. Blocks come in as sums of SHA-256; whoever made two prompts meet
// on purpose would have only the thinking of a conversation of their own refused.
func fold(state, digest Hash) (out Hash) {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	le := binary.LittleEndian
	h1, h2, k1, k2 := le.Uint64(state[:]), le.Uint64(state[8:]), le.Uint64(digest[:]), le.Uint64(digest[8:])
	h1 = bits.RotateLeft64(h1^bits.RotateLeft64(k1*c1, 31)*c2, 27) + h2
	h1 = h1*5 + 0x52dce729
	h2 = bits.RotateLeft64(h2^bits.RotateLeft64(k2*c2, 33)*c1, 31) + h1
	h2 = h2*5 + 0x38495ab5
	le.PutUint64(out[:], h1)
	le.PutUint64(out[8:], h2)
	return out
}

// Size is how many bytes a place takes where it is stored.
const Size = 32

// Append appends a place as it is stored.
func (p *Place) Append(dst []byte) []byte {
	dst = append(dst, p.State[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, p.Thought)
	return binary.LittleEndian.AppendUint64(dst, p.Tools)
}

// Parse reads what Append wrote. b has at least Size bytes.
func Parse(b []byte) Place {
	return Place{Hash(b), binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])}
}

// MarshalText writes a place in a JSON string.
func (p Place) MarshalText() ([]byte, error) {
	var b [Size]byte
	return base64.RawURLEncoding.AppendEncode(nil, p.Append(b[:0])), nil
}

// UnmarshalText reads what MarshalText wrote.
func (p *Place) UnmarshalText(text []byte) error {
	b, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(b) != Size {
		return errors.New("a place in a prompt must be 32 bytes in URL-safe base64 without padding")
	}
	*p = Parse(b)
	return nil
}
