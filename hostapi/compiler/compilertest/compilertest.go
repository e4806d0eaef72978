// Package compilertest lets a test binary be its own compiler's child: a package whose tests create a policy host calls
// Main in its TestMain and passes Command to the host.
package compilertest

import (
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
)

// dirs are the directories that Dir created.
var dirs struct {
	sync.Mutex
	paths []string
}

// Main runs the tests, or compiles if the binary was started for that, and returns the exit code. After the tests it
// removes the directories that Dir created.
func Main(m *testing.M) int {
	if len(os.Args) > 1 && os.Args[1] == compiler.Command {
		// Not os.Exit, which takes another second in a binary built with the race detector.
		syscall.Exit(compiler.Main(os.Args[2:], os.Stdin, os.Stderr))
	}
	code := m.Run()
	dirs.Lock()
	defer dirs.Unlock()
	for _, path := range dirs.paths {
		if err := os.RemoveAll(path); err != nil {
			panic(err)
		}
	}
	return code
}

// Dir creates a directory for the machine code of a host that all tests of the process share. Nobody closes such a
// host, which would remove a temporary directory of its own.
func Dir() string {
	path, err := os.MkdirTemp("", "mneme-compiled-")
	if err != nil {
		panic(err)
	}
	dirs.Lock()
	defer dirs.Unlock()
	dirs.paths = append(dirs.paths, path)
	return path
}

// Command returns the command that starts this binary as a child.
func Command() []string {
	binary, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{binary, compiler.Command}
}
