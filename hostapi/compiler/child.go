package compiler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"strconv"

	"github.com/tetratelabs/wazero"
)

// Command is the argument by which a program that calls Main knows that it was started as the child.
const Command = "compile-module"

// Exit codes of a child. A Go program that crashes exits with 2.
const (
	exitDone    = 0
	exitRefused = 1 // because of the module
	exitCrashed = 2
	exitUnable  = 3 // because of the machine
)

// childArgs is what the parent passes to the child after Command.
type childArgs struct {
	dir     string
	memory  int64
	seconds int64
}

func (a childArgs) list() []string {
	return []string{a.dir, strconv.FormatInt(a.memory, 10), strconv.FormatInt(a.seconds, 10)}
}

func parseArgs(list []string) (a childArgs, err error) {
	if len(list) != 3 {
		return a, fmt.Errorf("%s is for the server's own use: FOLDER BYTES SECONDS", Command)
	}
	a.dir = list[0]
	var errMemory, errSeconds error
	a.memory, errMemory = strconv.ParseInt(list[1], 10, 64)
	a.seconds, errSeconds = strconv.ParseInt(list[2], 10, 64)
	return a, errors.Join(errMemory, errSeconds)
}

// Main is the child's whole program: it limits itself, reads an admitted module from stdin, compiles it into the
// directory that the arguments name, and returns the exit code. It writes an error to stderr in one line.
func Main(args []string, stdin io.Reader, stderr io.Writer) int {
	a, err := parseArgs(args)
	if err == nil {
		err = limitSelf(a.memory, a.seconds)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUnable
	}
	debug.SetMemoryLimit(a.memory / 4 * 3) // collect garbage more often rather than reach the limit
	module, err := io.ReadAll(stdin)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUnable
	}
	return compile(a.dir, module, stderr)
}

func compile(dir string, module []byte, stderr io.Writer) (code int) {
	ctx := context.Background()
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUnable
	}
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(stderr, "the compiler failed: %v\n", r)
			code = exitRefused
		}
	}()
	_, err = wazero.NewRuntimeWithConfig(ctx, Config().WithCompilationCache(cache)).CompileModule(ctx, module)
	if err == nil {
		return exitDone
	}
	fmt.Fprintln(stderr, err)
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return exitUnable
	}
	return exitRefused
}
