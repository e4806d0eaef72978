// Package mcp offers the memory tools, and memories as resources, to clients of the Model Context Protocol: over HTTP, where every message is
// independent of the others, and on stdin and stdout. It only translates. A Call, which the user of the package gives,
// carries a tool's call out, in this process or (Remote) on a running server.
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
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
)

// instructions is what a client tells its model about the tools as a whole.
const instructions = "Long-term memory that outlives conversations. Recall before you answer what may depend on " +
	"earlier " +
	"ones; store what will matter later; forget what is wrong or what you are asked to forget."

// Call carries out a tool's call. What the model itself can correct is a result with IsError; an error is for the
// client. A *fault.Error is told to the client, any other error only to the log.
type Call func(ctx context.Context, call tools.Call) (tools.Result, error)

// Server speaks the protocol for a fixed list of tools. It keeps no state of its clients, and any number may use it.
type Server struct {
	sdk  *sdk.Server
	http http.Handler
	log  *slog.Logger
}

// New makes a server that offers tools. version is Mneme's version, which clients show.
func New(tools []*Tool, version string, log *slog.Logger) *Server {
	s := &Server{log: log, sdk: sdk.NewServer(&sdk.Implementation{Name: "mneme", Title: "Mneme", Version: version},
		&sdk.ServerOptions{
			Instructions: instructions,
			// The lists of tools and prompts never change. That of resources does, but a server that keeps nothing of its
			// clients has nobody to tell.
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Prompts: &sdk.PromptCapabilities{},
				Resources: &sdk.ResourceCapabilities{}},
		})}
	for _, t := range tools {
		s.sdk.AddTool(t, s.handle)
	}
	s.addResources()
	s.addPrompt()
	s.http = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: -1, // the edge bounds bodies
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

// callKey is where a context holds a request's Call, because the SDK hands a tool nothing but the context.
type callKey struct{}

// with gives a context that carries call.
func with(ctx context.Context, call Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// handle carries out a client's call of a tool.
func (s *Server) handle(ctx context.Context, req *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
	r, err := s.call(ctx, tools.Call{Name: req.Params.Name, Arguments: req.Params.Arguments})
	if err != nil {
		return nil, err
	}
	result = &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: r.Content}}, IsError: r.IsError}
	if !r.IsError { // the tool's output schema, which clients check against, describes successes only
		result.StructuredContent = r.Structured
	}
	return result, nil
}

// call carries out a tool's call. The SDK runs handlers in goroutines, where a panic would end the program.
func (s *Server) call(ctx context.Context, call tools.Call) (r tools.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.rpcError(call.Name, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	if r, err = ctx.Value(callKey{}).(Call)(ctx, call); err != nil {
		err = s.rpcError(call.Name, err)
	}
	return r, err
}

// errorData is the part of an error that programs read.
type errorData struct {
	Code   string             `json:"code"`
	Errors []fault.FieldError `json:"errors,omitempty"`
}

// rpcError words an error for the client. An error that was not written for clients becomes `internal`, and its text
// goes to the log alone.
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
	out.Data = data.encode()
	return out
}

func (d errorData) encode() json.RawMessage {
	raw, err := json.Marshal(d)
	if err != nil {
		panic("encoding an error: " + err.Error()) // strings and numbers only
	}
	return raw
}

// invalidParams says what is wrong with a request for a resource or a prompt.
func invalidParams(code, detail string, fields []fault.FieldError) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: detail, Data: errorData{code, fields}.encode()}
}
