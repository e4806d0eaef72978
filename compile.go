package main

import (
	"context"
	"io"
	"os"

	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
)

// compileModule compiles one policy module. The server runs it as a child process for each new module. Help does not
// list it, because users do not need it.
func compileModule(_ context.Context, args []string, _ lookup, _, stderr io.Writer) error {
	if code := compiler.Main(args, os.Stdin, stderr); code != 0 {
		return exitCode(code)
	}
	return nil
}

// compileCommand returns the command that starts this program as its own compiler.
func compileCommand() ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return []string{program, compiler.Command}, nil
}
