package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/openai"
	"github.com/seed-0906e6bc/mneme/engine/store/pgstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

const (
	// defaultListen is the address that a server listens on by default.
	defaultListen = "127.0.0.1:7700"
	// defaultData is the default data folder.
	defaultData = "./mneme-data"
)

// config is the configuration of `mneme serve`. A flag takes precedence over its environment variable, the variable
// over the key in the file that --config names, and the key over the default.
type config struct {
	// Listen is the TCP address to serve on; port 0 picks a free one.
	Listen string
	// Data is the folder of all data: the embedded database, compiled policies, admin.key.
	Data string
	// Store is the URL of a PostgreSQL database, which may contain a password; empty means the embedded database in
	// Data.
	Store string
	// RootKey is the operator's key; empty means that there is no root key.
	RootKey string
	// DebugListen is the address that serves profiles; empty means none.
	DebugListen string
	Log         logging
	// NoConsole disables the console. ConsoleRoot lets the root key sign in to it.
	NoConsole, ConsoleRoot bool
	// Demo fills the project demo.
	Demo bool
	// Defaults are the settings of projects that set none; nil means the built-in defaults.
	Defaults *project.Settings
	// RateLimit is the average number of requests a second that each tenant may send; 0 means no limit. RateBurst is
	// the number it may send at once; 0 means as many as in one second.
	RateLimit float64
	RateBurst int
	// MessageBytes limits the messages of each tenant, in bytes, and Memories the number of its memories; 0 means no
	// limit.
	MessageBytes int64
	Memories     memory.Quota
	// Upstreams configures the providers that the proxy calls.
	Upstreams upstreams
	// Embeddings is the provider of vectors, for projects that name a model.
	Embeddings providerConfig
	// StaticEmbeddings is the folder of a static embedding model, for projects that name the model "static"; empty means
	// none. AdoptStatic makes this server replace the vectors that another server made with another static model.
	StaticEmbeddings string
	AdoptStatic      bool
	// Summaries is the provider of summaries. Without a URL and a key, no summaries are made.
	Summaries providerConfig
}

// providerConfig configures a server with OpenAI's chat completions API.
type providerConfig struct {
	URL   string // including the version; "" means OpenAI's
	Key   string
	Model string
}

// given reports whether the operator named a provider.
func (p providerConfig) given() bool { return p.URL != "" || p.Key != "" }

// rawConfig is the configuration as the operator wrote it. Values other than texts are parsed from it.
type rawConfig struct {
	config
	file   string
	log    rawLogging
	limits tenantLimits
	main   providerConfig
	// The boolean options:
	console, root, demo, adopt string
	defaults                   map[string]*string // by the name of the setting
}

func newRawConfig() *rawConfig {
	r := &rawConfig{config: config{Listen: defaultListen, Data: defaultData}, defaults: map[string]*string{},
		log: rawLogging{level: "info", format: "text", sample: "1"}, console: "true", root: "false", demo: "false",
		adopt: "false"}
	for _, name := range project.Names() {
		r.defaults[name] = new(string)
	}
	return r
}

