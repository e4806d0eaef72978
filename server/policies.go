package server

import (
	"bytes"
	"context"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/trial"
)

func (s *Server) uploadPolicy(ctx context.Context, c *call[rawBody]) (stored[policy.Version], error) {
	// The module is copied, because c.raw is used again for a later request.
	v, created, err := s.engine.Policies.Upload(ctx, c.caller, c.once, c.query("name"), bytes.Clone(c.raw))
	return stored[policy.Version]{v, created}, err
}

func (s *Server) listPolicies(ctx context.Context, c *call[nothing]) (records.List[policy.Policy], error) {
	return s.engine.Policies.List(ctx, c.caller, c.page)
}

func (s *Server) getPolicy(ctx context.Context, c *call[nothing]) (policy.Policy, error) {
	return s.engine.Policies.Get(ctx, c.caller, c.path("policy"))
}

func (s *Server) deletePolicy(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.Policies.Delete(ctx, c.caller, c.path("policy"))
}

func (s *Server) setLive(ctx context.Context, c *call[policy.LiveSpec]) (policy.Policy, error) {
	return s.engine.Policies.SetLive(ctx, c.caller, c.path("policy"), c.body)
}

// version is the number in the path, or 0 where the path has no plain number; no version is 0, so it is not found.
func (x *exchange) version() int {
	n, err := strconv.Atoi(x.path("version"))
	if err != nil || strconv.Itoa(n) != x.path("version") {
		return 0
	}
	return n
}

func (s *Server) getPolicyVersion(ctx context.Context, c *call[nothing]) (policy.Version, error) {
	return s.engine.Policies.GetVersion(ctx, c.caller, c.path("policy"), c.version())
}

func (s *Server) deletePolicyVersion(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.Policies.DeleteVersion(ctx, c.caller, c.path("policy"), c.version())
}

func (s *Server) runPolicy(ctx context.Context, c *call[trial.RunRequest]) (spliced[trial.Ran], error) {
	return s.engine.Trials.Run(ctx, c.caller, c.path("policy"), c.version(), &c.body, c.buffer())
}

func (s *Server) replayPolicy(ctx context.Context, c *call[trial.ReplayRequest]) (trial.Replay, error) {
	return s.engine.Trials.Replay(ctx, c.caller, c.path("policy"), c.version(), c.body)
}
