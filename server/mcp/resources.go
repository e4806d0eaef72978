package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
)

// The URI of a memory is memory://CATEGORY/KEY, with the parts of its namespace before the key, each escaped as a URL
// path segment. Resources are read through the tools memory_list and memory_get, so they need no other access to
// memories.
const (
	resourceScheme   = "memory"
	resourceTemplate = resourceScheme + "://{category}/{+name}"
	resourceType     = "text/plain"
	resourcePage     = 50
	describedBytes   = 120
)

// addResources offers memories as resources.
func (s *Server) addResources() {
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{Name: "memory", Title: "A memory", URITemplate: resourceTemplate,
		MIMEType: resourceType, Description: "A memory by its category (core, daily or conversation) and its key. The names " +
			"of its namespace come before the key, if it has one."}, s.readResource)
	s.sdk.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			list, ok := req.(*sdk.ListResourcesRequest)
			if !ok {
				return next(ctx, method, req)
			}
			return s.listResources(ctx, list, next)
		}
	})
}

// listResources lists memories. The SDK cannot, because it keeps one list for all clients.
func (s *Server) listResources(ctx context.Context, req *sdk.ListResourcesRequest, next sdk.MethodHandler) (sdk.Result,
	error) {
	ask := map[string]any{"limit": resourcePage}
	if req.Params != nil {
		ask["cursor"] = req.Params.Cursor
		req.Params.Cursor = ""
	}
	empty, err := next(ctx, "resources/list", req)
	if err != nil {
		return nil, err
	}
	var listed tools.Listed
	if err := s.look(ctx, tools.NameList, ask, &listed); err != nil {
		return nil, err
	}
	out := empty.(*sdk.ListResourcesResult)
	for i := range listed.Memories {
		m := &listed.Memories[i]
		first, _, _ := strings.Cut(strings.TrimSpace(m.Content), "\n")
		if runes := []rune(first); len(runes) > describedBytes {
			first = string(runes[:describedBytes]) + "…"
		}
		out.Resources = append(out.Resources, &sdk.Resource{URI: resourceURI(m), Name: m.Key, Description: first,
			MIMEType: resourceType})
	}
	if listed.NextCursor != nil {
		out.NextCursor = *listed.NextCursor
	}
	return out, nil
}

// resourceURI returns the URI of a memory.
func resourceURI(m *tools.Shown) string {
	parts := []string{resourceScheme + ":/", m.Category}
	for _, part := range m.Namespace {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(append(parts, url.PathEscape(m.Key)), "/")
}

// readResource returns the content of a memory.
func (s *Server) readResource(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	missing := sdk.ResourceNotFoundError(req.Params.URI)
	rest, ok := strings.CutPrefix(req.Params.URI, resourceScheme+"://")
	parts := strings.Split(rest, "/")
	for i := range parts {
		part, err := url.PathUnescape(parts[i])
		if ok = ok && err == nil && part != ""; !ok {
			return nil, missing
		}
		parts[i] = part
	}
	if len(parts) < 2 {
		return nil, missing
	}
	ask := map[string]any{"key": parts[len(parts)-1], "namespace": parts[1 : len(parts)-1]}
	var content strings.Builder
	for version := 0; ; {
		var got tools.Got
		if err := s.look(ctx, tools.NameGet, ask, &got); err != nil {
			return nil, err
		}
		if got.Category != parts[0] || got.Key != ask["key"] { // no such memory, or not under this URI
			return nil, missing
		}
		if version != 0 && version != got.Version { // it has changed meanwhile
			content.Reset()
			version, ask["offset"] = 0, 0
			continue
		}
		content.WriteString(got.Content)
		if got.NextOffset == nil {
			break
		}
		version, ask["offset"] = got.Version, *got.NextOffset
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: resourceType,
		Text: content.String()}}}, nil
}

// look calls a read-only tool and decodes its structured result. into is unchanged if the tool failed because the
// memory does not exist.
func (s *Server) look(ctx context.Context, name string, ask map[string]any, into any) error {
	arguments, err := json.Marshal(ask)
	if err != nil {
		return fmt.Errorf("encoding arguments: %w", err)
	}
	r, err := s.call(ctx, tools.Call{Name: name, Arguments: arguments})
	if err != nil {
		return err
	}
	raw, err := json.Marshal(r.Structured)
	if err != nil {
		return fmt.Errorf("encoding an answer: %w", err)
	}
	if !r.IsError {
		return json.Unmarshal(raw, into)
	}
	var failed tools.Failure
	if err := json.Unmarshal(raw, &failed); err != nil || failed.Error.Code == "not_found" {
		return err
	}
	return invalidParams(failed.Error.Code, failed.Error.Detail, failed.Error.Errors)
}
