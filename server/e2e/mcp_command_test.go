package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMCPCommandRefuses: a command that cannot work says so in one line on stderr, and stdout has only messages of the
// protocol.
func TestMCPCommandRefuses(t *testing.T) {
	server := embedded(t, t.TempDir())
	for name, test := range map[string]struct {
		key  string
		args []string
		want string
	}{
		"a folder in use": {"", []string{"--data", server.data},
			"in use by another process; if that is a server, use it: --server URL"},
		"no key":            {"", []string{"--server", server.url}, "MNEME_KEY"},
		"an unknown key":    {"mk_none", []string{"--server", server.url}, "unknown_key"},
		"an unknown server": {server.key, []string{"--server", "http://127.0.0.1:1"}, "server_unreachable"},
		"no server at all":  {server.key, []string{"--server", "localhost"}, "not the URL of a server"},
		"an odd server":     {server.key, []string{"--server", server.url + "/elsewhere"}, "not_found"},
		"no such project":   {server.key, []string{"--server", server.url, "--project", "none"}, `no project "none"`},
		"none here either":  {"", []string{"--data", t.TempDir(), "--project", "none"}, `no project "none"`},
		"an odd flag":       {"", []string{"--key", "secret"}, "-key"},
		"a word":            {"", []string{"stdio"}, "mcp takes flags only"},
	} {
		cmd, log := mcpCommand(t, test.key, test.args...)
		out, err := cmd.Output()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if last := lines[len(lines)-1]; err == nil || len(out) > 0 || !strings.HasPrefix(last, "mneme: ") ||
			!strings.Contains(last, test.want) {
			t.Errorf("%s: %v, stdout %q, stderr %q", name, err, out, log)
		}
	}
}

// TestMCPCommandEnds: the command ends without an error and without losing anything when its client is gone or it is
// asked to stop.
func TestMCPCommandEnds(t *testing.T) {
	data := t.TempDir()
	for _, end := range []string{"stdin", "signal"} {
		cmd, log := mcpCommand(t, "", "--data", data, "--session", "desk")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stuck := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
			`"capabilities":{},`+
			`"clientInfo":{"name":"x","version":"1"}}}`+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_store",`+
			`"arguments":{"key":%q,"content":"c","category":"daily"}}}`+"\n", end)
		answers := json.NewDecoder(out)
		for id := range 2 {
			var answer struct {
				JSONRPC string
				ID      int
				Error   any
			}
			if err := answers.Decode(&answer); err != nil || answer.JSONRPC != "2.0" || answer.ID != id ||
				answer.Error != nil {
				t.Errorf("%+v, %v, stderr %s", answer, err, log)
			}
		}
		if end == "stdin" {
			in.Close()
		} else {
			cmd.Process.Signal(syscall.SIGTERM)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v, stderr %s", end, err, log)
		}
		stuck.Stop()
	}
	c := converse(embedded(t, data).client(t), "s")
	got := c.keys("session_id=desk")
	slices.Sort(got)
	equal(t, "kept", got, []string{"signal", "stdin"})
}
