package tools

import (
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// ChatTool is a tool as OpenAI's Chat Completions take it.
type ChatTool struct {
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is what OpenAI's APIs are told of a tool.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// responsesTool is a tool as OpenAI's Responses take it, where a function that does not say so is strict.
type responsesTool struct {
	Type string `json:"type"`
	Function
	Strict bool `json:"strict"`
}

// MessagesTool is a tool as Anthropic's Messages take it.
type MessagesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// For describes the tool as a provider's API takes it.
func (t Tool) For(f chat.Format) any {
	switch f {
	case chat.AnthropicMessages:
		return MessagesTool{t.Name, t.Description, t.InputSchema}
	case chat.OpenAIResponses:
		return responsesTool{"function", Function{t.Name, t.Description, t.InputSchema}, false}
	}
	return ChatTool{"function", Function{t.Name, t.Description, t.InputSchema}}
}
