package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestMCPConfig(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  map[string]string
		want mcpConfig
	}{
		{nil, nil, mcpConfig{Data: "./mneme-data", Project: "default"}},
		{nil, map[string]string{"MNEME_DATA": "/env", "MNEME_PROJECT": "p", "MNEME_SESSION": "s", "MNEME_SERVER": "",
			"MNEME_MEMORY_NAMESPACE": "users/ada%2Fb"},
			mcpConfig{Data: "/env", Project: "p", Session: "s", Namespace: []string{"users", "ada/b"}}},
		{[]string{"--server", "http://flag", "--project=q"}, map[string]string{"MNEME_SERVER": "http://env",
			"MNEME_KEY":     "mk_x",
			"MNEME_PROJECT": "p", "MNEME_SESSION": "s"},
			mcpConfig{Data: "./mneme-data", Server: "http://flag", Key: "mk_x", Project: "q", Session: "s"}},
	} {
		if got, err := readMCPConfig(c.args, environment(c.env), io.Discard); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v %v: %+v, %v", c.args, c.env, got, err)
		}
	}
	if _, err := readMCPConfig([]string{"--server", "http://x"}, noEnvironment, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "MNEME_KEY") {
		t.Errorf("no key: %v", err)
	}
	if _, err := readMCPConfig([]string{"--memory-namespace", "users/%zz"}, noEnvironment, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "--memory-namespace") {
		t.Errorf("a wrong namespace: %v", err)
	}
}

// docs/MCP.md names existing flags and variables, and its configurations are JSON with valid arguments.
func TestMCPDocument(t *testing.T) {
	raw, err := os.ReadFile("docs/MCP.md")
	if err != nil {
		t.Fatal(err)
	}
	var help bytes.Buffer
	if err := run(t.Context(), []string{"mcp", "-h"}, noEnvironment, io.Discard, &help); err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`MNEME_[A-Z]+`)
	documented := names.FindAllString(string(raw), -1)
	for _, name := range names.FindAllString(help.String(), -1) {
		if !slices.Contains(documented, name) {
			t.Errorf("%s is not documented", name)
		}
	}
	for _, name := range documented {
		if !strings.Contains(help.String(), name) {
			t.Errorf("%s is documented and there is none", name)
		}
	}
	blocks := regexp.MustCompile(`(?m)^    \{\n(    .*\n)+?    \}\n`).FindAllString(string(raw), -1)
	for _, block := range blocks {
		var client struct {
			Servers map[string]struct {
				Command, Type, URL string
				Args               []string
				Env, Headers       map[string]string
			} `json:"mcpServers"`
		}
		if err := json.Unmarshal([]byte(block), &client); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
		for _, server := range client.Servers {
			if server.Command == "" {
				if server.URL == "" || server.Headers["Authorization"] == "" {
					t.Errorf("neither command nor URL and key in\n%s", block)
				}
			} else if server.Args[0] != "mcp" {
				t.Errorf("runs %q", server.Args)
			} else if _, err := readMCPConfig(server.Args[1:], environment(server.Env), io.Discard); err != nil {
				t.Errorf("%v: %v", server.Args, err)
			}
		}
	}
	if len(blocks) != 3 {
		t.Errorf("%d configurations, want 3", len(blocks))
	}
}
