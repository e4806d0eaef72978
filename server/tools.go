package server

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/tools"
	"github.com/seed-0906e6bc/mneme/server/mcp"
)

// toolList is the tools in the shape that was asked for.
type toolList struct {
	Tools []any `json:"tools"`
}

// openAITool is a tool as OpenAI's chat API takes it.
type openAITool struct {
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// anthropicTool is a tool as Anthropic's messages API takes it.
type anthropicTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// listTools describes the tools in the shape of a provider's API, OpenAI's by default, so that a client can pass the
// list on unchanged. It answers invalid_value for another format.
func (s *Server) listTools(_ context.Context, c *call[nothing]) (toolList, error) {
	var shape func(tools.Tool) any
	switch c.query("format") {
	case "", "openai":
		shape = func(t tools.Tool) any {
			return openAITool{"function", openAIFunction{t.Name, t.Description, t.InputSchema}}
		}
	case "anthropic":
		shape = func(t tools.Tool) any { return anthropicTool{t.Name, t.Description, t.InputSchema} }
	case "mcp":
		shape = func(t tools.Tool) any { return mcp.Describe(t) }
	default:
		return toolList{}, invalidQuery("format", "invalid_value", "must be openai, anthropic or mcp")
	}
	out := toolList{Tools: []any{}}
	for _, t := range tools.All() {
		out.Tools = append(out.Tools, shape(t))
	}
	return out, nil
}

func (s *Server) callTool(ctx context.Context, c *call[tools.Call]) (tools.Result, error) {
	return s.engine.Tools.Call(ctx, c.caller, c.once, c.path("project"), c.body)
}
