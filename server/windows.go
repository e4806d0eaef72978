package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/server/strictjson"
)

// assemble assembles the window for the next model call. It also passes the raw body to the engine, because the
// decision stores it.
func (s *Server) assemble(ctx context.Context, c *call[window.Request]) (spliced[window.Answer], error) {
	answer, err := s.engine.Windows.Assemble(ctx, c.caller, c.path("project"), &c.body, c.raw, c.buffer())
	if err != nil {
		return nil, err
	}
	c.decision = answer.DecisionID
	return answer.JSON()
}

// listDecisions lists the newest decisions first. It fails with invalid_time for a malformed time.
func (s *Server) listDecisions(ctx context.Context, c *call[nothing]) (list records.List[decision.Row], err error) {
	f := decision.Filter{Session: c.query("session_id"), Outcome: plan.Status(c.query("outcome")), Policy: c.query("policy")}
	var wrong [3]error
	f.Since, wrong[0] = c.queryTime("since")
	f.Until, wrong[1] = c.queryTime("until")
	f.Cut, wrong[2] = c.queryBool("cut")
	if err := cmp.Or(wrong[:]...); err != nil {
		return list, err
	}
	return s.engine.Decisions.List(ctx, c.caller, c.path("project"), f, c.page)
}

// decision explains a window that was made earlier.
func (s *Server) decision(ctx context.Context, c *call[nothing]) (spliced[lab.Explanation], error) {
	explained, err := s.engine.Trials.Decision(ctx, c.caller, c.path("project"), c.path("decision"))
	if err != nil {
		return nil, err
	}
	return explained.Append(c.buffer())
}

// replay assembles the window of a decision again and reports whether it is the same.
func (s *Server) replay(ctx context.Context, c *call[nothing]) (spliced[window.Replayed], error) {
	return s.engine.Windows.Replay(ctx, c.caller, c.path("project"), c.path("decision"), c.buffer())
}

// fork makes a window from a decision's inputs with other rules.
func (s *Server) fork(ctx context.Context, c *call[lab.ForkRequest]) (spliced[lab.Forked], error) {
	settings, err := readSettings(c.body.Settings)
	if err != nil {
		return spliced[lab.Forked]{}, err
	}
	c.body.Settings = settings
	return s.engine.Trials.Fork(ctx, c.caller, c.path("project"), c.path("decision"), &c.body, c.buffer())
}

// diffWindows compares two windows message by message.
func (s *Server) diffWindows(ctx context.Context, c *call[lab.DiffRequest]) (lab.Diff, error) {
	return s.engine.Trials.Diff(ctx, c.caller, c.path("project"), &c.body)
}

// whyNot returns the smallest budget at which a message of a decision is kept.
func (s *Server) whyNot(ctx context.Context, c *call[lab.WhyNotRequest]) (lab.WhyNot, error) {
	return s.engine.Trials.WhyNot(ctx, c.caller, c.path("project"), c.path("decision"), c.body)
}

// replaySettings reports what other settings would change in real sessions.
func (s *Server) replaySettings(ctx context.Context, c *call[lab.SettingsReplayRequest]) (lab.SettingsReplay, error) {
	var err error
	if c.body.Settings, err = readSettings(c.body.Settings); err != nil {
		return lab.SettingsReplay{}, err
	}
	return s.engine.Trials.ReplaySettings(ctx, c.caller, c.path("project"), c.body)
}

// readSettings parses settings in a request like a settings patch.
func readSettings(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	patch, err := settingsDecoder.Check(raw)
	if faults, ok := errors.AsType[*strictjson.FaultsError](err); ok {
		for i := range faults.Faults {
			faults.Faults[i].Path = "settings." + faults.Faults[i].Path
			faults.Faults[i].Pointer = "/settings" + faults.Faults[i].Pointer
		}
	}
	return patch, err
}

// recordedCase returns the input of a decision's step as a test case. It fails with out_of_range for a step that does
// not exist.
func (s *Server) recordedCase(ctx context.Context, c *call[nothing]) (lab.Recorded, error) {
	step := 0
	if text := c.query("step"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return lab.Recorded{}, invalidQuery("step", "out_of_range", "must be the number of a step, from 0")
		}
		step = n
	}
	return s.engine.Trials.Recorded(ctx, c.caller, c.path("project"), c.path("decision"), step)
}
