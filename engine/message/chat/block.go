package chat

import (
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// know records the structure of the rendered bytes.
func know(fr *Fragment) {
	switch {
	case fr.Format == AnthropicMessages:
		knowBlocks(fr)
	case fr.Items == 0:
	case fr.Format == Text:
		fr.Parts = []render.Block{{Part: prefix.Part{Digest: prefix.Line(fr.Bytes)}}}
	case fr.Format == OpenAIChat:
		fr.Parts = []render.Block{{Part: prefix.Part{Digest: prefix.Digest(fr.Bytes)}}}
	default:
		fr.Parts = make([]render.Block, 0, fr.Items)
		for from, to := range sequence(fr.Bytes) {
			item := fr.Bytes[from:to]
			p := prefix.Part{Digest: prefix.Digest(item)}
			if o, bad := readObject(item); bad == nil && o.Text("type") == itemReasoning {
				p.Kind = prefix.Thinking
			}
			fr.Parts = append(fr.Parts, render.Block{Part: p, Start: int32(from), End: int32(to)})
		}
	}
}

// knowBlocks records Anthropic's blocks and their breakpoints.
func knowBlocks(fr *Fragment) {
	role := render.RoleByte(fr.Role)
	for from, to := range sequence(fr.Blocks) {
		raw := fr.Blocks[from:to]
		p, _ := readPart(AnthropicMessages, raw)
		b := render.Block{Part: prefix.Part{Digest: prefix.Digest(raw).As(role)}, Start: int32(from), End: int32(to)}
		switch {
		case p.kind == partThinking:
			b.Kind = prefix.Thinking
		case compacts(&p):
			fr.Compacts = fr.Compacts || len(fr.Parts) == 0
		case p.typ == "compaction" && p.o.Get("content") != nil:
			b.Kind = prefix.Restart
		}
		findMarks(fr, &p, from)
		fr.Parts = append(fr.Parts, b)
	}
}

// cites reports whether citations of a document or a search result are enabled.
func (p *part) cites() bool {
	citations, bad := readObject(p.o.Get("citations"))
	return bad == nil && (p.typ == "document" || p.typ == "search_result") && string(citations.Get("enabled")) == "true"
}

// findMarks records the breakpoints and the enabled citations of the block that begins at an offset, and of the contents
// of a result.
func findMarks(fr *Fragment, p *part, at int) {
	if p.kind == partResult {
		if content := p.o.Find("content"); content != nil && rawjson.IsArray(p.o.Raw[content.Value:]) {
			for from, to := range rawjson.Elements(p.o.Raw[content.Value:content.End]) {
				if inner, bad := readPart(AnthropicMessages, p.o.Raw[content.Value+from:content.Value+to]); bad == nil {
					findMarks(fr, &inner, at+content.Value+from)
				}
			}
		}
	}
	for i := range p.o.Fields {
		f := &p.o.Fields[i]
		if string(f.Name) == "citations" && p.cites() {
			fr.Cited = append(fr.Cited, render.Span{Start: int32(at + f.Value), End: int32(at + f.End)})
		}
		if string(f.Name) != "cache_control" {
			continue
		}
		m := render.Mark{Start: int32(at + f.Start), End: int32(at + f.End)}
		if i > 0 {
			m.Start = int32(at + p.o.Fields[i-1].End)
		} else if len(p.o.Fields) > 1 {
			m.End = int32(at + p.o.Fields[1].Start)
		}
		if o, bad := readObject(p.o.Raw[f.Value:f.End]); bad == nil {
			m.Long = o.Text("ttl") == "1h"
		}
		fr.Marks = append(fr.Marks, m)
	}
}

// sequence yields the start and end of each JSON value in a comma-separated sequence.
func sequence(raw []byte) func(func(int, int) bool) {
	return func(yield func(int, int) bool) {
		for i := 0; i < len(raw); {
			end := rawjson.SkipValue(raw, i)
			if !yield(i, end) {
				return
			}
			for i = end; i < len(raw) && (raw[i] == ',' || raw[i] <= ' '); {
				i++
			}
		}
	}
}
