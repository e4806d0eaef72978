package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func environment(vars map[string]string) lookup {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

func yamlFile(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "mneme.yaml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A flag wins over the environment, that over the file, that over the default, each for itself.
func TestConfigPrecedence(t *testing.T) {
	file := yamlFile(t, "# ours\nlisten: file:1\ndata: /file\nroot_key: file-key\n")
	for _, c := range []struct {
		args []string
		env  map[string]string
		want config
	}{
		{nil, nil, config{Listen: "127.0.0.1:7700", Data: "./mneme-data"}},
		{[]string{"--config", file}, nil, config{Listen: "file:1", Data: "/file", RootKey: "file-key"}},
		{nil, map[string]string{"MNEME_CONFIG": file, "MNEME_LISTEN": "env:2", "MNEME_ROOT_KEY": ""},
			config{Listen: "env:2", Data: "/file", RootKey: "file-key"}},
		{[]string{"--config", file, "--listen=flag:3"}, map[string]string{"MNEME_LISTEN": "env:2", "MNEME_DATA": "/env"},
			config{Listen: "flag:3", Data: "/env", RootKey: "file-key"}},
		{[]string{"--config", yamlFile(t, ""), "--root-key", "flag-key"}, map[string]string{
			"AGENTS_CONVERSATION_HISTORY_MAX_OUTPUT_TOKENS_DEFAULT": "4000"},
			config{Listen: "127.0.0.1:7700", Data: "./mneme-data", RootKey: "flag-key", HistoryMaxTokens: 4000}},
	} {
		if got, err := readConfig(c.args, environment(c.env), io.Discard); err != nil || got != c.want {
			t.Errorf("%v %v: %+v, %v", c.args, c.env, got, err)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	const tokens = "AGENTS_CONVERSATION_HISTORY_MAX_OUTPUT_TOKENS_DEFAULT"
	for _, c := range []struct {
		args []string
		env  map[string]string
		want string
	}{
		{[]string{"--config", yamlFile(t, "listn: a\nroot-key: b\ndata: c\n")}, nil, "unknown keys: listn, root-key"},
		{[]string{"--config", yamlFile(t, "listen: [a]\n")}, nil, "line 1: listen must be a text"},
		{[]string{"--config", yamlFile(t, "listen: a\nlisten: b\n")}, nil, `already defined`},
		{[]string{"--config", yamlFile(t, "- a\n")}, nil, "cannot unmarshal"},
		{[]string{"--config", "/nowhere/mneme.yaml"}, nil, "no such file"},
		{[]string{"--store", "mysql://x"}, nil, "--store must be postgres://"},
		{[]string{"--store", "/var/lib/mneme"}, nil, "--store must be postgres://"},
		{[]string{"--store", "postgres://me:secret@host:port/x"}, nil, "--store: cannot parse"},
		{nil, map[string]string{"MNEME_STORE": "postgres://me:secret@host/x?sslmode=perhaps"}, "--store: cannot parse"},
		{nil, map[string]string{tokens: "many"}, tokens},
		{nil, map[string]string{tokens: "0"}, tokens},
	} {
		if _, err := readConfig(c.args, environment(c.env), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v %v: %v", c.args, c.env, err)
		}
	}
}
