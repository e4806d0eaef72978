package cache

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
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
	// Markdown counts the tokens as markdown, by format and encoding, plus one; 0: not counted yet.
	Markdown      [4][2]atomic.Uint32
	MarkdownBytes atomic.Uint32 // known where its tokens are
	Damaged       atomic.Bool   // the body cannot be read
	Cut           atomic.Pointer[Cut]
}

// Cut is a message's text as it was cut last. Windows of a session cut it alike, one after another.
type Cut struct {
	Of
	Text      string
	Tokens    uint32 // of the message with this text
	Fragments [4]Fragment
}

// Of says what was cut and how.
type Of struct {
	Tokens   uint32 // that were left at most
	Encoding uint8
	Format   chat.Format // it tells what the cut message costs, as Scale and Pictures do
	Scale    project.Scale
	Pictures tokens.Rule
	Markdown bool
	Note     string // in the words that mark the cut
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
	if c := b.Cut.Load(); c != nil {
		n += len(c.Text)
		for f := range c.Fragments {
			if fr := c.Fragments[f].Load(); fr != nil {
				n += fr.Size()
			}
		}
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

// IndexOf is the place of a message among rows that ascend by seq; -1 where it is not there.
func IndexOf(rows []*Row, seq uint64) int {
	i, ok := slices.BinarySearchFunc(rows, seq, func(r *Row, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	if !ok {
		return -1
	}
	return i
}
