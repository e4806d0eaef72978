package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/server/mcp"
)

// toolList is the list of tools in the requested format.
type toolList struct {
	Tools []any `json:"tools"`
}

// listTools describes the tools in the format of a provider's API, by default OpenAI's, so that a client can pass the
// list on unchanged. It fails with invalid_value for an unknown format.
func (s *Server) listTools(_ context.Context, c *call[nothing]) (toolList, error) {
	var shape func(tools.Tool) any
	switch c.query("format") {
	case "", "openai":
		shape = func(t tools.Tool) any { return t.For(chat.OpenAIChat) }
	case "anthropic":
		shape = func(t tools.Tool) any { return t.For(chat.AnthropicMessages) }
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
