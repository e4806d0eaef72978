package plan

import (
	"fmt"
	"strings"
)

// fuelPerCutByte is what cutting a text costs for each byte that may be left of it. Cuts are remembered, but a step's
// fuel must not depend on that, so it is charged before and counting is not.
const fuelPerCutByte = 4

// bytesPerToken is more than texts have in most languages.
const bytesPerToken = 8

// truncate cuts the texts of a range.
func (a *applier) truncate(op *Op, in []Item) error {
	for i := range in {
		it := in[i]
		if it.Tokens <= op.Argument { // its text has no more than all of it
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
		a.give(&it, text, tokens, Truncate, op.Reason)
	}
	return a.meter.Spend(0)
}

// stub puts a marker in the place of a tool result's text.
func (a *applier) stub(it *Item, text string) string {
	const words = "result of %s left out: %d bytes, %d tokens"
	if held := stay(it.Flags); held != "" {
		bare, err := a.src.TokensWith(it, "")
		if err != nil {
			bare = 0 // the caller meets the error too
		}
		return fmt.Sprintf("[text of the "+words+"%s]", a.src.Tool(it), len(text), it.Tokens-min(bare, it.Tokens), held)
	}
	return fmt.Sprintf("["+words+"]", a.src.Tool(it), len(text), it.Tokens)
}

// stay says, behind other words, what a message goes on to hold when its text is cut or left out: "" where that is
// nothing.
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
