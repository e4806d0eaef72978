package prompt

import (
	"encoding/binary"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// Compared is what a window has in common with the previous one.
type Compared struct {
	Messages uint64 // that lie completely in the shared prefix
	Tokens   uint64
	// Share is the shared part of the previous window, by tokens.
	Share float64
	// Cut means that the window does not start with all history of the previous one.
	Cut bool
}

// Trace returns what the next window is compared with. It must be called when there is nothing left to amend. tokens
// are those of the window.
func (s *Sheet) Trace(b *render.Builder, w *render.Window, tokens uint64) prefix.Trace {
	t := prefix.Trace{Parts: s.list(b, w), Tokens: tokens, End: s.End}
	for i, part := range slices.Backward(b.Parts) {
		if part.Item < 0 || s.Entry(part.Item).Pending < 0 {
			t.Stored = i + 2 // the first part is the base
			break
		}
	}
	for _, r := range s.replies {
		t.Replies = append(t.Replies, prefix.Reply{ID: r.id, Made: s.Made[r.pending]})
	}
	return t
}

// list returns a number for each part of the window, after one for its base.
func (s *Sheet) list(b *render.Builder, w *render.Window) []uint32 {
	base := s.start(w)
	s.shorts = append(s.shorts[:0], binary.LittleEndian.Uint32(base.State[:])^uint32(base.Tools))
	for i := range b.Parts {
		s.shorts = append(s.shorts, b.Parts[i].Short())
	}
	return s.shorts
}

// Shared returns how many parts, including the base, the window has in common with the beginning of the previous one.
func (s *Sheet) Shared(b *render.Builder) int {
	if s.Before == nil || len(s.shorts) != len(b.Parts)+1 {
		return 0
	}
	return s.Before.Shared(s.shorts)
}

// Compare returns what the window has in common with the previous one, which must exist. base is the number of tokens
// of the system prompt, and opening that of the message that the format may put first.
func (s *Sheet) Compare(b *render.Builder, rendered int, base, opening uint64) Compared {
	shared := s.Shared(b)
	out := Compared{Cut: shared < s.Before.Stored}
	if shared == 0 {
		return out
	}
	same := b.Parts[:shared-1]
	out.Messages = uint64(rendered)
	if len(same) < len(b.Parts) {
		out.Messages = uint64(b.Parts[len(same)].Message)
	}
	if s.Format == render.AnthropicMessages {
		out.Tokens = base
	}
	for i := range same {
		item := same[i].Item
		switch last := i+1 == len(b.Parts) || b.Parts[i+1].Item != item; {
		case item >= 0 && last:
			out.Tokens += uint64(s.Entry(item).Tokens)
		case item < 0 && last && s.Format == render.AnthropicMessages:
			out.Tokens += opening
		case item < 0 && last:
			out.Tokens += base
		}
	}
	out.Share = 1
	if s.Before.Tokens > 0 {
		out.Share = min(1, float64(out.Tokens*10000/s.Before.Tokens)/10000)
	}
	return out
}
