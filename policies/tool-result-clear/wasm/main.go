// Command wasm is the module of the built-in policy tool-result-clear.
package main

import (
	toolresultclear "github.com/seed-0906e6bc/mneme/policies/tool-result-clear"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

var _ = mneme.Register(toolresultclear.Assemble)

func main() {}
