package server

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
)

// serveMCP answers messages of the Model Context Protocol. The path names neither project nor session, so a header or
// the query does; a key for one project need not name it. It answers origin_refused to web pages and mcp_refused to
// bodies that are not messages.
func (s *Server) serveMCP(ctx context.Context, c *call[rawBody]) (blob, error) {
	if err := c.checkOrigin(); err != nil {
		return blob{}, err
	}
	caller, project := c.caller, c.said("X-Mneme-Project", "project")
	if project == "" && len(caller.Projects) == 1 {
		project = caller.Projects[0]
	}
	if project == "" {
		project = ident.DefaultProject
	}
	session := c.said("X-Mneme-Session", "session")
	namespace, err := c.memoryNamespace(c.said(headerNamespace, "memory_namespace"))
	if err != nil {
		return blob{}, err
	}
	var turn sync.Mutex // the SDK calls the tools of a batch at once, but the request has one place
	callTool := func(_ context.Context, call tools.Call) (tools.Result, error) {
		turn.Lock()
		defer turn.Unlock()
		call.SessionID, call.MemoryNamespace = session, namespace
		// The edge's ctx is used, because the SDK's own has no deadline.
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

// headerNamespace names the namespace that bounds the memories of a request: its names, outermost first, each escaped as a
// part of a URL's path, with "/" between them.
const headerNamespace = "X-Mneme-Memory-Namespace"

// memoryNamespace reads what headerNamespace says. It answers the codes of a namespace.
func (x *exchange) memoryNamespace(said string) (namespace []string, err error) {
	if said == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(said, "/") {
		name, err := url.PathUnescape(part)
		if err != nil {
			return nil, invalidQuery(headerNamespace, "invalid_value", "must be names that are escaped as in a URL's path")
		}
		namespace = append(namespace, name)
	}
	return namespace, ident.CheckNamespace(headerNamespace, namespace)
}

// said is a copy of a header's value, or of the query's where there is no such header.
func (x *exchange) said(header, query string) string {
	if v := x.c.Request().Header.Peek(header); len(v) > 0 {
		return string(bytes.TrimSpace(v))
	}
	return x.query(query)
}

// checkOrigin refuses requests of web pages of other sites with origin_refused, as the protocol demands. A page would
// need a key as well, so this is a second defence.
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
	return refuse(http.StatusForbidden, "origin_refused", "requests from pages of other origins are not taken")
}
