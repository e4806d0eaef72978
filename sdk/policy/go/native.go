//go:build !tinygo.wasm && !wasip1

package mneme

type hostFunctions = Host

// Register makes a policy the module's. In a native build it does nothing, so that the module's main package compiles.
func Register(Policy) struct{} { return struct{}{} }

// Run calls a policy as a host would: request bytes in, plan bytes out, both aligned to 8. It returns the length of
// the plan in the buffer, 0 for no ops. Package mnemetest wraps it for tests.
func Run(policy Policy, request, buffer []byte, host Host) (int, error) {
	req := Request{host: host}
	var plan Plan
	return call(policy, &req, &plan, request, buffer)
}
