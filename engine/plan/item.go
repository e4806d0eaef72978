package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
)

// Change says how an item's text differs from what is stored.
type Change uint8

const (
	Unchanged  Change = iota
	Retexted          // the stored message with another text: truncated, stubbed or replaced
	Compressed        // one user message, made of the texts of Rows
	Notice            // a system-class message with Text
	Answer            // an artificial result for a call that was not answered
)

// Item is one entry of a window that is being built: a record and where its content comes from.
type Item struct {
	Record
	Row    int32   // the considered row that it shows; for an Answer, the row of its call; -1 for a Notice
	Change Change  // if Unchanged, the content is the row's
	Call   uint16  // for an Answer, which of the row's calls it answers
	Rows   []int32 // for a Compressed item, the rows of its user messages; for the summary or a ledger, the rows that it is made of
	Text   string  // the text if it is not the row's; for a Compressed item "" until TextOf makes it
	Edit   *Edit   // other differences from the row; nil if there are none
	// Supplied means that a step supplied the text, the arguments of a call, or a part of them: they are not, or not only,
	// what was stored.
	Supplied bool
	Step     int16  // the pipeline step that changed it last; -1 means the host
	Reason   string // given by that step
}

// isMessage reports whether the item is a message of the conversation rather than a system-class message.
func (i *Item) isMessage() bool { return i.Role != RoleSystem }

// counted reports whether a budget in messages counts the item. An earlier question costs only tokens, so that a window
// does not lose turns because others were compressed.
func (i *Item) counted() bool { return i.isMessage() && i.Flags&FlagCompressed == 0 }

// Shows returns the considered rows that the item shows: none for a Notice or an Answer.
func (i *Item) Shows() []int32 {
	switch i.Change {
	case Notice, Answer:
		return nil
	case Compressed:
		return i.Rows
	}
	return []int32{i.Row}
}

// Action is what happened to a considered message, as in the report.
type Action string

const (
	Keep      Action = "keep"
	Drop      Action = "drop"
	Compress  Action = "compress"
	Truncate  Action = "truncate"
	Stub      Action = "stub"
	Replace   Action = "replace"
	Summarise Action = "summarise"
	Strip     Action = "strip"
	Inject    Action = "inject"
)

// Fate is what happened to one considered row, and why. The zero Fate means that the row is kept unchanged.
type Fate struct {
	Action Action // "" is Keep
	Step   int16  // the pipeline step that decided; -1 means the host
	Reason string // "code" or "code: free text"
}

// Source provides what applying a plan needs to know about messages. An error means that stored content could not be
// read. A source that counts tokens charges the step's Meter, and counts nothing once that has run out.
type Source interface {
	// Load loads the texts of considered rows that are not in memory, all at once.
	Load(rows []int32) error
	// RowText returns the stored text of a considered row.
	RowText(row int32) (string, error)
	// Tool returns the name of the tool whose result an item is.
	Tool(*Item) string
	// Call returns a call of a stored message; false if there is none. Call 0 of a result is the call that it answers.
	// index is the index of the call in the message that makes it.
	Call(it *Item, call int) (c Called, index int, ok bool, err error)
	// Edited returns what a message with an edit shows: its text, its tokens, and whether it shows nothing at all.
	Edited(*Item) (text string, tokens uint32, empty bool, err error)
	// TokensWith counts an item's tokens as if it had this text.
	TokensWith(*Item, string) (uint32, error)
	// NoticeTokens counts a system-class message.
	NoticeTokens(text string) uint32
	// QuestionTokens counts a user message that consists of EarlierQuestion for a turn followed by this text.
	QuestionTokens(turn uint32, text string) uint32
	// ShortQuestion returns the text of a compressed turn's questions with its middle cut out, so that the message has at
	// most tokens+QuestionOverhead tokens, and what it costs. It charges nothing.
	ShortQuestion(it *Item, text string, tokens uint32) (short string, cost uint32)
	// Sees reports whether the viewer may see an item.
	Sees(*Item) bool
	// Literals returns the literals of considered rows as stored. It loads the texts of those whose literals are not
	// known, all at once.
	Literals(rows []int32) ([]literal.List, error)
	// Ledger returns the text of a ledger that names as much as fits into a number of tokens, what it costs as a
	// system-class message, and how many of the oldest literals it leaves out. It charges nothing.
	Ledger(l *Ledger, tokens uint32) (text string, cost uint32, without int)
	// Summary returns the running summary as a window shows it. It covers the messages outside delegations whose Seq is
	// at most covers. text is "" if none is stored.
	Summary() (covers uint64, text string, tokens uint32)
	// Truncated shortens an item's text, with the texts of a tool's documents, to at most tokens tokens together by cutting
	// out their middles. note is added to the texts that mark the cuts. It charges nothing.
	Truncated(it *Item, tokens int, note string) (Cut, error)
	// Bare returns the tokens of an item without its text and the texts of a tool's documents.
	Bare(*Item) (uint32, error)
	// DocumentTexts returns the texts of a tool's documents with all changes so far, for Edit.Documents.
	DocumentTexts(*Item) ([]string, error)
	// Thinking returns the text of a message's thinking or reasoning; "" if a step stripped it.
	Thinking(*Item) (string, error)
	// Documents returns how many bytes of text the documents of a tool's message have, and which of FlagImage, FlagAudio
	// and FlagDocument describe what an item holds besides its texts.
	Documents(*Item) (bytes int, held Flags, err error)
}

