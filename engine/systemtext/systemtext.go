// Package systemtext reads the system prompt of a request: a text, or a list of text blocks as providers have it.
package systemtext

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/rawjson"
)

// Prompt is a system prompt. The zero value is none.
type Prompt struct {
	// Text is what it says; the texts of blocks stand behind one another, separated by blank lines.
	Text string
	// Blocks are the posted blocks that say something, as they came; nil where the prompt was posted as a text.
	Blocks [][]byte
}

// Of is a prompt that is a text.
func Of(text string) Prompt { return Prompt{Text: text} }

// errForm says what a system prompt may be.
var errForm = errors.New(`must be a string or a list of text blocks, for example [{"type":"text","text":"You help."}]`)

// Parse reads a prompt from valid JSON. Blocks that say nothing are left out, because providers refuse them.
func Parse(raw json.RawMessage) (Prompt, error) {
	raw = bytes.TrimSpace(raw)
	if text, ok := rawjson.String(raw); ok {
		return Of(text), nil
	}
	if len(raw) == 0 || raw[0] == 'n' {
		return Prompt{}, nil
	}
	if !rawjson.IsArray(raw) {
		return Prompt{}, errForm
	}
	var p Prompt
	var texts []string
	for from, to := range rawjson.Elements(raw) {
		block, twice, ok := rawjson.ReadObject(raw[from:to])
		if !ok || twice != nil {
			return Prompt{}, errForm
		}
		switch block.Text("type") {
		case "text", "input_text":
		default:
			return Prompt{}, errForm
		}
		text, ok := rawjson.String(block.Get("text"))
		if !ok {
			return Prompt{}, errForm
		}
		if strings.TrimSpace(text) != "" {
			texts, p.Blocks = append(texts, text), append(p.Blocks, block.Raw)
		}
	}
	p.Text = strings.Join(texts, "\n\n")
	return p, nil
}

// AppendContent appends the prompt as a message's content: a text, or its blocks as parts of a type.
func (p Prompt) AppendContent(dst []byte, typ string) []byte {
	if p.Blocks == nil {
		return rawjson.AppendString(dst, p.Text)
	}
	dst = append(dst, '[')
	for i, raw := range p.Blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		if block, _, _ := rawjson.ReadObject(raw); block.Text("type") != typ {
			raw = block.With("type", rawjson.AppendString(nil, typ))
		}
		dst = append(dst, raw...)
	}
	return append(dst, ']')
}
