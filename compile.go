package main

import (
	"context"
	"io"
	"os"

	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
)

// exitCode ends the program without a word more.
type exitCode int

func (c exitCode) Error() string { return "" }

// compileModule is what the server starts for each module that it has not met. It is not for people, so help is
// silent about it.
func compileModule(_ context.Context, args []string, _ lookup, _, stderr io.Writer) error {
	if code := compiler.Main(args, os.Stdin, stderr); code != 0 {
		return exitCode(code)
	}
	return nil
}

// compileCommand starts this program as its own compiler.
func compileCommand() ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return []string{program, compiler.Command}, nil
}
