// Package policies embeds the modules of the built-in policies. The engine loads them as it loads any uploaded module.
package policies

import _ "embed"

var (
	//go:embed delegation-filter/delegation-filter.wasm
	delegationFilter []byte
	//go:embed tool-result-clear/tool-result-clear.wasm
	toolResultClear []byte
	//go:embed summarise/summarise.wasm
	summarise []byte
	//go:embed depth-compress/depth-compress.wasm
	depthCompress []byte
	//go:embed tool-pair-trim/tool-pair-trim.wasm
	toolPairTrim []byte
	//go:embed redact-secrets/redact-secrets.wasm
	redactSecrets []byte
	//go:embed guard-trust/guard-trust.wasm
	guardTrust []byte
	//go:embed refuse-noise/refuse-noise.wasm
	refuseNoise []byte
	//go:embed dedupe/dedupe.wasm
	dedupe []byte
)

// Module is a built-in policy.
type Module struct {
	Name string
	Wasm []byte // with its manifest; shared, do not modify
	// Late marks a policy that older releases did not have. There, a tenant could upload a policy of the same name.
	Late bool
}

// BuiltIn returns the built-in policies: first those of the default pipeline, in its order, then those that decide
// whether and how a memory is written.
func BuiltIn() []Module {
	return []Module{
		{Name: "delegation-filter", Wasm: delegationFilter},
		{Name: "tool-result-clear", Wasm: toolResultClear, Late: true},
		{Name: "summarise", Wasm: summarise},
		{Name: "depth-compress", Wasm: depthCompress},
		{Name: "tool-pair-trim", Wasm: toolPairTrim},
		{Name: "redact-secrets", Wasm: redactSecrets, Late: true},
		{Name: "guard-trust", Wasm: guardTrust, Late: true},
		{Name: "refuse-noise", Wasm: refuseNoise, Late: true},
		{Name: "dedupe", Wasm: dedupe, Late: true},
	}
}
