package plan

import (
	"slices"
	"strconv"
	"strings"
)

// Change says how an item's text differs from what is stored.
type Change uint8

const (
	Unchanged  Change = iota
	Retexted          // the stored message with another text: truncated, stubbed or replaced
	Compressed        // one user message, made of the texts of Rows
	Notice            // a system-class message with Text
	Answer            // a made-up result for a call left unanswered
)

// Item is one entry of a window in the making: a record and where its content comes from.
type Item struct {
	Record
	Row    int32   // the considered row that it shows; for an Answer, the row of its call; -1 for a Notice
	Change Change  // Unchanged: the content is the row's
	Call   uint16  // of an Answer: which of the call's calls it answers
	Rows   []int32 // of a Compressed item: the rows of its user messages; of the summary: the rows that it replaces
	Text   string  // the text if it is not the row's; of a Compressed item "" until TextOf makes it
	Edit   *Edit   // what else differs from the row; nil means nothing does
	Step   int16   // the pipeline step that changed it last; -1: the host
	Reason string  // that step's words
}

// said reports whether the item is a message of the conversation, and not system-class.
func (i *Item) said() bool { return i.Role != RoleSystem }

// counted reports whether a budget in messages counts the item. An earlier question costs tokens alone, so that a
// window never loses turns because others were compressed.
func (i *Item) counted() bool { return i.said() && i.Flags&FlagCompressed == 0 }

// Action is what became of a considered message, in the words of the report.
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

// Fate is what became of one considered row, and why. The zero Fate is a row that is kept as it is.
type Fate struct {
	Action Action // "" is Keep
	Step   int16  // the pipeline step that decided; -1: the host
	Reason string // "code" or "code: free words"
}

// Source answers what applying a plan may need to know of the messages. An error means that stored content could not
// be read. A source that counts tokens charges the step's Meter for it, and counts nothing any more once that has run
// out.
type Source interface {
	// Load fetches the texts of considered rows in one go, where they are not in memory.
	Load(rows []int32) error
	// RowText is the text of a considered row, as stored.
	RowText(row int32) (string, error)
	// Tool is the name of the tool that an item answers for.
	Tool(*Item) string
	// Call is a call of a stored message, false if there is none. That of a result is the one that it answers, 0. index
	// counts the calls of the message that makes it.
	Call(it *Item, call int) (c Called, index int, ok bool, err error)
	// Edited is what a message with an edit shows: its text, its tokens, and whether that is nothing at all.
	Edited(*Item) (text string, tokens uint32, empty bool, err error)
	// TokensWith counts an item's tokens as if it had this text.
	TokensWith(*Item, string) (uint32, error)
	// NoticeTokens counts a system-class message.
	NoticeTokens(text string) uint32
	// QuestionTokens counts a user message that is EarlierQuestion of a turn with this text after it.
	QuestionTokens(turn uint32, text string) uint32
	// Summary is the running summary as a window shows it. It covers the messages without a delegation whose Seq is at
	// most covers. Text is "" where none is stored.
	Summary() (covers uint64, text string, tokens uint32)
	// Truncated is an item's text cut to at most that many tokens, head and tail, with a note in the words that mark the
	// cut, and what the item costs then. It charges nothing.
	Truncated(it *Item, tokens int, note string) (text string, cost uint32, err error)
}

// Records appends the records of items to dst, for a request. Atoms get new numbers, without gaps.
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

// TextOf is an item's text with all changes so far.
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

// EarlierQuestion is what stands before the text of a compressed turn.
func EarlierQuestion(turn uint32) string {
	return "[earlier question] (turn " + strconv.FormatUint(uint64(turn), 10) + "): "
}

// questionOf is the text that a user's item brings into a compressed turn.
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

// LeadWith moves a message to the front, before notices. It must be the first that is none.
func LeadWith(items []Item, seq uint64) {
	at := slices.IndexFunc(items, func(it Item) bool { return it.Change != Notice && it.Seq == seq })
	if at > 0 {
		first := items[at]
		copy(items[1:at+1], items[:at])
		items[0] = first
	}
}
