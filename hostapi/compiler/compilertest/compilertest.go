// Package compilertest lets a test binary be its own compiler's child: a package whose tests make a policy host calls
// Main from its TestMain and gives the host Command.
package compilertest

import (
	"os"
	"syscall"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
)

// Main runs the tests, or compiles where the binary was started for that, and returns the exit code.
func Main(m *testing.M) int {
	if len(os.Args) > 1 && os.Args[1] == compiler.Command {
		// Not os.Exit, which in a binary that looks for races takes another second.
		syscall.Exit(compiler.Main(os.Args[2:], os.Stdin, os.Stderr))
	}
	return m.Run()
}

// Command starts this binary as a child.
func Command() []string {
	binary, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{binary, compiler.Command}
}
