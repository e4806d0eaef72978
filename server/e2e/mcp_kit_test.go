package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpSession is a session with the program by the SDK's own client.
type mcpSession struct {
	t testing.TB
	*mcp.ClientSession
}

// withHeaders adds headers to all requests.
type withHeaders map[string]string

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return transport.RoundTrip(r)
}

func connect(t testing.TB, over mcp.Transport, version string) (*mcpSession, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "acceptance", Version: "1"}, nil)
	s, err := client.Connect(ctx, over, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { s.Close() })
	return &mcpSession{t, s}, nil
}

// overHTTP returns the transport to a server's /mcp. Headers are pairs of name and value.
func (c client) overHTTP(query string, headers ...string) mcp.Transport {
	h := withHeaders{"Authorization": "Bearer " + c.key}
	for i := 0; i+1 < len(headers); i += 2 {
		h[headers[i]] = headers[i+1]
	}
	return &mcp.StreamableClientTransport{Endpoint: c.url + "/mcp" + query, MaxRetries: -1,
		HTTPClient: &http.Client{Transport: h, Timeout: patience}}
}

// mcpCommand returns `mneme mcp`, with its stderr in the log.
func mcpCommand(t testing.TB, key string, args ...string) (*exec.Cmd, *tail) {
	t.Helper()
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	cmd, log := exec.Command(binary, append([]string{"mcp"}, args...)...), &tail{}
	cmd.Env = append(environment(), "MNEME_KEY="+key)
	cmd.Stderr = log
	return cmd, log
}

// Write lets a tail be used as an io.Writer.
func (l *tail) Write(p []byte) (int, error) {
	l.add(string(p))
	return len(p), nil
}

func overStdio(t testing.TB, key string, args ...string) mcp.Transport {
	cmd, log := mcpCommand(t, key, args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("mneme mcp said: %s", log)
		}
	})
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}
}

// mustConnect fails the test if there is no session.
func mustConnect(t testing.TB, over mcp.Transport) *mcpSession {
	t.Helper()
	s, err := connect(t, over, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// use calls a tool, which must return a result, and returns the text for the model.
func (s *mcpSession) use(name string, arguments any) (text string, r *mcp.CallToolResult) {
	s.t.Helper()
	r, err := s.try(name, arguments)
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	if len(r.Content) != 1 {
		s.t.Fatalf("%s: %d contents", name, len(r.Content))
	}
	return r.Content[0].(*mcp.TextContent).Text, r
}

func (s *mcpSession) try(name string, arguments any) (*mcp.CallToolResult, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	return s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
}

// refused returns the code of Mneme in an error of the protocol.
func refused(t testing.TB, err error) (code string, detail string) {
	t.Helper()
	var data struct{ Code string }
	rpc, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		t.Fatalf("no error of the protocol: %v", err)
	}
	if err := json.Unmarshal(rpc.Data, &data); err != nil {
		t.Fatalf("%v in %s", err, rpc.Data)
	}
	return data.Code, rpc.Message
}
