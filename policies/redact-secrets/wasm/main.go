// Command wasm is the module of the built-in policy redact-secrets.
package main

import (
	redactsecrets "github.com/seed-0906e6bc/mneme/policies/redact-secrets"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

var (
	_ = mneme.RegisterHook(mneme.Admit, redactsecrets.Admit)
	_ = mneme.Register(redactsecrets.Assemble)
)

func main() {}
