package mneme

// call makes one call of a policy. It is the same in a module and in a native build.
func call(policy Policy, req *Request, plan *Plan, request, buffer []byte) (int, error) {
	if err := req.open(request); err != nil {
		return 0, err
	}
	if err := plan.open(buffer); err != nil {
		return 0, err
	}
	if err := policy(req, plan); err != nil {
		return 0, err
	}
	return plan.close()
}
