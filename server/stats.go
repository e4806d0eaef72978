package server

import (
	"cmp"
	"context"

	"github.com/seed-0906e6bc/mneme/engine/insight/stats"
)

// projectStats returns the activity of a project by hour or by day. It fails with invalid_time for a malformed time.
func (s *Server) projectStats(ctx context.Context, c *call[nothing]) (series stats.Series, err error) {
	q := stats.Query{Bucket: stats.Bucket(c.query("bucket"))}
	var wrong [2]error
	q.From, wrong[0] = c.queryTime("from")
	q.To, wrong[1] = c.queryTime("to")
	if err := cmp.Or(wrong[:]...); err != nil {
		return series, err
	}
	return s.engine.Stats.Series(ctx, c.caller, c.path("project"), q)
}
