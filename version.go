package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

func printVersion(_ context.Context, _ []string, _ lookup, stdout, _ io.Writer) error {
	_, err := fmt.Fprintf(stdout, "mneme %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// version is what the toolchain stamped into the binary: a tag, a pseudo-version, or (devel).
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
