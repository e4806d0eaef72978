package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
)

// serveMCP serves the Model Context Protocol. The path names no project and no session, so a header or the query
// does; a key for one project does not have to name it. It fails with origin_refused for web pages and mcp_refused
// for bodies that are not messages.
func (s *Server) serveMCP(ctx context.Context, c *call[rawBody]) (blob, error) {
	if err := c.checkOrigin(); err != nil {
		return blob{}, err
	}
	caller, project := c.caller, c.said(headerProject, "project")
	if project == "" && len(caller.Projects) == 1 {
		project = caller.Projects[0]
	}
	if project == "" {
		project = ident.DefaultProject
	}
	session := c.said(headerSession, "session")
	namespace, err := ident.ReadNamespace(headerNamespace, cmp.Or(c.headerText(headerNamespace), c.query("memory_namespace")))
	if err != nil {
		return blob{}, err
	}
	var turn sync.Mutex // the SDK runs the calls of a batch concurrently, but the request has only one place
	callTool := func(_ context.Context, call tools.Call) (tools.Result, error) {
		turn.Lock()
		defer turn.Unlock()
		call.SessionID, call.MemoryNamespace = session, namespace
		// Use the request's ctx, because the SDK's has no deadline.
		return s.engine.Tools.Call(ctx, caller, ident.Once{}, project, call)
	}
	header := http.Header{}
	for name, value := range c.c.Request().Header.All() {
		header.Add(string(name), string(value))
	}
	r, err := s.mcp.Post(ctx, header, slices.Clone(c.raw), callTool)
	if err != nil {
		return blob{}, err
	}
	if r.Refused() {
		return blob{}, refuse(r.Status, "mcp_refused", "%s", strings.TrimSpace(r.Body.String()))
	}
	return blob{contentType: r.ContentType(), body: r.Body.Bytes(), status: r.Status}, nil
}

// headerNamespace is the header with the namespace that limits the memories of a request: its names, outermost first,
// each escaped as a URL path segment, separated by "/".
const headerNamespace = "X-Mneme-Memory-Namespace"

// said returns the id in a header, or in the query parameter if the header is absent.
func (x *exchange) said(header, query string) string { return cmp.Or(x.header(header), x.query(query)) }

// checkOrigin refuses requests from web pages of other origins with origin_refused, as the protocol demands. Such a
// page would also need a key, so this is a second defence.
func (x *exchange) checkOrigin() error {
	h := &x.c.Request().Header
	r := http.Request{Method: http.MethodPost, Host: string(h.Host()), Header: http.Header{}}
	for _, name := range [...]string{"Origin", "Sec-Fetch-Site"} {
		if v := h.Peek(name); len(v) > 0 {
			r.Header.Set(name, string(v))
		}
	}
	if http.NewCrossOriginProtection().Check(&r) == nil {
		return nil
	}
	return refuse(http.StatusForbidden, "origin_refused", "requests from pages of other origins are refused")
}
