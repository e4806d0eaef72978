package server

import (
	"context"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/session"
)

// conversations returns the statistics of a project's conversations. It fails with parameter_missing without
// project_id.
func (s *Server) conversations(ctx context.Context, c *call[nothing]) (session.ConversationStats, error) {
	project, err := c.required("project_id")
	if err != nil {
		return session.ConversationStats{}, err
	}
	return s.engine.Sessions.Conversations(ctx, c.caller, project)
}

// purgeConversations deletes the old sessions of a project, or only counts them if dry_run=true. It fails with
// parameter_missing without project_id or older_than_days, and with out_of_range or invalid_value for malformed
// values.
func (s *Server) purgeConversations(ctx context.Context, c *call[nothing]) (out session.Purged, err error) {
	var spec session.PurgeSpec
	if spec.ProjectID, err = c.required("project_id"); err != nil {
		return out, err
	}
	days, err := c.required("older_than_days")
	if err != nil {
		return out, err
	}
	if spec.OlderThanDays, err = strconv.Atoi(days); err != nil {
		return out, invalidQuery("older_than_days", "out_of_range", "must be a number of days; 0 means all")
	}
	if spec.DryRun, err = c.truth("dry_run"); err != nil {
		return out, err
	}
	return s.engine.Sessions.PurgeConversations(ctx, c.caller, spec)
}
