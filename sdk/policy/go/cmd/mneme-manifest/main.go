// Command mneme-manifest adds a manifest to a policy module, in place:
//
//	mneme-manifest manifest.json policy.wasm
package main

import (
	"fmt"
	"os"

	"github.com/seed-0906e6bc/mneme/sdk/policy/go/manifest"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: mneme-manifest MANIFEST.json MODULE.wasm")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "mneme-manifest:", err)
		os.Exit(1)
	}
}

func run(manifestPath, modulePath string) error {
	text, err := os.ReadFile(manifestPath)
	if err != nil {
		return err
	}
	module, err := os.ReadFile(modulePath)
	if err != nil {
		return err
	}
	module, err = manifest.Set(module, text)
	if err != nil {
		return err
	}
	return os.WriteFile(modulePath, module, 0o644)
}
