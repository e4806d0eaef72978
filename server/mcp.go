package server

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/tools"
)

// serveMCP answers messages of the protocol. Its paths name no project and no session, so a header or the query does.
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
	callTool := func(_ context.Context, call tools.Call) (tools.Result, error) {
		call.SessionID = session
		// The SDK's context knows nothing of the time that the edge gives a request.
		return s.engine.Tools.Call(ctx, caller, access.Once{}, project, call)
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
	return blob{contentType: r.ContentType(), body: r.Body.Bytes(), code: r.Status}, nil
}

// said is what a header says, else what the query does. It is a copy.
func (x *exchange) said(header, query string) string {
	if v := x.c.Request().Header.Peek(header); len(v) > 0 {
		return string(bytes.TrimSpace(v))
	}
	return x.query(query)
}

// checkOrigin refuses pages of other sites, as the protocol asks. Such a page knows no key; this is the second door.
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
