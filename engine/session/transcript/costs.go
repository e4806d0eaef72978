package transcript

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
)

// Costs are the tokens of a message in each of the formats that have messages, if they differ between formats.
type Costs struct {
	Words [Formats][2]uint32 // by format and encoding: counted by the tokenizer
	Text  [Formats][2]uint32 // of Words, the message's own text
	// Media are the tokens of pictures, pages and sound, by format and by tokens.Rule.
	Media    [Formats][2]uint32
	Thinking [2]uint32 // by encoding: thinking and reasoning, in the posted format
}

// Formats is the number of formats that have messages.
const Formats = 3

// fill computes the costs of a message in one format.
func (c *Costs) fill(f int, bill *tokens.Bill, counts [2]func(string) int) {
	for i, count := range counts {
		c.Words[f][i], c.Text[f][i] = uint32(bill.Words(count)), uint32(bill.Text(count))
	}
	for r := range c.Media[f] {
		c.Media[f][r] = uint32(bill.Media(tokens.Rule(r)))
	}
}

// Words returns the tokens that a tokenizer counts of a stored message in a format that has messages, and how many of
// them belong to the message's own text.
func (h *Header) Words(f chat.Format, encoding int) (words, text uint32) {
	if h.Costs == nil {
		return h.Tokens[encoding], h.Content[encoding]
	}
	return h.Costs.Words[f-1][encoding], h.Costs.Text[f-1][encoding]
}

// Media returns the tokens of a stored message's pictures, pages and sound in a format by a rule.
func (h *Header) Media(f chat.Format, r tokens.Rule) uint32 {
	if h.Costs == nil || f == chat.Text {
		return 0
	}
	return h.Costs.Media[f-1][r]
}

// append encodes the costs.
func (c *Costs) append(dst []byte) []byte {
	dst, _ = binary.Append(dst, binary.LittleEndian, c) // all fields have a fixed size
	return dst
}

// parseCosts decodes costs and returns the remaining bytes; nil if b is too short.
func parseCosts(b []byte) (*Costs, []byte) {
	c := new(Costs)
	n, err := binary.Decode(b, binary.LittleEndian, c)
	if err != nil {
		return nil, b
	}
	return c, b[n:]
}
