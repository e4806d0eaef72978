package main

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
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

// A flag takes precedence over the environment, that over the file, and that over the default, separately for each
// option.
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
		{[]string{"--config", file, "--listen=flag:3"}, map[string]string{"MNEME_LISTEN": "env:2",
			"MNEME_DATA": "/env"},
			config{Listen: "flag:3", Data: "/env", RootKey: "file-key"}},
		{[]string{"--static-embeddings", "/model"}, map[string]string{"MNEME_STATIC_EMBEDDINGS": "/env",
			"MNEME_STATIC_EMBEDDINGS_ADOPT": "true"},
			config{Listen: "127.0.0.1:7700", Data: "./mneme-data", StaticEmbeddings: "/model", AdoptStatic: true}},
		{[]string{"--config", yamlFile(t, "static_embeddings: /file\n")}, nil,
			config{Listen: "127.0.0.1:7700", Data: "./mneme-data", StaticEmbeddings: "/file"}},
		{[]string{"--console=false"}, map[string]string{"MNEME_CONSOLE": "true", "MNEME_CONSOLE_ROOT": "true"},
			config{Listen: "127.0.0.1:7700", Data: "./mneme-data", NoConsole: true, ConsoleRoot: true}},
		{[]string{"--config", yamlFile(t, "console: false\n"), "--console-root"}, nil,
			config{Listen: "127.0.0.1:7700", Data: "./mneme-data", NoConsole: true, ConsoleRoot: true}},
		{[]string{"--config", yamlFile(t, ""), "--root-key", "flag-key"}, map[string]string{
			"AGENTS_CONVERSATION_HISTORY_MAX_OUTPUT_TOKENS_DEFAULT": "4000"},
			config{Listen: "127.0.0.1:7700", Data: "./mneme-data", RootKey: "flag-key", Defaults: defaults(t, "history_max_tokens", "4000")}},
		{[]string{"--config", yamlFile(t, "default_summary_enabled: true\ndefault_summary_threshold: 30\n"),
			"--default-summary-mode", "wait"}, map[string]string{"MNEME_DEFAULT_SUMMARY_THRESHOLD": "20",
			"MNEME_DEFAULT_CONVERSATION_RETENTION_DAYS": "90"},
			config{Listen: "127.0.0.1:7700", Data: "./mneme-data", Defaults: defaults(t, "summary_enabled", "true",
				"summary_threshold", "20", "summary_mode", "wait", "conversation_retention_days", "90")}},
		{[]string{"--config", yamlFile(t, "rate_limit: 2.5\nquota_message_bytes: 1000\n"), "--rate-burst", "7"},
			map[string]string{"MNEME_QUOTA_MESSAGE_BYTES": "2000"},
			config{Listen: "127.0.0.1:7700", Data: "./mneme-data", RateLimit: 2.5, RateBurst: 7, MessageBytes: 2000}},
		{[]string{"--log-level", "warn", "--debug-listen", ":0"}, map[string]string{"MNEME_LOG_FORMAT": "json",
			"MNEME_LOG_SAMPLE": "0.25", "MNEME_LOG_LEVEL": "error"},
			config{Listen: "127.0.0.1:7700", Data: "./mneme-data", DebugListen: "127.0.0.1:0",
				Log: logging{slog.LevelWarn, true, 0.25}}},
		{[]string{"--config", yamlFile(t, "log_sample: 0\nlog_level: debug\ndebug_listen: 6060\n")}, nil,
			config{Listen: "127.0.0.1:7700", Data: "./mneme-data", DebugListen: "127.0.0.1:6060",
				Log: logging{Level: slog.LevelDebug}}},
	} {
		if c.want.Log == (logging{}) {
			c.want.Log.Sample = 1
		}
		if got, err := readConfig(c.args, environment(c.env), io.Discard); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v %v: %+v, %v", c.args, c.env, got, err)
		}
	}
}

