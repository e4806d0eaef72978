package server

import "slices"

// forNamespaces lists the operations for keys that are narrowed to namespaces, without the prefix of the path they are
// served under. All others refuse these keys with key_narrowed, so a new route is refused until it is listed here. The
// engine has the same default: it lets such a key into a project only as the caller of one namespace.
var forNamespaces = []string{
	"whoAmI",
	"storeMemory", "listMemories", "recall", "getMemory", "putMemory", "patchMemory", "forgetMemory", "forgetMatching",
	"listNamespaces", "memoryHistory",
	"listTools", "callTool", "mcp",
}

// checkNarrowed refuses a key that is narrowed to namespaces with key_narrowed if the route reaches more.
func (x *exchange) checkNarrowed() error {
	if x.caller.Namespaces == nil || slices.Contains(forNamespaces, x.route.id) {
		return nil
	}
	return x.caller.Confined()
}
