package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// SettingsReplayRequest asks what other settings would change for real sessions.
type SettingsReplayRequest struct {
	Settings json.RawMessage `json:"settings,omitempty"` // like a patch of the project's settings; null restores a default
	Sessions []string        `json:"sessions,omitempty"` // nil means the most recently used ones
	Newest   int             `json:"newest,omitempty"`   // how many of these; 0 means 20
}

// SettingsReplay is what other settings would change: before is with the project's own settings, after with the others.
type SettingsReplay struct {
	Project  string          `json:"project_id"`
	Sessions []SessionReplay `json:"sessions"`
	Totals   Totals          `json:"totals"`
}

// ReplaySettings makes windows of real sessions with the project's settings and with others, and reports the
// differences. It stores nothing and requests no summaries. It returns not_found if the project or a session does not
// exist, and the errors of PatchSettings for invalid settings.
func (svc *Service) ReplaySettings(ctx context.Context, c ident.Caller, projectID string, req SettingsReplayRequest) (
	SettingsReplay, error) {
	out := SettingsReplay{Project: projectID, Sessions: []SessionReplay{}}
	if len(req.Sessions) > maxReplaySessions {
		return out, fault.InvalidField("sessions", "too_long", "must name at most %d sessions", maxReplaySessions)
	}
	if req.Newest < 0 || req.Newest > maxReplaySessions {
		return out, fault.InvalidField("newest", "out_of_range", "must be from 0 to %d", maxReplaySessions)
	}
	p, _, _, err := svc.projects.Read(ctx, c, projectID, nil)
	if err != nil {
		return out, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return out, err
	}
	other, err := svc.projects.Patched(p, req.Settings)
	if err != nil {
		return out, err
	}
	names := svc.projects.OwnPolicies(append(slices.Clip(set.Settings.Pipeline), other.Steps()...))
	own, err := svc.policies.Read(ctx, c.Tenant, names)
	if err != nil {
		return out, err
	}
	r := svc.policies.Resolver(ctx, c.Tenant, set.Settings, own)
	r.Lenient = true
	before, err := r.Make(set.Settings.Pipeline)
	if err != nil {
		return out, err
	}
	r = svc.policies.Resolver(ctx, c.Tenant, other, own)
	if _, err := r.Make(other.Pipeline); err != nil {
		return out, err
	}
	if _, err := r.Steps(plan.HookAdmit, other.AdmitPipeline); err != nil { // replayed by nothing, but checked
		return out, err
	}
	entries := slices.Clone(other.Pipeline)
	for i := range entries {
		entries[i].OnError = "" // so that failures are reported
	}
	after, err := r.Make(entries)
	if err != nil {
		return out, err
	}
	sessions := req.Sessions
	if sessions == nil {
		if sessions, err = svc.newestSessions(ctx, c.Tenant, p, cmp.Or(req.Newest, replaySessions)); err != nil {
			return out, err
		}
	}
	for _, id := range sessions {
		s, err := svc.replaySession(ctx, c, projectID, id, before, after)
		if err != nil {
			return out, err
		}
		out.Totals.add(s.Totals)
		out.Sessions = append(out.Sessions, s)
	}
	return out, nil
}

// newestSessions returns the most recently used conversations of a project, newest first.
func (svc *Service) newestSessions(ctx context.Context, tenant string, p *project.Record, n int) ([]string, error) {
	var newest []session.NamedHead
	for h, err := range svc.sessions.Heads(ctx, tenant, p.Incarnation, "") {
		if err != nil {
			return nil, err
		}
		if h.Kind != session.KindChat || !h.Counts(h.ID) {
			continue // windows of background sessions choose no history
		}
		at, _ := slices.BinarySearchFunc(newest, h, func(a, b session.NamedHead) int {
			return cmp.Or(b.LastActivity.Compare(a.LastActivity), cmp.Compare(a.ID, b.ID))
		})
		if newest = slices.Insert(newest, at, h); len(newest) > n {
			newest = newest[:n]
		}
	}
	ids := make([]string, len(newest))
	for i := range newest {
		ids[i] = newest[i].ID
	}
	return ids, nil
}