// The provider of summaries is the main one, except for the options that are set for it. Setting one hides no other.
func TestConfigOfSummaries(t *testing.T) {
	file := yamlFile(t, "openai_api_key: file-key\nopenai_base_url: http://file/v1\nopenai_summary_model: file-small\n")
	main := map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://main/v1", "OPENAI_MODEL": "large"}
	for _, c := range []struct {
		file  string
		env   []map[string]string
		want  providerConfig
		given bool
	}{
		{"", nil, providerConfig{}, false},
		{"", []map[string]string{{"OPENAI_MODEL": "large"}}, providerConfig{Model: "large"}, false},
		{"", []map[string]string{main}, providerConfig{"http://main/v1", "k", "large"}, true},
		{"", []map[string]string{{"OPENAI_API_KEY": "k"}}, providerConfig{Key: "k"}, true},
		{"", []map[string]string{{"OPENAI_SUMMARY_URL": "http://here:1"}}, providerConfig{URL: "http://here:1"}, true},
		{"", []map[string]string{main, {"OPENAI_SUMMARY_URL": "https://other/v1"}},
			providerConfig{"https://other/v1", "k", "large"}, true},
		{"", []map[string]string{main, {"OPENAI_SUMMARY_MODEL": "small", "OPENAI_SUMMARY_API_KEY": "s"}},
			providerConfig{"http://main/v1", "s", "small"}, true},
		{file, nil, providerConfig{"http://file/v1", "file-key", "file-small"}, true},
		{file, []map[string]string{main}, providerConfig{"http://main/v1", "k", "file-small"}, true},
		{file, []map[string]string{{"OPENAI_SUMMARY_MODEL": "small"}}, providerConfig{"http://file/v1", "file-key", "small"},
			true},
		// Errors in the main provider's options do not matter if it is not used.
		{"", []map[string]string{{"OPENAI_BASE_URL": "nonsense", "OPENAI_SUMMARY_URL": "http://here", "OPENAI_EMBEDDING_URL": "http://here",
			"MNEME_PROXY_UPSTREAMS": "none"}},
			providerConfig{URL: "http://here"}, true},
	} {
		env := map[string]string{"AGENTS_CONVERSATION_HISTORY_MAX_OUTPUT_TOKENS_DEFAULT": "4000"}
		for _, vars := range c.env {
			maps.Copy(env, vars)
		}
		if c.file != "" {
			env["MNEME_CONFIG"] = c.file
		}
		got, err := readConfig(nil, environment(env), io.Discard)
		if err != nil || got.Summaries != c.want || got.Summaries.given() != c.given || got.Defaults.HistoryMaxTokens != 4000 {
			t.Errorf("%v: %+v, %v", env, got, err)
		}
		s, err := newSummariser(got.Summaries)
		if err != nil || (s != nil) != c.given {
			t.Errorf("%v: summariser %v, %v", env, s, err)
		}
	}
}

// Keys are not in the arguments, and not in errors about them.
func TestConfigKeepsSecrets(t *testing.T) {
	const secret = "sk-secret"
	for want, env := range map[string]map[string]string{
		"OPENAI_BASE_URL: the provider's URL must begin": {"OPENAI_BASE_URL": "user:" + secret + "@host"},
		"OPENAI_BASE_URL: the provider's URL is not a valid URL": {"OPENAI_BASE_URL": "http://user:" + secret +
			"@ho st"},
		"OPENAI_SUMMARY_URL: the provider's URL must end": {"OPENAI_SUMMARY_URL": "http://host?key=" +
			secret},
		"OPENAI_SUMMARY_URL: the provider's URL names no": {"OPENAI_SUMMARY_URL": "http://user:" + secret +
			"@"},
		"OPENAI_API_KEY: the provider's key has an invalid":     {"OPENAI_API_KEY": secret + "\n"},
		"OPENAI_SUMMARY_API_KEY: the provider's key has an inv": {"OPENAI_SUMMARY_API_KEY": " " + secret},
	} {
		_, err := readConfig(nil, environment(env), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v: %v", env, err)
		}
	}
	var said strings.Builder
	for _, flag := range []string{"openai-api-key", "openai-summary-api-key"} {
		if _, err := readConfig([]string{"--" + flag, secret}, environment(nil), &said); err == nil {
			t.Errorf("--%s is a flag", flag)
		}
	}
	if _, err := readConfig([]string{"-h"}, environment(map[string]string{"OPENAI_API_KEY": secret}),
		&said); !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
	if !strings.Contains(said.String(), "OPENAI_SUMMARY_URL") || strings.Contains(said.String(), secret) {
		t.Errorf("help says:\n%s", said.String())
	}
}

// defaults returns the settings for pairs of name and value.
func defaults(t *testing.T, pairs ...string) *project.Settings {
	t.Helper()
	set := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		set[pairs[i]] = pairs[i+1]
	}
	s, err := project.Defaults(set)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

