package view

import (
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// Row is one stored message as a window looks at it: its header, its names as numbers, and what was made of its body.
type Row struct {
	transcript.Header
	AgentID, DelegationID, ToolID uint32 // in View.Names
	TagIDs                        []uint32
	*Body
}

// Body is what was made of a message's body so far. Its parts are immutable once set.
type Body struct {
	Message   atomic.Pointer[chat.Message]
	Fragments [4][3]Fragment // by format: as posted, as markdown, as an earlier question
	// Markdown counts the tokens as markdown, as a message and as flat text, by encoding, plus one; 0: not counted yet.
	Markdown      [2][2]atomic.Uint32
	MarkdownBytes atomic.Uint32 // known where its tokens are
	Damaged       atomic.Bool   // the body cannot be read
}

// Fragment is the place of a rendering; nil: it was not made yet.
type Fragment = atomic.Pointer[Rendered]

// Rendered is a fragment with its sum, which windows' hashes are made of.
type Rendered struct {
	chat.Fragment
	Hash [32]byte
}

func (b *Body) weigh() (n int) {
	if m := b.Message.Load(); m != nil {
		n += len(m.Raw) + len(m.Text)
	}
	for f := range b.Fragments {
		for k := range b.Fragments[f] {
			if fr := b.Fragments[f][k].Load(); fr != nil {
				n += fr.Size()
			}
		}
	}
	return n
}
