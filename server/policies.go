package server

import (
	"bytes"
	"context"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) uploadPolicy(ctx context.Context, c *call[rawBody]) (stored[engine.PolicyVersion], error) {
	// A copy: what is made of a module may go on pointing into its bytes.
	v, created, err := s.engine.UploadPolicy(ctx, c.caller, c.once, c.query("name"), bytes.Clone(c.raw))
	return stored[engine.PolicyVersion]{v, created}, err
}

func (s *Server) listPolicies(ctx context.Context, c *call[nothing]) (engine.List[engine.Policy], error) {
	return s.engine.ListPolicies(ctx, c.caller, c.page)
}

func (s *Server) getPolicy(ctx context.Context, c *call[nothing]) (engine.Policy, error) {
	return s.engine.GetPolicy(ctx, c.caller, c.path("policy"))
}

func (s *Server) deletePolicy(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeletePolicy(ctx, c.caller, c.path("policy"))
}

func (s *Server) setLive(ctx context.Context, c *call[engine.LiveSpec]) (engine.Policy, error) {
	return s.engine.SetLive(ctx, c.caller, c.path("policy"), c.body)
}

// version is the number in the path; 0, which no version has, where it is none.
func (x *exchange) version() int {
	n, err := strconv.Atoi(x.path("version"))
	if err != nil || strconv.Itoa(n) != x.path("version") {
		return 0
	}
	return n
}

func (s *Server) getPolicyVersion(ctx context.Context, c *call[nothing]) (engine.PolicyVersion, error) {
	return s.engine.GetPolicyVersion(ctx, c.caller, c.path("policy"), c.version())
}

func (s *Server) deletePolicyVersion(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeletePolicyVersion(ctx, c.caller, c.path("policy"), c.version())
}

func (s *Server) runPolicy(ctx context.Context, c *call[engine.PolicyRunRequest]) (spliced[policyRun], error) {
	return s.engine.RunPolicy(ctx, c.caller, c.path("policy"), c.version(), &c.body, c.buffer())
}

func (s *Server) replayPolicy(ctx context.Context, c *call[engine.PolicyReplayRequest]) (engine.PolicyReplay, error) {
	return s.engine.ReplayPolicy(ctx, c.caller, c.path("policy"), c.version(), c.body)
}