// Every project setting has a default that an operator can set in each of the three ways, and that takes effect.
func TestConfigOfDefaults(t *testing.T) {
	values := map[string]string{"session_history_depth": "7", "session_history_depth_step": "6",
		"history_max_messages": "8", "history_max_tokens": "9", "history_low_water": "0.6", "history_ledger_tokens": "300",
		"reasoning": "content", "tool_results": "markdown",
		"oversized": "refuse", "summary_enabled": "true", "summary_threshold": "39", "summary_threshold_tokens": "900",
		"summary_keep_last": "11", "summary_model": "small",
		"summary_mode": "wait", "summary_wait_ms": "5", "embedding_model": "near", "embedding_dimensions": "64",
		"embedding_timeout_ms": "40", "conversation_retention_days": "30", "daily_memory_days": "3", "memory_namespace": `["{agent}"]`, "memory_min_trust": "model",
		"decision_retention_days": "4", "decisions": "errors", "tokenizer": "cl100k_base", "token_scale": "1.5", "image_tokens": "earlier", "pipeline": `[{"policy":"tool-pair-trim"}]`, "admit_pipeline": `[{"policy":"dedupe"}]`,
		"upstreams":  `[{"name":"x","protocol":"openai","base_url":"https://api.openai.com/v1","models":["gpt-*"]}]`,
		"proxy_mode": "off", "proxy_on_error": "closed", "proxy_on_disconnect": "finish", "proxy_history": "delta", "proxy_require_session": "true",
		"proxy_tools": `["memory_recall"]`, "proxy_session_fields": `["prompt_cache_key"]`}
	plain := settingsOf(t, nil)
	for _, name := range project.Names() {
		value, known := values[name]
		if !known {
			t.Fatalf("the setting %s is new: give it a value here", name)
		}
		var o option
		for _, o = range newRawConfig().defaultOptions() {
			if o.key == "default_"+name {
				break
			}
		}
		quoted, _ := json.Marshal(value)
		for way, give := range map[string]func() (config, error){
			"flag": func() (config, error) {
				return readConfig([]string{"--" + o.flag, value}, environment(nil), io.Discard)
			},
			"variable": func() (config, error) {
				return readConfig(nil, environment(map[string]string{o.env: value}), io.Discard)
			},
			"file": func() (config, error) {
				return readConfig([]string{"--config", yamlFile(t, o.key+": "+string(quoted)+"\n")}, environment(nil),
					io.Discard)
			},
		} {
			got, err := give()
			if err != nil {
				t.Fatalf("%s as a %s: %v", name, way, err)
			}
			all := settingsOf(t, got.Defaults)
			for other, was := range plain {
				if other == "session_history_depth_step" && name == "session_history_depth" {
					was = json.RawMessage("1") // setting the depth also enables it at each turn
					if string(all[other]) == string(was) {
						continue
					}
				}
				if (string(all[other]) != string(was)) != (other == name) {
					t.Errorf("%s as a %s: %s is %s, was %s", name, way, other, all[other], was)
				}
			}
			if text := strings.Trim(string(all[name]), `"`); text != value {
				t.Errorf("%s as a %s is %s", name, way, text)
			}
		}
	}
}

// settingsOf returns settings by their names, as clients see them.
func settingsOf(t *testing.T, s *project.Settings) (all map[string]json.RawMessage) {
	t.Helper()
	if s == nil {
		s = defaults(t)
	}
	raw, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
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
		{[]string{"--console=maybe"}, nil, "must be true or false"},
		{nil, map[string]string{"MNEME_CONSOLE": "off"}, "console must be true or false"},
		{nil, map[string]string{"MNEME_CONSOLE_ROOT": "1"}, "console_root must be true or false"},
		{[]string{"--log-level", "verbose"}, nil, "log_level must be"},
		{[]string{"--log-format", "xml"}, nil, "log_format must be"},
		{[]string{"--log-sample", "NaN"}, nil, "log_sample must be"},
		{[]string{"--log-sample", "1.1"}, nil, "log_sample must be"},
		{[]string{"--debug-listen", "a:b:c"}, nil, "debug_listen: "},
		{[]string{"--rate-limit", "NaN"}, nil, "rate_limit must be"},
		{[]string{"--rate-limit", "0"}, nil, "rate_limit must be"},
		{[]string{"--rate-limit", "-1"}, nil, "rate_limit must be"},
		{[]string{"--rate-limit", "1", "--rate-burst", "0"}, nil, "rate_burst must be"},
		{[]string{"--rate-burst", "5"}, nil, "needs a rate_limit"},
		{[]string{"--quota-message-bytes", "lots"}, nil, "quota_message_bytes must be"},
		{nil, map[string]string{tokens: "-1"}, tokens},
		{[]string{"--default-tokenizer", "p50k_base"}, nil, "default_tokenizer (MNEME_DEFAULT_TOKENIZER): must be"},
		{[]string{"--default-summary-keep-last", "41"}, nil, "must be from 1 to 40"},
		{[]string{"--default-summary-enabled", "perhaps"}, nil, "must be a boolean"},
		{[]string{"--default-pipeline", `[{"name":"x"}]`}, nil, "default_pipeline"},
		{[]string{"--proxy-upstreams", "https://api.openai.com"}, nil, "proxy_upstreams: "},
		{[]string{"--proxy-upstreams", "a.*.com"}, nil, "proxy_upstreams: "},
		{[]string{"--proxy-upstreams", "a.com/v1"}, nil, "proxy_upstreams: "},
		{nil, map[string]string{"OPENAI_BASE_URL": "http://here?key=secret"}, "OPENAI_BASE_URL"},
		{nil, map[string]string{"ANTHROPIC_BASE_URL": "http://user:secret@here"}, "ANTHROPIC_BASE_URL"},
		{nil, map[string]string{"ANTHROPIC_API_KEY": "secret\n"}, "ANTHROPIC_API_KEY"},
		{nil, map[string]string{"MNEME_PROXY_SEAL_KEY": "secret"}, "proxy_seal_key"},
		{[]string{"--default-upstreams", `[{"name":"x","protocol":"openai","base_url":"https://x","key":"sealed",` +
			`"secret":"secret"}]`}, nil, "default_upstreams"},
	} {
		if _, err := readConfig(c.args, environment(c.env), io.Discard); err == nil ||
			!strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v %v: %v", c.args, c.env, err)
		}
	}
}
