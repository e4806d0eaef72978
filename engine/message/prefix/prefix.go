// Package prefix hashes the beginnings of prompts. Providers bill a prompt by the part that it shares with the previous
// one, and newer models accept a thinking block only after the same system prompt, tools and messages that it was made
// after. Both depend on what precedes a position in a window, so one rolling hash serves both.
//
// The hash ignores thinking, because providers allow older thinking to be left out: a block is valid after the same
// messages, with or without older thinking. Only the thinking block right before it must be the same, so each Place
// contains that block's id besides the hash. The hash also ignores cache breakpoints (cache_control), which may come
// and go.
//
// All functions here are pure.
package prefix

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/bits"
)

// Hash identifies what precedes a position, or one block. The zero Hash means nothing.
type Hash [16]byte

// Kind says how a block is hashed.
type Kind uint8

const (
	// Content is any other block.
	Content Kind = iota
	// Thinking is a thinking or redacted_thinking block, or a reasoning item.
	Thinking
	// Restart is a block that makes the provider ignore all messages before it: a compaction block without a signature.
	Restart
)

// Part is one block of a rendered window: a content block in Anthropic's format, an item in OpenAI's Responses, or a
// message.
type Part struct {
	Digest Hash // from Digest or Text, combined with the role by As
	Kind   Kind
}

// ID returns the id by which the next block refers to a thinking block.
func (p *Part) ID() uint64 { return binary.LittleEndian.Uint64(p.Digest[:]) | 1 }

// Short returns enough of the digest to compare parts at the same position of two windows.
func (p *Part) Short() uint32 { return binary.LittleEndian.Uint32(p.Digest[8:]) }

// As returns the digest of a block with a role.
func (h Hash) As(role byte) Hash {
	for i := range h {
		h[i] ^= role * byte(2*i+1)
	}
	return h
}

// Mix combines the digest with another one.
func (h *Hash) Mix(other Hash) {
	for i := range h {
		h[i] ^= bits.RotateLeft8(other[i], 3)
	}
}

// Place describes what precedes a position in a prompt.
type Place struct {
	// State is the rolling hash of the system prompt and all blocks except thinking.
	State Hash
	// Thought is the ID of the thinking block right before the position; 0 if there is none.
	Thought uint64
	// Tools identifies the list of tools; 0 if unknown.
	Tools uint64
}

// Known reports whether the place is known.
func (p *Place) Known() bool { return p.State != Hash{} }

// Equal reports whether a block made at p is valid at now, as far as the messages are concerned. Tools that are unknown
// on one side count as unchanged.
func (p *Place) Equal(now *Place) bool {
	return p.State == now.State && (p.Tools == now.Tools || p.Tools == 0 || now.Tools == 0)
}

// Walk computes the places along a prompt.
type Walk struct {
	Place
	base Hash
}

// Start returns a walk before the first message, after the system prompt and the tools. A zero hash means none.
func Start(system, tools Hash) Walk {
	w := Walk{base: fold(Hash{}, system)}
	w.State = w.base
	if tools != (Hash{}) {
		w.Tools = binary.LittleEndian.Uint64(tools[:]) | 1
	}
	return w
}

// From continues at a known place. After a restart block, its state may differ from that of a walk from the start.
func From(p Place) Walk { return Walk{Place: p, base: p.State} }

// Add advances past a block.
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

// fold is the step of MurmurHash3 for 128 bits. If one of the arguments is fixed, the result determines the other, so a
// difference never disappears by itself. Blocks are SHA-256 sums. A client that produces a collision on purpose only
// gets thinking of its own conversation refused.
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

// Size is the encoded size of a Place in bytes.
const Size = 32

// Append appends the encoded place.
func (p *Place) Append(dst []byte) []byte {
	dst = append(dst, p.State[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, p.Thought)
	return binary.LittleEndian.AppendUint64(dst, p.Tools)
}

// Parse decodes what Append encoded. b has at least Size bytes.
func Parse(b []byte) Place {
	return Place{Hash(b), binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])}
}

// MarshalText encodes a place for a JSON string.
func (p Place) MarshalText() ([]byte, error) {
	var b [Size]byte
	return base64.RawURLEncoding.AppendEncode(nil, p.Append(b[:0])), nil
}

// UnmarshalText decodes what MarshalText encoded.
func (p *Place) UnmarshalText(text []byte) error {
	b, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(b) != Size {
		return errors.New("a place in a prompt must be 32 bytes in URL-safe base64 without padding")
	}
	*p = Parse(b)
	return nil
}
