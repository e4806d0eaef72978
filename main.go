// Command mneme stores agent transcripts and assembles the context window for each model call.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks the program to stop. It also ends the notification, so that a second signal kills the
	// program.
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

// command is a subcommand of mneme. Help lists those with a summary.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error
}

func commands() []command {
	return []command{
		{"serve", "run the server", serve},
		{"health", "ask a running server whether it can serve and store", checkHealth},
		{"console", "print a link that signs a browser in to a running server's console", printConsoleLink},
		{"demo", "fill the project demo of a running server with conversations to look at", fillDemo},
		{"import", "import histories and memories of other programs into a running server", importFiles},
		{"backup", "write a backup of a running server, or of a folder", backUp},
		{"restore", "make a data folder from a backup", restore},
		{"verify", "check a data folder, whole", verifyData},
		{"repair", "deal with damaged files of a data folder", repairData},
		{"mcp", "give a model the memory tools: the Model Context Protocol on stdin and stdout", serveMCP},
		{"version", "print the version", printVersion},
		{compiler.Command, "", compileModule},
		{"help", "print this, or what `mneme COMMAND -h` prints", help},
	}
}

// run is the whole program; tests call it in place of main. It returns when the command is done, or soon after ctx
// ends.
func run(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		printHelp(stderr)
		return errors.New("name a command")
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		if err := c.run(ctx, args[1:], env, stdout, stderr); !errors.Is(err, flag.ErrHelp) {
			return err
		}
		return nil // help was requested and has been printed
	}
	if args[0] == "-h" || args[0] == "--help" {
		printHelp(stdout)
		return nil
	}
	return fmt.Errorf("unknown command %q; `mneme help` lists them", args[0])
}

// exitCode ends the program with that code. The command has already printed everything.
type exitCode int

func (c exitCode) Error() string { return "" }

// help prints the list of commands, or the help of one command.
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

func printVersion(_ context.Context, _ []string, _ lookup, stdout, _ io.Writer) error {
	_, err := fmt.Fprintf(stdout, "mneme %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// invocation returns how a user calls this program, given the name it was started by: `mneme` if it is found by that
// name, `go run .` if the toolchain built it for one run, or otherwise its path.
func invocation(executable string) string {
	if strings.Contains(executable, string(filepath.Separator)+"go-build") {
		return "go run ."
	}
	if filepath.Base(executable) == executable {
		return executable
	}
	if found, err := exec.LookPath(filepath.Base(executable)); err == nil && found == executable {
		return filepath.Base(executable)
	}
	return executable
}

// version returns the version that the toolchain stored in the binary: a tag, a pseudo-version, or (devel).
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