// options returns the options of `mneme serve`. docs/CONFIGURATION.md is printed from them.
func (r *rawConfig) options() []option {
	c := &r.config
	return append([]option{
		{"listen", "MNEME_LISTEN", "listen", &c.Listen, "`HOST:PORT` to serve on; port 0 picks one"},
		{"data", "MNEME_DATA", "data", &c.Data, "`FOLDER` that holds everything"},
		{"store", "MNEME_STORE", "store", &c.Store,
			"`URL` of a shared PostgreSQL, postgres://… (default: embedded, in the data folder)"},
		{"root-key", "MNEME_ROOT_KEY", "root_key", &c.RootKey,
			"`KEY` of the operator, who creates tenants (default: none)"},
		{"console", "MNEME_CONSOLE", "console", &r.console, "`BOOL`: whether to serve the console"},
		{"console-root", "MNEME_CONSOLE_ROOT", "console_root", &r.root,
			"`BOOL`: whether the root key may sign in to the console"},
		{"demo", "MNEME_DEMO", "demo", &r.demo, "`BOOL`: whether to fill the project demo with sample conversations"},
		{"log-level", "MNEME_LOG_LEVEL", "log_level", &r.log.level,
			"lowest `LEVEL` to log: debug, info, warn or error"},
		{"log-format", "MNEME_LOG_FORMAT", "log_format", &r.log.format, "`FORMAT` of the log: text or json"},
		{"log-sample", "MNEME_LOG_SAMPLE", "log_sample", &r.log.sample,
			"`SHARE` of successful requests to log, from 0 to 1; others are always logged"},
		{"debug-listen", "MNEME_DEBUG_LISTEN", "debug_listen", &c.DebugListen,
			"`[HOST:]PORT` to serve Go's profiles on; without a host, on loopback (default: none)"},
		{"rate-limit", "MNEME_RATE_LIMIT", "rate_limit", &r.limits.rate,
			"`REQUESTS` that each tenant may send per second, on average (default: no limit)"},
		{"rate-burst", "MNEME_RATE_BURST", "rate_burst", &r.limits.burst,
			"`REQUESTS` that each tenant may send at once (default: as many as in one second)"},
		{"quota-message-bytes", "MNEME_QUOTA_MESSAGE_BYTES", "quota_message_bytes", &r.limits.messageBytes,
			"`BYTES` that each tenant's messages may take (default: no limit)"},
		{"quota-memory-bytes", "MNEME_QUOTA_MEMORY_BYTES", "quota_memory_bytes", &r.limits.memoryBytes,
			"`BYTES` that each tenant's memories may take (default: no limit)"},
		{"quota-memories", "MNEME_QUOTA_MEMORIES", "quota_memories", &r.limits.memories,
			"`NUMBER` of memories that each tenant may keep (default: no limit)"},
		{"proxy-upstreams", "MNEME_PROXY_UPSTREAMS", "proxy_upstreams", &c.Upstreams.Hosts,
			"`HOSTS` that the proxy may call, separated by commas; \"none\" disables the proxy (default: " +
				publicHosts + ")"},
		{"static-embeddings", "MNEME_STATIC_EMBEDDINGS", "static_embeddings", &c.StaticEmbeddings,
			"`FOLDER` of a static embedding model in the Model2Vec format, for projects with the embedding_model static (default: none)"},
		{"static-embeddings-adopt", "MNEME_STATIC_EMBEDDINGS_ADOPT", "static_embeddings_adopt", &r.adopt,
			"`BOOL`: whether, with --store, vectors that another server made with another static model are made again with this one's"},
		{"config", "MNEME_CONFIG", "", &r.file,
			"YAML `FILE` with settings, such as listen, data or root_key"},
		// These have no flags, because any process on the machine can read a command line, and a key in it.
		{"", "OPENAI_API_KEY", "openai_api_key", &r.main.Key, "API key of the model provider"},
		{"", "OPENAI_BASE_URL", "openai_base_url", &r.main.URL, "its base URL, including the version (default: OpenAI's)"},
		{"", "ANTHROPIC_API_KEY", "anthropic_api_key", &c.Upstreams.Anthropic.Key,
			"Anthropic API key, for the proxy"},
		{"", "ANTHROPIC_BASE_URL", "anthropic_base_url", &c.Upstreams.Anthropic.URL,
			"Anthropic base URL, with or without the version, for the proxy (default: Anthropic's)"},
		{"", "MNEME_PROXY_SEAL_KEY", "proxy_seal_key", &c.Upstreams.SealKey,
			"encrypts the provider keys of projects; at least 32 random characters"},
		{"", "OPENAI_MODEL", "openai_model", &r.main.Model, "the provider's model (default: " + openai.DefaultModel + ")"},
		{"", "OPENAI_EMBEDDING_API_KEY", "openai_embedding_api_key", &c.Embeddings.Key,
			"another API key, for embeddings"},
		{"", "OPENAI_EMBEDDING_URL", "openai_embedding_url", &c.Embeddings.URL,
			"another base URL, for embeddings"},
		{"", "OPENAI_SUMMARY_API_KEY", "openai_summary_api_key", &c.Summaries.Key, "another API key, for summaries"},
		{"", "OPENAI_SUMMARY_URL", "openai_summary_url", &c.Summaries.URL, "another base URL, for summaries"},
		{"", "OPENAI_SUMMARY_MODEL", "openai_summary_model", &c.Summaries.Model, "another model, for summaries"},
	}, r.defaultOptions()...)
}

// defaultOptions returns one option for the default of each project setting.
func (r *rawConfig) defaultOptions() (options []option) {
	for _, name := range project.Names() {
		env := "MNEME_DEFAULT_" + strings.ToUpper(name)
		if name == "history_max_tokens" {
			env = "AGENTS_CONVERSATION_HISTORY_MAX_OUTPUT_TOKENS_DEFAULT" // its name in other software
		}
		options = append(options, option{"default-" + strings.ReplaceAll(name, "_", "-"), env, "default_" + name,
			r.defaults[name], "`VALUE` of " + name + " in projects that do not set it"})
	}
	return options
}

// readDefaults parses the default settings and checks them by the rules for a project's own settings.
func (r *rawConfig) readDefaults() error {
	set := map[string]string{}
	for name, value := range r.defaults {
		if *value != "" {
			set[name] = *value
		}
	}
	if len(set) == 0 {
		return nil
	}
	defaults, err := project.Defaults(set)
	if known, ok := errors.AsType[*fault.Error](err); ok && len(known.Fields) > 0 {
		for _, o := range r.defaultOptions() {
			name, _, _ := strings.Cut(known.Fields[0].Field, ".")
			if name, _, _ = strings.Cut(name, "["); o.key == "default_"+name {
				return fmt.Errorf("%s (%s): %s", o.key, o.env, known.Fields[0].Detail)
			}
		}
	}
	r.Defaults = &defaults
	return err
}

