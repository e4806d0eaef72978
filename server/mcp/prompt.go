package mcp

import (
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
)

// promptLimit is the number of memories in the prompt.
const promptLimit = 10

// addPrompt offers a prompt with which a user gives a model the memories about a topic.
func (s *Server) addPrompt() {
	s.sdk.AddPrompt(&sdk.Prompt{Name: "recall", Title: "Recall memories",
		Description: "Gives the model the memories about something.",
		Arguments: []*sdk.PromptArgument{{Name: "about", Title: "About", Required: true,
			Description: "Words to search for, or * for the most recent memories."}}}, s.prompt)
}

// prompt returns the results of the tool memory_recall as a user message.
func (s *Server) prompt(ctx context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
	about := req.Params.Arguments["about"]
	arguments, err := json.Marshal(map[string]any{"query": about, "limit": promptLimit})
	if err != nil {
		return nil, fmt.Errorf("encoding arguments: %w", err)
	}
	r, err := s.call(ctx, tools.Call{Name: tools.NameRecall, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	if r.IsError {
		return nil, invalidParams("invalid_value", r.Content, nil)
	}
	text := fmt.Sprintf("This is what long-term memory holds about %q. Use what fits, and ask where it contradicts "+
		"itself.\n\n%s", about, r.Content)
	return &sdk.GetPromptResult{Description: "Memories about " + about, Messages: []*sdk.PromptMessage{
		{Role: "user", Content: &sdk.TextContent{Text: text}}}}, nil
}
