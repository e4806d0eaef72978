// Package mcp offers the memory tools, and memories as resources, to clients of the Model Context Protocol: over
// HTTP, where every message is independent of the others, and over stdin and stdout. The package only translates. It
// passes each tool call to a Call that its user provides, which runs the tool in this process or (Remote) on a
// running server.
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

// instructions is the text by which a client describes the tools to its model.
const instructions = "Long-term memory that outlives conversations. Recall before you answer what may depend on " +
	"earlier " +
	"ones; store what will matter later; forget what is wrong or what you are asked to forget."

// Call runs a tool call. Errors that the model can correct are results with IsError set. Other errors are for the
// client: it gets the text of a *fault.Error, while any other error only goes to the log.
type Call func(ctx context.Context, call tools.Call) (tools.Result, error)

// Server speaks the protocol for a fixed list of tools. It keeps no state about clients and may serve any number of
// them.
type Server struct {
	sdk  *sdk.Server
	http http.Handler
	log  *slog.Logger
}

// New returns a server that offers tools. version is Mneme's version, which clients show.
func New(tools []*Tool, version string, log *slog.Logger) *Server {
	s := &Server{log: log, sdk: sdk.NewServer(&sdk.Implementation{Name: "mneme", Title: "Mneme", Version: version},
		&sdk.ServerOptions{
			Instructions: instructions,
			// The lists of tools and prompts never change. The list of resources does, but a stateless server has no
			// client to notify.
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Prompts: &sdk.PromptCapabilities{},
				Resources: &sdk.ResourceCapabilities{}},
		})}
	for _, t := range tools {
		s.sdk.AddTool(t, s.handle)
	}
	s.addResources()
	s.addPrompt()
	s.http = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: -1, // the HTTP server limits bodies
	})
	return s
}

// Tool is a tool as the protocol describes it.
type Tool = sdk.Tool

// Describe describes a tool.
func Describe(t tools.Tool) *Tool {
	destructive, openWorld := t.Destructive, false // the tools reach nothing outside Mneme
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

// callKey is the context key of a request's Call, because the SDK passes only the context to a tool.
type callKey struct{}

// with returns a context that carries call.
func with(ctx context.Context, call Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// handle runs a client's tool call.
func (s *Server) handle(ctx context.Context, req *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
	r, err := s.call(ctx, tools.Call{Name: req.Params.Name, Arguments: req.Params.Arguments})
	if err != nil {
		return nil, err
	}
	result = &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: r.Content}}, IsError: r.IsError}
	if !r.IsError { // clients check results against the tool's output schema, which describes only successes
		result.StructuredContent = r.Structured
	}
	return result, nil
}

// call runs a tool call. The SDK runs handlers in goroutines, where a panic would end the program.
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

// errorData is the machine-readable part of an error.
type errorData struct {
	Code   string             `json:"code"`
	Errors []fault.FieldError `json:"errors,omitempty"`
}

// rpcError returns the error for the client. If err was not written for clients, its code is `internal` and its text
// only goes to the log.
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
		out.Message, data.Code = "the call did not complete; try again", "deadline_exceeded"
	default:
		s.log.Error("tool call", "tool", tool, "error", err)
		out.Message, data.Code = "Mneme failed; its log says more", "internal"
	}
	out.Data = data.encode()
	return out
}

func (d errorData) encode() json.RawMessage {
	raw, err := json.Marshal(d)
	if err != nil {
		panic("encoding an error: " + err.Error()) // cannot fail: it holds only strings and numbers
	}
	return raw
}

// invalidParams returns the error for a malformed request for a resource or a prompt.
func invalidParams(code, detail string, fields []fault.FieldError) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: detail, Data: errorData{code, fields}.encode()}
}