// readConfig reads the configuration. The error is flag.ErrHelp if help was requested; it has been printed to stderr.
func readConfig(args []string, env lookup, stderr io.Writer) (config, error) {
	r := newRawConfig()
	options := r.options()
	said, err := readOptions(flag.NewFlagSet("serve", flag.ContinueOnError), options, args, env, stderr)
	if err != nil {
		return r.config, err
	}
	if r.file != "" {
		if err := readFile(r.file, options, said); err != nil {
			return r.config, err
		}
	}
	if err := r.readDefaults(); err != nil {
		return r.config, err
	}
	if err := r.readTruths(); err != nil {
		return r.config, err
	}
	r.Log, err = r.log.read()
	if err != nil {
		return r.config, err
	}
	if r.DebugListen != "" {
		r.DebugListen, err = debugAddress(r.DebugListen)
		if err != nil {
			return r.config, err
		}
	}
	if err := r.limits.read(&r.config); err != nil {
		return r.config, err
	}
	if err := r.Summaries.complete("SUMMARY", r.main); err != nil {
		return r.config, err
	}
	if err := r.Embeddings.complete("EMBEDDING", r.main); err != nil {
		return r.config, err
	}
	r.Upstreams.OpenAI = providerConfig{URL: r.main.URL, Key: r.main.Key}
	if _, err := r.Upstreams.operator(); err != nil {
		return r.config, err
	}
	return r.config, checkStore(r.Store)
}

// checkStore checks a store's URL without connecting. Its errors never contain the URL's password.
func checkStore(url string) error {
	scheme, _, _ := strings.Cut(url, "://")
	switch {
	case url == "":
		return nil
	case scheme != "postgres" && scheme != "postgresql":
		return errors.New("--store must be postgres://…, or left out for the embedded store in the data folder")
	}
	if err := pgstore.Check(url); err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	return nil
}

// readTruths parses the boolean options.
func (r *rawConfig) readTruths() error {
	for name, text := range map[string]string{"console": r.console, "console_root": r.root, "demo": r.demo,
		"static_embeddings_adopt": r.adopt} {
		if !isTruth(text) {
			return fmt.Errorf("%s must be true or false", name)
		}
	}
	r.NoConsole, r.ConsoleRoot, r.Demo = r.console == "false", r.root == "true", r.demo == "true"
	r.AdoptStatic = r.adopt == "true"
	return nil
}

// tenantLimits holds the limits of each tenant as texts; an empty text means no limit.
type tenantLimits struct{ rate, burst, messageBytes, memoryBytes, memories string }

func (l *tenantLimits) read(c *config) (err error) {
	if l.rate != "" {
		if c.RateLimit, err = strconv.ParseFloat(l.rate, 64); err != nil ||
			!(c.RateLimit >= 0.001 && c.RateLimit <= 1e6) {
			return errors.New("rate_limit must be a number of requests a second from 0.001 to 1000000")
		}
	}
	if l.burst != "" {
		if c.RateBurst, err = strconv.Atoi(l.burst); err != nil || c.RateBurst < 1 || c.RateBurst > 1e6 ||
			l.rate == "" {
			return errors.New("rate_burst must be a number of requests from 1 to 1000000, and needs a rate_limit")
		}
	}
	for _, q := range [...]struct {
		name, said string
		value      *int64
	}{
		{"quota_message_bytes", l.messageBytes, &c.MessageBytes}, {"quota_memory_bytes", l.memoryBytes,
			&c.Memories.Bytes},
	} {
		if q.said == "" {
			continue
		}
		if *q.value, err = strconv.ParseInt(q.said, 10, 64); err != nil || *q.value < 1 {
			return fmt.Errorf("%s must be a number of bytes, at least 1", q.name)
		}
	}
	if l.memories != "" {
		if c.Memories.Count, err = strconv.Atoi(l.memories); err != nil || c.Memories.Count < 1 {
			return errors.New("quota_memories must be a number, at least 1")
		}
	}
	return nil
}

// complete copies missing values from the main provider to the one for summaries or for embeddings, and checks the
// result. Errors name the variable, never its value.
func (p *providerConfig) complete(purpose string, main providerConfig) error {
	url, key := "OPENAI_"+purpose+"_URL", "OPENAI_"+purpose+"_API_KEY"
	if p.URL == "" {
		p.URL, url = main.URL, "OPENAI_BASE_URL"
	}
	if p.Key == "" {
		p.Key, key = main.Key, "OPENAI_API_KEY"
	}
	p.Model = cmp.Or(p.Model, main.Model)
	if err := openai.CheckURL(p.URL); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	if err := openai.CheckKey(p.Key); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
