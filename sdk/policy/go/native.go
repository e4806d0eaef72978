//go:build !tinygo.wasm && !wasip1

package mneme

type hostFunctions = Host

// Register does nothing in a native build. It lets the main package of a module compile.
func Register(Policy) struct{} { return struct{}{} }

// RegisterHook does nothing in a native build, like Register.
func RegisterHook(Hook, Policy) struct{} { return struct{}{} }

// Run calls a policy as a host would: request bytes in, plan bytes out, both aligned to 8. It returns the length of the
// plan in the buffer; 0 means no ops. Package mnemetest wraps it for tests.
func Run(policy Policy, request, buffer []byte, host Host) (int, error) {
	req := Request{host: host}
	var plan Plan
	return call(policy, &req, &plan, request, buffer)
}
