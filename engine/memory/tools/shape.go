package tools

import (
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// ChatTool is a tool in the form of OpenAI's Chat Completions.
type ChatTool struct {
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is the description of a tool in OpenAI's APIs.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// responsesTool is a tool in the form of OpenAI's Responses, where functions are strict by default.
type responsesTool struct {
	Type string `json:"type"`
	Function
	Strict bool `json:"strict"`
}

// MessagesTool is a tool in the form of Anthropic's Messages.
type MessagesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// For returns the tool in the form of a provider's API.
func (t Tool) For(f chat.Format) any {
	switch f {
	case chat.AnthropicMessages:
		return MessagesTool{t.Name, t.Description, t.InputSchema}
	case chat.OpenAIResponses:
		return responsesTool{"function", Function{t.Name, t.Description, t.InputSchema}, false}
	}
	return ChatTool{"function", Function{t.Name, t.Description, t.InputSchema}}
}
