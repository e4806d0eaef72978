package render

import (
	"crypto/sha256"

	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Placeholder is the text where Anthropic's format demands one and there is none: the content of an empty message, and
// the user's message that is put before a window that begins with an assistant's.
const Placeholder = plan.Placeholder

// Fragment is what one message contributes to a window in one format. It is immutable, so any number of windows may
// share it, and it may alias the message's Raw.
type Fragment struct {
	Format Format
	Role   plan.Role
	// Bytes is the message as JSON (for OpenAIResponses: items separated by commas; for Text: the line). In the
	// Anthropic format it is how the message stands alone, empty where it has no blocks.
	Bytes []byte
	Items int // how many elements of the window Bytes are
	// Reasoning is what a chat window shows as reasoning_content where the request asks for it.
	Reasoning string

	// Blocks are Anthropic's content blocks, separated by commas, for merging with a neighbour of the same role.
	Blocks []byte
	IDs    []CallID // in Blocks, or in the Bytes of OpenAIResponses, ascending

	// Compacts says that an assistant's message may begin a window, because it stands for what was before.
	Compacts bool

	Parts []Block
	Marks []Mark
}

// Sum is the SHA-256 of what the fragment contributes: equal sums, in order, make equal windows.
func (fr *Fragment) Sum() [32]byte {
	h := sha256.New()
	h.Write(fr.Bytes)
	h.Write([]byte{0}) // never part of JSON
	h.Write(fr.Blocks)
	return [32]byte(h.Sum(nil))
}

// CallID is a call's id inside a fragment's JSON: what stands there from Start to End is its JSON string.
type CallID struct {
	ID         string
	Start, End int
	Call       bool // false: a result's
}

// Size is the memory a fragment holds on to, in bytes, for a cache to account.
func (fr *Fragment) Size() int {
	return 128 + cap(fr.Bytes) + cap(fr.Blocks) + len(fr.IDs)*48 + len(fr.Parts)*28
}

// Block is a block of a fragment, for the hash of what stands before a place in a window. In the Anthropic format
// Blocks[Start:End] is the block, in OpenAIResponses Bytes[Start:End].
type Block struct {
	prefix.Part
	Start, End int32
}

// Mark is a breakpoint of Anthropic's cache in a fragment's blocks: Blocks[Start:End] is the member cache_control with
// one of the commas beside it.
type Mark struct {
	Start, End int32
	Long       bool // its ttl is an hour
}

// RoleByte tells an assistant's blocks from a user's in the hash; results are the user's.
func RoleByte(r plan.Role) byte {
	if r == plan.RoleAssistant {
		return 2
	}
	return 1
}

// AppendRole appends the start of a message object up to its content's value.
func AppendRole(dst []byte, role string) []byte {
	dst = append(dst, `{"role":"`...)
	dst = append(dst, role...)
	return append(dst, `","content":`...)
}

// AppendTextPart appends a content part that is a text.
func AppendTextPart(dst []byte, typ, text string) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, typ...)
	dst = append(dst, `","text":`...)
	return append(rawjson.AppendString(dst, text), '}')
}

// AnthropicRole is who speaks: results are the user's.
func AnthropicRole(r plan.Role) string {
	if r == plan.RoleAssistant {
		return "assistant"
	}
	return "user"
}
