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
)

// Module is a built-in policy.
type Module struct {
	Name string
	Wasm []byte // with its manifest; shared, do not modify
	// Late marks a policy that older releases did not have. There, a tenant could upload a policy of the same name.
	Late bool
}

// BuiltIn returns the built-in policies in the order of the default pipeline.
func BuiltIn() []Module {
	return []Module{
		{Name: "delegation-filter", Wasm: delegationFilter},
		{Name: "tool-result-clear", Wasm: toolResultClear, Late: true},
		{Name: "summarise", Wasm: summarise},
		{Name: "depth-compress", Wasm: depthCompress},
		{Name: "tool-pair-trim", Wasm: toolPairTrim},
	}
}
