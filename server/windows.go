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

// assemble makes the window for the next model call. The engine gets the body as it was received too, because the
// decision stores it.
func (s *Server) assemble(ctx context.Context, c *call[window.Request]) (spliced[window.Answer], error) {
	answer, err := s.engine.Windows.Assemble(ctx, c.caller, c.path("project"), &c.body, c.raw, c.buffer())
	if err != nil {
		return nil, err
	}
	c.decision = answer.DecisionID
	return answer.JSON()
}

// listDecisions answers the newest decisions first. It refuses a wrong time with invalid_time.
func (s *Server) listDecisions(ctx context.Context, c *call[nothing]) (list records.List[decision.Row], err error) {
	f := decision.Filter{Session: c.query("session"), Outcome: plan.Status(c.query("outcome")), Policy: c.query("policy")}
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

// replay makes the window of a decision again and says whether it is the same.
func (s *Server) replay(ctx context.Context, c *call[nothing]) (spliced[window.Replayed], error) {
	return s.engine.Windows.Replay(ctx, c.caller, c.path("project"), c.path("decision"), c.buffer())
}

// fork makes of a decision's inputs the window that other rules make of them.
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

// whyNot says from which budget on a message of a decision stays.
func (s *Server) whyNot(ctx context.Context, c *call[lab.WhyNotRequest]) (lab.WhyNot, error) {
	return s.engine.Trials.WhyNot(ctx, c.caller, c.path("project"), c.path("decision"), c.body)
}

// replaySettings says what other settings would change on real sessions.
func (s *Server) replaySettings(ctx context.Context, c *call[lab.SettingsReplayRequest]) (lab.SettingsReplay, error) {
	var err error
	if c.body.Settings, err = readSettings(c.body.Settings); err != nil {
		return lab.SettingsReplay{}, err
	}
	return s.engine.Trials.ReplaySettings(ctx, c.caller, c.path("project"), c.body)
}

// readSettings reads settings within a request as a patch of them is read.
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

// recordedCase gives what a step of a decision saw, as a test. It refuses a step that is none with out_of_range.
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
