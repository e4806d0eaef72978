// Command wasm is the module of the built-in policy depth-compress.
package main

import (
	depthcompress "github.com/seed-0906e6bc/mneme/policies/depth-compress"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

var _ = mneme.Register(depthcompress.Assemble)

func main() {}
