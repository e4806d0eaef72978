// Command abigen writes the documentation of the policy ABI to the given file.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/seed-0906e6bc/mneme/hostapi"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "abigen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: abigen FILE")
	}
	var doc bytes.Buffer
	if err := hostapi.WriteABI(&doc); err != nil {
		return err
	}
	return os.WriteFile(args[0], doc.Bytes(), 0o644)
}
