// Command wasm is the module of the built-in policy summarise.
package main

import (
	"github.com/seed-0906e6bc/mneme/policies/summarise"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

var _ = mneme.Register(summarise.Assemble)

func main() {}
