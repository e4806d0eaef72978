// Command wasm is the module of the built-in policy tool-pair-trim.
package main

import (
	toolpairtrim "github.com/seed-0906e6bc/mneme/policies/tool-pair-trim"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

var _ = mneme.Register(toolpairtrim.Assemble)

func main() {}
