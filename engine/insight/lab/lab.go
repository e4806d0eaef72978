package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// SettingsReplayRequest asks what other settings would change on real sessions.
type SettingsReplayRequest struct {
	Settings json.RawMessage `json:"settings,omitempty"` // as in a patch of the project's; null puts one back
	Sessions []string        `json:"sessions,omitempty"` // nil: those that were used last
	Newest   int             `json:"newest,omitempty"`   // how many of these; 0: 20
}

// SettingsReplay is what other settings would change: before is the project's own, after are the others.
type SettingsReplay struct {
	Project  string          `json:"project"`
	Sessions []SessionReplay `json:"sessions"`
	Totals   Totals          `json:"totals"`
}

// ReplaySettings assembles real sessions as they stand with the project's settings and with others, and says what
// differs. Nothing is stored and no summary is asked for. It answers not_found where the project or a session is not
// there, and what PatchSettings answers for wrong settings.
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
	names := svc.projects.OwnPolicies(append(slices.Clip(set.Settings.Pipeline), other.Pipeline...))
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
	entries := slices.Clone(other.Pipeline)
	for i := range entries {
		entries[i].OnError = "" // a failure is a finding here
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

// newestSessions are the conversations of a project that were used last, the newest first.
func (svc *Service) newestSessions(ctx context.Context, tenant string, p *project.Record, n int) ([]string, error) {
	var newest []session.NamedHead
	for h, err := range svc.sessions.Heads(ctx, tenant, p.Incarnation, "") {
		if err != nil {
			return nil, err
		}
		if h.Kind != session.KindChat || !h.Counts(h.ID) {
			continue // a background session has no history to be chosen from
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
