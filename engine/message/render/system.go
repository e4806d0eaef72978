package render

import (
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// cacheControl is the member that makes a block a cache breakpoint.
const cacheControl = "cache_control"

// putSystem puts the request's system prompt at the beginning of a window that has messages.
func (b *Builder) putSystem(system *SystemPrompt) {
	switch {
	case system.Text == "":
	case system.Blocks == nil:
		b.notice(system.Text)
	case b.format == AnthropicMessages:
		b.notice(system.Text)
		for _, raw := range system.Blocks {
			if mark := markOf(raw); mark != nil {
				at, _, _ := rawjson.ReadObject(mark)
				b.Marks = append(b.Marks, at.Text("ttl") == "1h")
			}
		}
		b.blocks = append(b.blocks, system.Blocks...)
	default:
		typ := "text"
		if b.format == OpenAIResponses {
			typ = "input_text"
		}
		b.Parts = append(b.Parts, Placed{prefix.Part{Digest: prefix.Text(system.Text).As(roleNotice)}, b.item, 0})
		b.buf = append(system.AppendContent(AppendRole(b.buf, "system"), typ), '}')
		b.rendered++
	}
}

// markOf returns a block's breakpoint; nil if it has none.
func markOf(raw []byte) []byte {
	block, _, _ := rawjson.ReadObject(raw)
	return block.Get(cacheControl)
}

// systemBlocks returns Anthropic's system prompt as a list, with the breakpoints that the edits leave; nil if it is a
// text.
func (b *Builder) systemBlocks() []byte {
	if len(b.blocks) == 0 {
		return nil
	}
	marks, out := 0, make([][]byte, len(b.blocks))
	for i, raw := range b.blocks {
		block, _, _ := rawjson.ReadObject(raw)
		last := i == len(b.blocks)-1 && b.Edits.SystemBreakpoint
		if block.Get(cacheControl) != nil {
			marks++
			last = last && marks <= len(b.Edits.Marks) && !b.Edits.Marks[marks-1]
			if marks <= len(b.Edits.Marks) && !b.Edits.Marks[marks-1] {
				raw = block.Without(func(o *rawjson.Object, f *rawjson.Field) bool { return string(f.Name) == cacheControl })
			}
		}
		if last {
			raw = append(append(append([]byte{}, raw[:len(raw)-1]...), breakpoint...), '}')
		}
		out[i] = raw
	}
	return rawjson.ArrayOf(out...)
}

// AppendSystem appends Anthropic's system prompt as JSON: a string, or the blocks with the breakpoints that the edits
// require.
func (b *Builder) AppendSystem(dst []byte, w *Window) []byte {
	if w.SystemBlocks != nil {
		return append(dst, w.SystemBlocks...)
	}
	if !b.Edits.SystemBreakpoint {
		return rawjson.AppendString(dst, w.System)
	}
	dst = rawjson.AppendString(append(dst, `[{"type":"text","text":`...), w.System)
	return append(append(dst, breakpoint...), "}]"...)
}
