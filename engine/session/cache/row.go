package cache

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Row is one stored message as windows use it: its header, its names as numbers, and what has been computed from its
// body.
type Row struct {
	transcript.Header
	AgentID, DelegationID, ToolID uint32 // in View.Names
	TagIDs                        []uint32
	*Body
}

// Body holds what has been computed from a message's body so far. Its parts are immutable once set.
type Body struct {
	Message   atomic.Pointer[chat.Message]
	Fragments [4][3]Fragment // by format: as posted, as markdown, as an earlier question
	// Markdown holds the token counts as markdown, plus one, by format and encoding; 0 means not counted yet.
	Markdown      [4][2]atomic.Uint32
	MarkdownBytes atomic.Uint32 // valid once the tokens are known
	documents     atomic.Uint32 // see HasDocuments
	Damaged       atomic.Bool   // the body cannot be read
	Cut           atomic.Pointer[Cut]
	Question      atomic.Pointer[Question]
	Ledger        atomic.Pointer[Ledger]
	Literals      atomic.Pointer[literal.List] // of a message whose header does not have them
}

// Question is the latest shortening of a user's message as an earlier question. Of.Limit is what the message may cost.
type Question struct {
	Of
	Whole     string // the text that was shortened
	Text      string
	Tokens    uint32 // of the message
	Fragments [4]Fragment
}

// Ledger is the latest ledger whose newest message this is. Of.Limit is what its text may have.
type Ledger struct {
	Of
	Whole   string // the text that names everything
	Text    string
	Tokens  uint32 // as a message
	Without int    // of the oldest literals are left out
}

// The values of Body.documents.
const (
	documentsUnknown = iota
	documentsNone
	documentsSome
)

// HasDocuments reports whether the row's message, m, is a tool's with documents that are text. It reads the message only
// once while the row is in memory.
func (b *Body) HasDocuments(m *chat.Message) bool {
	if b.documents.Load() == documentsUnknown {
		known := uint32(documentsNone)
		if documents, _ := m.Documents(); len(documents) > 0 {
			known = documentsSome
		}
		b.documents.Store(known)
	}
	return b.documents.Load() == documentsSome
}

// Cut is the latest truncation of a message's texts. Consecutive windows of a session usually cut them in the same way.
type Cut struct {
	Of
	plan.Cut
	Fragments [4]Fragment
}

// Of identifies a truncation: which text was cut, and how.
type Of struct {
	Limit    uint32 // the most tokens to leave
	Encoding uint8
	Format   chat.Format // with Scale and Pictures, decides what the cut message costs
	Scale    project.Scale
	Pictures tokens.Rule
	Markdown bool
	Note     string // the text that marks the cut
}

// Fragment holds a rendering; nil until it is made.
type Fragment = atomic.Pointer[Rendered]

// Rendered is a fragment with its checksum, from which the hashes of windows are computed.
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
		for _, text := range c.Documents {
			n += len(text)
		}
		for f := range c.Fragments {
			if fr := c.Fragments[f].Load(); fr != nil {
				n += fr.Size()
			}
		}
	}
	if q := b.Question.Load(); q != nil {
		n += len(q.Text)
		for f := range q.Fragments {
			if fr := q.Fragments[f].Load(); fr != nil {
				n += fr.Size()
			}
		}
	}
	if l := b.Ledger.Load(); l != nil {
		n += len(l.Whole) + len(l.Text)
	}
	if l := b.Literals.Load(); l != nil {
		n += len(*l)
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

// IndexOf returns the index of a message in rows sorted by seq, or -1 if it is not there.
func IndexOf(rows []*Row, seq uint64) int {
	i, ok := slices.BinarySearchFunc(rows, seq, func(r *Row, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	if !ok {
		return -1
	}
	return i
}
