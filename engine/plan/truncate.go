package plan

import (
	"fmt"
	"strings"
)

// fuelPerCutByte is the cost of cutting a text, per byte of the result. Cuts are cached, but a step's fuel must not
// depend on that. Therefore it is charged in advance, and counting is not charged.
const fuelPerCutByte = 4

// bytesPerToken is more than most languages need.
const bytesPerToken = 8

// truncate cuts the texts of a range.
func (a *applier) truncate(op *Op, in []Item) error {
	for i := range in {
		it := in[i]
		if it.Tokens <= op.Argument { // the text cannot cost more than the message
			a.out.Items = append(a.out.Items, it)
			continue
		}
		left := min(uint64(it.TextBytes), uint64(op.Argument)*bytesPerToken)
		if err := a.meter.Spend(int(left) * fuelPerCutByte); err != nil {
			return err
		}
		text, tokens, err := a.src.Truncated(&it, int(op.Argument), stay(it.Flags))
		if err != nil {
			return err
		}
		if tokens == it.Tokens && uint32(len(text)) == it.TextBytes {
			a.out.Items = append(a.out.Items, it)
			continue
		}
		a.emit(&it, text, tokens, Truncate, op.Reason)
	}
	return a.meter.Spend(0)
}

// stub replaces a tool result's text by a marker.
func (a *applier) stub(it *Item, text string) string {
	const words = "result of %s left out: %d bytes, %d tokens"
	if held := stay(it.Flags); held != "" {
		bare, err := a.src.TokensWith(it, "")
		if err != nil {
			bare = 0 // the caller gets the error, too
		}
		return fmt.Sprintf("[text of the "+words+"%s]", a.src.Tool(it), len(text), it.Tokens-min(bare, it.Tokens), held)
	}
	return fmt.Sprintf("["+words+"]", a.src.Tool(it), len(text), it.Tokens)
}

// stay returns a note that lists what a message still contains when its text is cut or left out; "" if that is nothing.
func stay(f Flags) string {
	var held []string
	for _, of := range [...]struct {
		flag Flags
		name string
	}{{FlagImage, "images"}, {FlagAudio, "audio"}, {FlagDocument, "documents"}} {
		if f&of.flag != 0 {
			held = append(held, of.name)
		}
	}
	if held == nil {
		return ""
	}
	return "; " + strings.Join(held, " and ") + " stay"
}
