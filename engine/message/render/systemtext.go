package render

// This file parses the system prompt of a request: a text, or a list of text blocks, as providers accept it.

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// SystemPrompt is a system prompt. The zero value is none.
type SystemPrompt struct {
	// Text is its content. The texts of blocks are joined with blank lines.
	Text string
	// Blocks are the posted blocks that are not empty, unchanged; nil if the prompt was posted as a text.
	Blocks [][]byte
}

// SystemText returns a prompt that is a text.
func SystemText(text string) SystemPrompt { return SystemPrompt{Text: text} }

// errForm says what a system prompt may be.
var errForm = errors.New(`must be a string or a list of text blocks, for example [{"type":"text","text":"You help."}]`)

// ParseSystem parses a prompt from valid JSON. Empty blocks are left out, because providers refuse them.
func ParseSystem(raw json.RawMessage) (SystemPrompt, error) {
	raw = bytes.TrimSpace(raw)
	if text, ok := rawjson.String(raw); ok {
		return SystemText(text), nil
	}
	if len(raw) == 0 || raw[0] == 'n' {
		return SystemPrompt{}, nil
	}
	if !rawjson.IsArray(raw) {
		return SystemPrompt{}, errForm
	}
	var p SystemPrompt
	var texts []string
	for from, to := range rawjson.Elements(raw) {
		block, twice, ok := rawjson.ReadObject(raw[from:to])
		if !ok || twice != nil {
			return SystemPrompt{}, errForm
		}
		switch block.Text("type") {
		case "text", "input_text":
		default:
			return SystemPrompt{}, errForm
		}
		text, ok := rawjson.String(block.Get("text"))
		if !ok {
			return SystemPrompt{}, errForm
		}
		if strings.TrimSpace(text) != "" {
			texts, p.Blocks = append(texts, text), append(p.Blocks, block.Raw)
		}
	}
	p.Text = strings.Join(texts, "\n\n")
	return p, nil
}

// AppendContent appends the prompt as a message's content: a text, or its blocks as parts of type typ.
func (p SystemPrompt) AppendContent(dst []byte, typ string) []byte {
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
