package tokens

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The limits of a request's list of tools.
const (
	MaxTools     = 1024
	MaxToolBytes = 1 << 20
)

// What tools cost besides their words, according to OpenAI's cookbook. Models with cl100k_base take three more per
// tool.
const (
	toolsOnce      = 12
	toolEach       = 7
	toolEachCL100K = 10
	toolHasFields  = 3
	toolField      = 3
	toolHasEnum    = -3
	toolEnumValue  = 3
)

// hostedTools are Anthropic's tools with a published number of tokens, by the prefix of their type.
var hostedTools = []struct {
	prefix string
	tokens int
}{{"bash_", 325}, {"computer_", 4550}, {"browser_", 6640}}

// tool is one entry of a list of tools, in any provider's format: OpenAI's chat format has the function in a member,
// the others do not.
type tool struct {
	Type     string    `json:"type"`
	Function *function `json:"function"`
	Custom   *function `json:"custom"`
	function
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type schema struct {
	Properties map[string]property `json:"properties"`
}

type property struct {
	Type        json.RawMessage   `json:"type"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
}

// Tools counts a provider's list of tools as OpenAI's cookbook does. count is the tokenizer; cl100k reports that it is
// cl100k_base. Tools returns an error for a list that no provider accepts.
func Tools(list []json.RawMessage, cl100k bool, count func(string) int) (tokens int, err error) {
	if len(list) > MaxTools {
		return 0, fmt.Errorf("must have at most %d tools", MaxTools)
	}
	if bytesOf(list) > MaxToolBytes {
		return 0, fmt.Errorf("must have at most %d bytes", MaxToolBytes)
	}
	for i, entry := range list {
		n, err := toolTokens(entry, count)
		if err != nil {
			return 0, fmt.Errorf("tools[%d]: %w", i, err)
		}
		tokens += n
	}
	if len(list) > 0 {
		tokens += toolsOnce
	}
	if cl100k {
		tokens += len(list) * (toolEachCL100K - toolEach)
	}
	return tokens, nil
}

func bytesOf(list []json.RawMessage) (n int) {
	for _, entry := range list {
		n += len(entry)
	}
	return n
}

func toolTokens(raw json.RawMessage, count func(string) int) (int, error) {
	var t tool
	if err := json.Unmarshal(raw, &t); err != nil || !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return 0, errors.New("must be an object whose type, name and description are strings")
	}
	for _, hosted := range hostedTools {
		if strings.HasPrefix(t.Type, hosted.prefix) {
			return hosted.tokens, nil
		}
	}
	f := &t.function
	switch {
	case t.Function != nil:
		f = t.Function
	case t.Custom != nil:
		f = t.Custom
	case f.Name == "" && t.Type == "":
		return 0, errors.New("must have a name or a type")
	case f.Name == "": // a tool hosted by the provider: its type and its settings are counted
		return toolEach + count(string(raw)), nil
	}
	n := toolEach + count(f.Name+":"+strings.TrimSuffix(f.Description, "."))
	params := f.Parameters
	if params == nil {
		params = f.InputSchema
	}
	var s schema
	if len(params) > 0 && json.Unmarshal(params, &s) != nil {
		return n + count(string(params)), nil // not a schema that the cookbook covers
	}
	if len(s.Properties) > 0 {
		n += toolHasFields
	}
	for name, p := range s.Properties {
		n += toolField + count(name+":"+p.typeName()+":"+strings.TrimSuffix(p.Description, "."))
		if p.Enum != nil {
			n += toolHasEnum
		}
		for _, value := range p.Enum {
			n += toolEnumValue + count(plain(value))
		}
	}
	return n, nil
}

// typeName returns a property's type; several types are joined.
func (p *property) typeName() string {
	var several []string
	if json.Unmarshal(p.Type, &several) == nil {
		return strings.Join(several, ",")
	}
	return plain(p.Type)
}

// plain returns a JSON string's text, and any other value as it is written.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
