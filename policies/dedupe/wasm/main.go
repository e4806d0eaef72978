// Command wasm is the module of the built-in policy dedupe.
package main

import (
	dedupe "github.com/seed-0906e6bc/mneme/policies/dedupe"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

var _ = mneme.RegisterHook(mneme.Admit, dedupe.Admit)

func main() {}
