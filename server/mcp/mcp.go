// Package mcp speaks the Model Context Protocol, so that clients of it reach the tools: over HTTP, on which every
// message stands for itself, and on stdin and stdout. It knows no rule of memories; whoever uses it carries calls out.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-0906e6bc/mneme/engine"
)

// instructions are what a client tells its model of the tools as a whole.
const instructions = "Long-term memory that outlives conversations. Recall before you answer what may depend on earlier " +
	"ones; store what will matter later; forget what is wrong or what you are asked to forget."

// Service is what a server of the protocol is made of.
type Service struct {
	Tools []*sdk.Tool
	// Call carries a call out. Its errors are those that a model can do nothing about: *engine.Error are told to the
	// client, others only to Log.
	Call    func(ctx context.Context, call engine.ToolCall) (engine.ToolResult, error)
	Session string // session_id of each call
	Version string // of Mneme, as clients show it
	Log     *slog.Logger
}

// Tool describes a tool as the protocol has it.
func Tool(t engine.Tool) *sdk.Tool {
	destructive, openWorld := t.Destructive, false // the tools reach nothing but Mneme
	return &sdk.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema,
		Annotations: &sdk.ToolAnnotations{Title: t.Title, ReadOnlyHint: t.ReadOnly, DestructiveHint: &destructive,
			IdempotentHint: t.Idempotent, OpenWorldHint: &openWorld},
	}
}

// Tools describes all tools.
func Tools(tools []engine.Tool) []*sdk.Tool {
	out := make([]*sdk.Tool, len(tools))
	for i, t := range tools {
		out[i] = Tool(t)
	}
	return out
}

// server makes the protocol's side of the service.
func (s Service) server() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "mneme", Title: "Mneme", Version: s.Version}, &sdk.ServerOptions{
		Instructions: instructions,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}, // whose list never changes
	})
	for _, t := range s.Tools {
		server.AddTool(t, s.handle)
	}
	return server
}

// handle is called in a goroutine of the SDK's, where a panic would end the program.
func (s Service) handle(ctx context.Context, req *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, s.rpcError(req.Params.Name, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	r, err := s.Call(ctx, engine.ToolCall{Name: req.Params.Name, Arguments: req.Params.Arguments, SessionID: s.Session})
	if err != nil {
		return nil, s.rpcError(req.Params.Name, err)
	}
	result = &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: r.Content}}, IsError: r.IsError}
	if !r.IsError { // clients hold what is structured against the tool's schema, which is that of successes
		result.StructuredContent = r.Structured
	}
	return result, nil
}

// errorData is what programs read of an error.
type errorData struct {
	Code   string              `json:"code"`
	Errors []engine.FieldError `json:"errors,omitempty"`
}

// rpcError words an error for the client. Words that were not meant for it stay in the log.
func (s Service) rpcError(tool string, err error) error {
	out, data := &jsonrpc.Error{Code: jsonrpc.CodeInternalError}, errorData{}
	fault, told := errors.AsType[*engine.Error](err)
	switch {
	case told && fault.Kind != engine.Internal:
		out.Message, data = fault.Detail, errorData{fault.Code, fault.Fields}
		if fault.Kind == engine.Invalid || fault.Kind == engine.TooLarge {
			out.Code = jsonrpc.CodeInvalidParams
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		out.Message, data.Code = "the call did not come to its end; try again", "deadline_exceeded"
	default:
		s.Log.Error("tool call", "tool", tool, "error", err)
		out.Message, data.Code = "something went wrong in Mneme; its log has more", "internal"
	}
	raw, err := json.Marshal(data)
	if err != nil {
		panic("encoding an error: " + err.Error()) // strings and numbers only
	}
	out.Data = raw
	return out
}
