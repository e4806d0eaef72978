package hostapi

import (
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// Names of the checks of this package. Package wasm runs others before.
const (
	checkMemory   = "memory_pages" // as in package wasm
	checkManifest = "manifest"
	checkImported = "imports"
	checkExported = "exports"
	checkStart    = "start_up"
)

// guestFunction is a function that a guest exports.
type guestFunction struct {
	name     string
	params   []param
	results  []api.ValueType
	optional bool
	needed   func(plan.Hook) bool // the hooks for which it must be exported; nil means all
	doc      string
}

// required reports whether a module with these hooks must export the function.
func (f *guestFunction) required(hooks []string) bool {
	if f.needed == nil {
		return !f.optional
	}
	return slices.ContainsFunc(hooks, func(name string) bool {
		hook, _ := plan.HookNamed(name)
		return f.needed(hook)
	})
}

// guestFunctions returns the functions that mneme/1 requires of a guest, in the order of the documentation.
func guestFunctions() []guestFunction {
	i32 := []api.ValueType{api.ValueTypeI32}
	return []guestFunction{
		{exportInitialize, nil, nil, true, nil, "optional; called once, with its own fuel. A `start` section is refused"},
		{exportABI, nil, i32, false, nil, "`major<<16 | minor`; the major must be 1 (65536 is 1.0, 65539 is 1.3)"},
		{exportArena, i32s("kind", "bytes"), i32, false, nil,
			"called once per kind after `_initialize`: 0 request, 1 plan. Returns the address of an area of `bytes`, a " +
				"multiple of 8, valid for the instance's life, or 0 to refuse. The areas must not overlap. An instance is " +
				"made for one size: 65,536 and 32,768 bytes for usual windows, 524,288 and 262,144 for the longest and for the hooks remember and retain, " +
				"so allocate the size that is requested"},
		{exportAssemble, i32s("req", "req_len", "plan", "plan_cap"), i32, false, plan.Hook.Assembles,
			"called for the hook assemble; returns the plan's length, 0 for no ops, or a " +
				"negative number for an error of the policy, with the text from `fail`"},
		{exportPlan, i32s("req", "req_len", "plan", "plan_cap"), i32, false,
			func(h plan.Hook) bool { return !h.Assembles() },
			"since 1.3: called for all other hooks, which the preamble names; otherwise as `mneme_assemble`. A module exports " +
				"those of the two that its manifest's hooks need"},
	}
}

// signature returns a function's type as a module declares it.
func signature(params []param, results []api.ValueType) wasm.FuncType {
	var t wasm.FuncType
	for _, p := range params {
		t.Params = append(t.Params, wasm.ValueType(p.typ))
	}
	for _, r := range results {
		t.Results = append(t.Results, wasm.ValueType(r))
	}
	return t
}

func sameType(a, b wasm.FuncType) bool {
	return slices.Equal(a.Params, b.Params) && slices.Equal(a.Results, b.Results)
}

// checkImports refuses imports that the host modules do not provide with exactly that signature.
func checkImports(imports []wasm.Import) *plan.Refusal {
	offered := map[string][]hostFunction{hostModule: mnemeFunctions(), wasiModule: wasiFunctions()}
	for _, i := range imports {
		functions, ok := offered[i.Module]
		if !ok {
			return refuse(checkImported, "%q.%q: module %q is not offered, only %q and %q",
				i.Module, i.Name, i.Module, hostModule, wasiModule)
		}
		at := slices.IndexFunc(functions, func(f hostFunction) bool { return f.name == i.Name })
		if at < 0 {
			return refuse(checkImported, "%q.%q is not offered", i.Module, i.Name)
		}
		if want := signature(functions[at].params, functions[at].results); !sameType(want, i.Type) {
			return refuse(checkImported, "%q.%q has the signature %s, not %s", i.Module, i.Name, i.Type, want)
		}
	}
	return nil
}

// checkExports refuses a module that does not export what the ABI requires for its hooks, with exactly those signatures.
func checkExports(exports []wasm.Export, hooks []string) *plan.Refusal {
	find := func(name string) (wasm.Export, bool) {
		at := slices.IndexFunc(exports, func(e wasm.Export) bool { return e.Name == name })
		if at < 0 {
			return wasm.Export{}, false
		}
		return exports[at], true
	}
	if e, ok := find(exportMemory); !ok || e.Kind != wasm.KindMemory {
		return refuse(checkExported, "there is no memory named %q", exportMemory)
	}
	for _, f := range guestFunctions() {
		e, ok := find(f.name)
		if !f.required(hooks) && !(ok && f.optional) {
			continue
		}
		want := signature(f.params, f.results)
		switch {
		case !ok || e.Kind != wasm.KindFunc:
			return refuse(checkExported, "there is no function %s%s", f.name, want)
		case !sameType(want, e.Type):
			return refuse(checkExported, "%s has the signature %s, not %s", f.name, e.Type, want)
		}
	}
	return nil
}

func refuse(check, format string, args ...any) *plan.Refusal {
	return &plan.Refusal{Check: check, Detail: fmt.Sprintf(format, args...)}
}
