package tokens

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// What a request's list of tools may hold.
const (
	MaxTools     = 1024
	MaxToolBytes = 1 << 20
)

// What tools cost beside their words, as OpenAI's cookbook counts them. cl100k_base's models take three more for each.
const (
	toolsOnce      = 12
	toolEach       = 7
	toolEachCL100K = 10
	toolHasFields  = 3
	toolField      = 3
	toolHasEnum    = -3
	toolEnumValue  = 3
)

// hostedTools are tools of Anthropic's that cost a published number of tokens, by how their type begins.
var hostedTools = []struct {
	prefix string
	tokens int
}{{"bash_", 325}, {"computer_", 4550}, {"browser_", 6640}}

// tool is one entry of a list of tools, in the shape of any provider: OpenAI's chat has the function in a member of its
// own, the others have it flat.
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

// Tools counts a provider's own list of tools as OpenAI's cookbook does, count being the tokenizer; cl100k says that it
// is cl100k_base. An error says what no provider would take.
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
	case f.Name == "": // a tool that the provider hosts: what is said of it is its type and its settings
		return toolEach + count(string(raw)), nil
	}
	n := toolEach + count(f.Name+":"+strings.TrimSuffix(f.Description, "."))
	params := f.Parameters
	if params == nil {
		params = f.InputSchema
	}
	var s schema
	if len(params) > 0 && json.Unmarshal(params, &s) != nil {
		return n + count(string(params)), nil // it is no schema that the cookbook speaks of
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

// typeName is a property's type; where it has several, they are joined.
func (p *property) typeName() string {
	var several []string
	if json.Unmarshal(p.Type, &several) == nil {
		return strings.Join(several, ",")
	}
	return plain(p.Type)
}

// plain is a JSON string's text, and any other value as it is written.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
