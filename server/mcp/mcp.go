// Package mcp speaks the Model Context Protocol, so that clients of it reach the tools: over HTTP, on which every
// message stands for itself, and on stdin and stdout. It knows no rule of memories; whoever uses it carries calls out.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/tools"
)

// instructions are what a client tells its model of the tools as a whole.
const instructions = "Long-term memory that outlives conversations. Recall before you answer what may depend on " +
	"earlier " +
	"ones; store what will matter later; forget what is wrong or what you are asked to forget."

// Call carries a tool's call out. Its errors are those that a model can do nothing about: *engine.Error are told to the
// client, others only to the log.
type Call func(ctx context.Context, call tools.ToolCall) (tools.ToolResult, error)

// Server is the protocol's side of the tools. It keeps nothing of who uses them.
type Server struct {
	sdk  *sdk.Server
	http http.Handler
	log  *slog.Logger
}

// New makes a server of tools. The version is Mneme's, as clients show it.
func New(tools []*Tool, version string, log *slog.Logger) *Server {
	s := &Server{log: log, sdk: sdk.NewServer(&sdk.Implementation{Name: "mneme", Title: "Mneme", Version: version},
		&sdk.ServerOptions{
			Instructions: instructions,
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}, // whose list never changes
		})}
	for _, t := range tools {
		s.sdk.AddTool(t, s.handle)
	}
	s.http = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: -1, // the edge has bounded it
	})
	return s
}

// Tool is a tool as the protocol describes it.
type Tool = sdk.Tool

// Describe describes a tool.
func Describe(t tools.Tool) *Tool {
	destructive, openWorld := t.Destructive, false // the tools reach nothing but Mneme
	return &Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema,
		OutputSchema: t.OutputSchema,
		Annotations: &sdk.ToolAnnotations{Title: t.Title, ReadOnlyHint: t.ReadOnly, DestructiveHint: &destructive,
			IdempotentHint: t.Idempotent, OpenWorldHint: &openWorld},
	}
}

// DescribeAll describes tools.
func DescribeAll(tools []tools.Tool) []*Tool {
	out := make([]*Tool, len(tools))
	for i, t := range tools {
		out[i] = Describe(t)
	}
	return out
}

// callKey is where a context holds the Call: of what belongs to one request, the SDK hands nothing else on.
type callKey struct{}

func with(ctx context.Context, call Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// handle is called in a goroutine of the SDK's, where a panic would end the program.
func (s *Server) handle(ctx context.Context, req *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, s.rpcError(req.Params.Name, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	call := ctx.Value(callKey{}).(Call)
	r, err := call(ctx, tools.ToolCall{Name: req.Params.Name, Arguments: req.Params.Arguments})
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
	Code   string             `json:"code"`
	Errors []fault.FieldError `json:"errors,omitempty"`
}

// rpcError words an error for the client. Words that were not meant for it stay in the log.
func (s *Server) rpcError(tool string, err error) error {
	out, data := &jsonrpc.Error{Code: jsonrpc.CodeInternalError}, errorData{}
	wrong, told := errors.AsType[*fault.Error](err)
	switch {
	case told && wrong.Kind != fault.Internal:
		out.Message, data = wrong.Detail, errorData{wrong.Code, wrong.Fields}
		if wrong.Kind == fault.Invalid || wrong.Kind == fault.TooLarge {
			out.Code = jsonrpc.CodeInvalidParams
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		out.Message, data.Code = "the call did not come to its end; try again", "deadline_exceeded"
	default:
		s.log.Error("tool call", "tool", tool, "error", err)
		out.Message, data.Code = "something went wrong in Mneme; its log has more", "internal"
	}
	raw, err := json.Marshal(data)
	if err != nil {
		panic("encoding an error: " + err.Error()) // strings and numbers only
	}
	out.Data = raw
	return out
}
