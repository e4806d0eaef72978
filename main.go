// Command mneme stores agent transcripts and assembles the context window for each model call.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to stop; from then on the next one kills, as signals do by themselves.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	if code, ok := errors.AsType[exitCode](err); ok {
		os.Exit(int(code))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mneme:", err)
		os.Exit(1)
	}
}

// lookup finds an environment variable, as os.LookupEnv does.
type lookup func(name string) (value string, ok bool)

// command is one word that mneme understands; help lists those with a summary.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error
}

func commands() []command {
	return []command{
		{"serve", "run the server", serve},
		{"backup", "write a backup of a running server, or of a folder", backUp},
		{"restore", "make a data folder from a backup", restore},
		{"verify", "check a data folder, whole", verifyData},
		{"mcp", "give a model the memory tools: the Model Context Protocol on stdin and stdout", serveMCP},
		{"version", "print the version", printVersion},
		{compiler.Command, "", compileModule},
		{"help", "print this, or what `mneme COMMAND -h` prints", help},
	}
}

// run is the whole program: main is only its name. It returns when the command is done or, soon after, when ctx ends.
func run(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		printHelp(stderr)
		return errors.New("name a command")
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], env, stdout, stderr)
		}
	}
	if args[0] == "-h" || args[0] == "--help" {
		printHelp(stdout)
		return nil
	}
	return fmt.Errorf("unknown command %q; `mneme help` lists them", args[0])
}