// Cut is what a message shows when its texts are shortened.
type Cut struct {
	Text      string
	Documents []string // the texts of a tool's documents, for Edit; nil if none is shortened
	Tokens    uint32   // of the message
}

// Records appends the records of items to dst, for a request. It numbers the atoms again, without gaps.
func Records(dst []Record, items []Item) []Record {
	atom := uint32(0)
	for i := range items {
		if i > 0 && (items[i].Role == RoleSystem || items[i].Atom != items[i-1].Atom) {
			atom++
		}
		dst = append(dst, items[i].Record)
		dst[len(dst)-1].Atom = atom
	}
	return dst
}

// TextOf returns an item's text with all changes so far.
func TextOf(it *Item, src Source) (string, error) {
	switch {
	case it.Change == Unchanged && it.Role == RoleTool && it.Edit != nil:
		text, _, _, err := src.Edited(it) // it may show the arguments of its call
		return text, err
	case it.Change == Unchanged:
		return src.RowText(it.Row)
	case it.Change == Compressed && it.Text == "":
		question, err := questionOf(it, src)
		return EarlierQuestion(it.Turn) + question, err
	}
	return it.Text, nil
}

// EarlierQuestion returns the text that precedes the text of a compressed turn.
func EarlierQuestion(turn uint32) string {
	return "[earlier question] (turn " + strconv.FormatUint(uint64(turn), 10) + "): "
}

// questionOf returns the text that a user's item contributes to a compressed turn.
func questionOf(it *Item, src Source) (string, error) {
	switch {
	case it.Change == Unchanged:
		return src.RowText(it.Row)
	case it.Change != Compressed:
		return it.Text, nil
	case it.Text != "": // compressed before and changed since
		return strings.TrimPrefix(it.Text, EarlierQuestion(it.Turn)), nil
	}
	texts := make([]string, len(it.Rows))
	for i, row := range it.Rows {
		text, err := src.RowText(row)
		if err != nil {
			return "", err
		}
		texts[i] = text
	}
	return strings.Join(texts, "\n"), nil
}

// AsStored reports whether all items are messages as they are stored.
func AsStored(items []Item) bool {
	return !slices.ContainsFunc(items, func(it Item) bool { return it.Change != Unchanged })
}

// LeadWith moves a message to the front, before the notices. It must be the first item that is not a notice.
func LeadWith(items []Item, seq uint64) {
	at := slices.IndexFunc(items, func(it Item) bool { return it.Change != Notice && it.Seq == seq })
	if at > 0 {
		first := items[at]
		copy(items[1:at+1], items[:at])
		items[0] = first
	}
}
