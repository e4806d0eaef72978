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
		documents, held, err := a.documents(&it)
		if err != nil {
			return err
		}
		left := min(uint64(it.TextBytes)+uint64(documents), uint64(op.Argument)*bytesPerToken)
		if err := a.meter.Spend(int(left) * fuelPerCutByte); err != nil {
			return err
		}
		cut, err := a.src.Truncated(&it, int(op.Argument), stay(held))
		if err != nil {
			return err
		}
		if cut.Documents == nil && cut.Tokens == it.Tokens && uint32(len(cut.Text)) == it.TextBytes {
			a.out.Items = append(a.out.Items, it)
			continue
		}
		it.Edit = it.Edit.cut(&cut)
		a.emit(&it, cut.Text, cut.Tokens, Truncate, op.Reason)
	}
	return a.meter.Spend(0)
}

// documents charges for reading the documents of a tool's message, and describes them.
func (a *applier) documents(it *Item) (bytes int, held Flags, err error) {
	if it.Role != RoleTool || it.Change == Answer {
		return 0, it.Flags, nil
	}
	if bytes, held, err = a.src.Documents(it); err != nil {
		return 0, 0, err
	}
	return bytes, held, a.meter.Spend(bytes / textBytesPerFuel)
}

// stub replaces a tool result's text by a marker, and leaves out what is text in its documents.
func (a *applier) stub(it *Item, text string) (string, error) {
	const words = "result of %s left out: %d bytes, %d tokens"
	documents, held, err := a.documents(it)
	if err != nil {
		return "", err
	}
	size, tokens := len(text)+documents, it.Tokens
	stays := stay(held)
	if stays != "" {
		bare, err := a.src.Bare(it)
		if err != nil {
			return "", err
		}
		tokens -= min(bare, tokens)
	}
	if documents > 0 {
		it.Edit = it.Edit.with(func(e *Edit) { e.Strip |= PartText })
		it.Flags = it.Flags&^FlagDocument | held&FlagDocument
	}
	if stays != "" {
		return fmt.Sprintf("[text of the "+words+"%s]", a.src.Tool(it), size, tokens, stays), nil
	}
	return fmt.Sprintf("["+words+"]", a.src.Tool(it), size, tokens), nil
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
