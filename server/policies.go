package server

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

const moduleType = "application/wasm"

func (s *Server) uploadPolicy(ctx context.Context, c *call[rawBody]) (stored[policy.Version], error) {
	// Copy the module, because c.raw is reused for a later request.
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

// version returns the number in the path, or 0 if it is not a plain number. No policy has a version 0.
func (x *exchange) version() int {
	n, err := strconv.Atoi(x.path("version"))
	if err != nil || strconv.Itoa(n) != x.path("version") {
		return 0
	}
	return n
}

func (s *Server) getPolicyVersion(ctx context.Context, c *call[nothing]) (policy.Version, error) {
	return s.engine.Policies.ShowVersion(ctx, c.caller, c.path("policy"), c.version())
}

// getModule returns the module as it was uploaded, as a file download.
func (s *Server) getModule(ctx context.Context, c *call[nothing]) (blob, error) {
	name, version := c.path("policy"), c.version()
	code, err := s.engine.Policies.ModuleOf(ctx, c.caller, name, version)
	if err != nil {
		return blob{}, err
	}
	file := fmt.Sprintf("attachment; filename=%q", name+"-"+strconv.Itoa(version)+".wasm")
	c.c.Response().Header.Set(fiber.HeaderContentDisposition, file)
	return blob{contentType: moduleType, body: append(c.buffer(), code...)}, nil
}

func (s *Server) deletePolicyVersion(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.Policies.DeleteVersion(ctx, c.caller, c.path("policy"), c.version())
}

func (s *Server) runPolicy(ctx context.Context, c *call[lab.RunRequest]) (spliced[lab.Ran], error) {
	return s.engine.Trials.Run(ctx, c.caller, c.path("policy"), c.version(), &c.body, c.buffer())
}

func (s *Server) replayPolicy(ctx context.Context, c *call[lab.ReplayRequest]) (lab.Replay, error) {
	return s.engine.Trials.Replay(ctx, c.caller, c.path("policy"), c.version(), c.body)
}
