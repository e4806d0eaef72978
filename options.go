package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// option is a value that an operator can set: by a flag, an environment variable or a key of the file. An empty name
// means that it cannot be set that way. Every command declares its options in this form.
type option struct {
	flag, env, key string
	value          *string
	usage          string
}

// readOptions sets the options from a command's command line, then those from the environment, and returns which
// values were set. flags has the command's name and may have more flags. The error is flag.ErrHelp if help was
// requested; it has been printed to stderr.
func readOptions(flags *flag.FlagSet, options []option, args []string, env lookup, stderr io.Writer) (
	said map[*string]bool, err error,
) {
	if said, err = parseFlags(flags, options, args, stderr); err != nil {
		return nil, err
	}
	for _, o := range options {
		if v, ok := env(o.env); ok && o.env != "" && v != "" && !said[o.value] {
			*o.value, said[o.value] = v, true
		}
	}
	return said, nil
}

// truth is a boolean option with its default. As a flag without a value it means true.
type truth string

func isTruth(text string) bool { return text == "true" || text == "false" }

func (t *truth) String() string   { return string(*t) }
func (t *truth) IsBoolFlag() bool { return true }

func (t *truth) Set(text string) error {
	if !isTruth(text) {
		return errors.New("must be true or false")
	}
	*t = truth(text)
	return nil
}

// parseFlags sets the options from the command line and returns which values were set.
func parseFlags(flags *flag.FlagSet, options []option, args []string, stderr io.Writer) (
	said map[*string]bool, err error,
) {
	flags.SetOutput(io.Discard) // main prints a bad flag on one line
	for _, o := range options {
		if o.flag != "" {
			usage := o.usage
			if o.env != "" {
				usage += " [" + o.env + "]"
			}
			if isTruth(*o.value) {
				flags.Var((*truth)(o.value), o.flag, usage)
			} else {
				flags.StringVar(o.value, o.flag, *o.value, usage)
			}
		}
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(stderr, "Usage: mneme %s [flags]\n\n", flags.Name())
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		printVariables(stderr, options)
		return nil, err
	} else if err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%s takes flags only, not %q", flags.Name(), flags.Arg(0))
	}
	said = map[*string]bool{}
	flags.Visit(func(f *flag.Flag) {
		for _, o := range options {
			if o.flag == f.Name {
				said[o.value] = true
			}
		}
	})
	return said, nil
}

// printVariables lists the options without a flag.
func printVariables(w io.Writer, options []option) {
	title := "\nIn the environment, or in the file in lower case:\n"
	for _, o := range options {
		if o.flag == "" {
			fmt.Fprintf(w, "%s  %s\n    \t%s\n", title, o.env, o.usage)
			title = ""
		}
	}
}

// readFile sets the options from the YAML file, except those in said. It refuses unknown keys by name.
func readFile(name string, options []option, said map[*string]bool) error {
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
		if !said[o.value] && node.Value != "" {
			*o.value = node.Value
		}
	}
	if len(keys) > 0 {
		return fmt.Errorf("%s: unknown keys: %s", name, strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
	}
	return nil
}
