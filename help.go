package main

import (
	"context"
	"fmt"
	"io"
)

func help(ctx context.Context, args []string, env lookup, stdout, _ io.Writer) error {
	if len(args) > 0 && args[0] != "help" {
		return run(ctx, []string{args[0], "-h"}, env, stdout, stdout)
	}
	printHelp(stdout)
	return nil
}

func printHelp(w io.Writer) {
	fmt.Fprint(w, "Mneme stores agent transcripts and assembles the context window for each model call.\n\nUsage:\n")
	for _, c := range commands() {
		if c.summary != "" {
			fmt.Fprintf(w, "  mneme %-9s %s\n", c.name, c.summary)
		}
	}
}
