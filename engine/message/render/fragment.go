package render

import (
	"crypto/sha256"

	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Placeholder is the text to use if Anthropic's format requires one and there is none: as the content of an empty
// message, and as the user message before a window that begins with an assistant's.
const Placeholder = plan.Placeholder

// Fragment is what one message contributes to a window in one format. It is immutable, so any number of windows may
// share it. It may alias the message's Raw.
type Fragment struct {
	Format Format
	Role   plan.Role
	// Bytes is the message as JSON (for OpenAIResponses: items separated by commas; for Text: the line). In Anthropic's
	// format it is the message when it is not joined with others; empty if it has no blocks.
	Bytes []byte
	Items int // number of the window's elements in Bytes
	// Reasoning is what a chat window shows as reasoning_content if the request asks for it; nil if there is none.
	Reasoning *string

	// Blocks are Anthropic's content blocks, separated by commas, for joining with other messages of the same role.
	Blocks []byte
	IDs    []CallID // in Blocks, or in the Bytes of OpenAIResponses, ascending

	// Compacts means that an assistant's message may begin a window, because it replaces what was before.
	Compacts bool

	Parts []Block
	Marks []Mark
	// Cited are the values in Blocks that enable the citations of Anthropic's documents and search results, ascending.
	Cited []Span
	// Uncited means that a document lost its citations when its text was cut.
	Uncited bool
}

// Span is Blocks[Start:End] of a fragment.
type Span struct{ Start, End int32 }

// Sum returns the SHA-256 of what the fragment contributes. Equal sums in the same order make equal windows.
func (fr *Fragment) Sum() [32]byte {
	h := sha256.New()
	h.Write(fr.Bytes)
	h.Write([]byte{0}) // never part of JSON
	h.Write(fr.Blocks)
	return [32]byte(h.Sum(nil))
}

// CallID is a call's id in a fragment's JSON: Start to End is the JSON string.
type CallID struct {
	ID         string
	Start, End int
	Call       bool // false for a result
}

// Size returns the memory that a fragment uses, in bytes, for the accounting of caches.
func (fr *Fragment) Size() int {
	return 128 + cap(fr.Bytes) + cap(fr.Blocks) + len(fr.IDs)*48 + len(fr.Parts)*28
}

// Block is a block of a fragment, for the hash of what precedes a position in a window. In Anthropic's format the block
// is Blocks[Start:End], in OpenAIResponses Bytes[Start:End].
type Block struct {
	prefix.Part
	Start, End int32
}

// Mark is an Anthropic cache breakpoint in a fragment's blocks: Blocks[Start:End] is the member cache_control with one
// of the adjacent commas.
type Mark struct {
	Start, End int32
	Long       bool // its ttl is an hour
}

// RoleByte distinguishes an assistant's blocks from a user's in the hash. Results belong to the user.
func RoleByte(r plan.Role) byte {
	if r == plan.RoleAssistant {
		return 2
	}
	return 1
}

// AppendRole appends the start of a message object up to the value of its content.
func AppendRole(dst []byte, role string) []byte {
	dst = append(dst, `{"role":"`...)
	dst = append(dst, role...)
	return append(dst, `","content":`...)
}

// AppendTextPart appends a text content part.
func AppendTextPart(dst []byte, typ, text string) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, typ...)
	dst = append(dst, `","text":`...)
	return append(rawjson.AppendString(dst, text), '}')
}

// AnthropicRole returns the role of a message in Anthropic's format. Results belong to the user.
func AnthropicRole(r plan.Role) string {
	if r == plan.RoleAssistant {
		return "assistant"
	}
	return "user"
}
