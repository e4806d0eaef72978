package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/store/pgstore"
	"gopkg.in/yaml.v3"
)

// config is all that an operator can say. A flag wins over its environment variable, that over the key in the file
// that --config names, that over the default.
type config struct {
	// Listen is the TCP address to serve on; port 0 picks a free one.
	Listen string
	// Data is the folder that holds everything: the embedded database, compiled policies, admin.key.
	Data string
	// Store is the URL of a PostgreSQL database, which may hold a password; empty is the embedded database in Data.
	Store string
	// RootKey is the operator's key; empty: nobody is root.
	RootKey string
	// HistoryMaxTokens is the default of the setting history_max_tokens; 0: the engine's own.
	HistoryMaxTokens int
}

// option is one line of configuration: where it can be said, and where it goes. An empty name cannot be said there.
type option struct {
	flag, env, key string
	value          *string
	usage          string
}

// readConfig gathers the configuration. It is flag.ErrHelp when help was asked for, and has been printed to stderr.
func readConfig(args []string, env lookup, stderr io.Writer) (config, error) {
	c := config{Listen: "127.0.0.1:7700", Data: "./mneme-data"}
	var file, historyMaxTokens string
	options := []option{
		{"listen", "MNEME_LISTEN", "listen", &c.Listen, "`HOST:PORT` to serve on; port 0 picks one"},
		{"data", "MNEME_DATA", "data", &c.Data, "`FOLDER` that holds everything"},
		{"store", "MNEME_STORE", "store", &c.Store, "`URL` of a shared PostgreSQL, postgres://… (default: embedded, in the data folder)"},
		{"root-key", "MNEME_ROOT_KEY", "root_key", &c.RootKey, "the operator's `KEY`, who makes tenants (default: none)"},
		{"config", "MNEME_CONFIG", "", &file, "YAML `FILE` with any of: listen, data, store, root_key"},
		{"", "AGENTS_CONVERSATION_HISTORY_MAX_OUTPUT_TOKENS_DEFAULT", "", &historyMaxTokens, ""},
	}
	said, err := parseFlags(options, args, stderr)
	if err != nil {
		return c, err
	}
	for _, o := range options {
		if v, ok := env(o.env); ok && v != "" && !said[o.flag] {
			*o.value, said[o.flag] = v, true
		}
	}
	if file != "" {
		if err := readFile(file, options, said); err != nil {
			return c, err
		}
	}
	if historyMaxTokens != "" {
		n, err := strconv.Atoi(historyMaxTokens)
		if err != nil || n < 1 || n > engine.MaxBudget {
			return c, fmt.Errorf("AGENTS_CONVERSATION_HISTORY_MAX_OUTPUT_TOKENS_DEFAULT must be an integer from 1 to %d",
				engine.MaxBudget)
		}
		c.HistoryMaxTokens = n
	}
	return c, checkStore(c.Store)
}

// checkStore looks at a store's URL without connecting. What it says never holds the URL's password.
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

// parseFlags sets what the command line says and tells which flags those were.
func parseFlags(options []option, args []string, stderr io.Writer) (said map[string]bool, err error) {
	flags := flag.NewFlagSet("mneme serve", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // a bad flag is one line, from main
	for _, o := range options {
		if o.flag != "" {
			flags.StringVar(o.value, o.flag, *o.value, fmt.Sprintf("%s [%s]", o.usage, o.env))
		}
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stderr, "Usage: mneme serve [flags]\n\n")
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return nil, err
	} else if err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("serve takes flags only, not %q", flags.Arg(0))
	}
	said = map[string]bool{}
	flags.Visit(func(f *flag.Flag) { said[f.Name] = true })
	return said, nil
}

// readFile sets what the YAML file says and nothing stronger has said. Keys that mean nothing are refused by name.
func readFile(name string, options []option, said map[string]bool) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	var keys map[string]yaml.Node
	if err := yaml.Unmarshal(raw, &keys); err != nil {
		return fmt.Errorf("reading %s: %s", name, strings.Join(strings.Fields(err.Error()), " ")) // on one line
	}
	for _, o := range options {
		node, ok := keys[o.key]
		if o.key == "" || !ok {
			continue
		}
		delete(keys, o.key)
		if node.Kind != yaml.ScalarNode {
			return fmt.Errorf("%s: line %d: %s must be a text", name, node.Line, o.key)
		}
		if !said[o.flag] && node.Value != "" {
			*o.value = node.Value
		}
	}
	if len(keys) > 0 {
		return fmt.Errorf("%s: unknown keys: %s", name, strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
	}
	return nil
}
