package recall

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// maxHeads bounds the sessions that one query without words looks at.
const maxHeads = 20_000

// recentMessages gives the newest messages with a text, out of the sessions that were active last.
func (svc *Service) recentMessages(ctx context.Context, c access.Caller, p *project.Record, r *request, out *Result) error {
	sessions, err := svc.lastActive(ctx, c.Tenant, p, r, out)
	if err != nil {
		return err
	}
	var found []Hit
	budget := workBudget{tailMessages, tailBytes}
	for _, s := range sessions {
		// Messages older than the oldest hit at hand cannot be among the newest.
		if len(found) >= r.Limit && s.LastActivity.Before(found[r.Limit-1].CreatedAt) {
			break
		}
		if !budget.left() {
			out.Incomplete = true
			break
		}
		hits, err := svc.newestOf(ctx, c.Tenant, s.Id, &s.Head, r, &budget)
		if err != nil {
			return err
		}
		found = append(found, hits...)
		slices.SortStableFunc(found, func(a, b Hit) int { return b.CreatedAt.Compare(a.CreatedAt) })
		found = found[:min(len(found), r.Limit)]
	}
	if len(found) < r.Limit && !budget.left() {
		out.Incomplete = true
	}
	for _, h := range found {
		if !out.add(h) {
			break
		}
	}
	return nil
}

// lastActive gives the sessions that may have the newest messages, the last active first. Where there are many it keeps
// tailMessages of them, because each has a message that costs of the budget, so that none further back is reached.
func (svc *Service) lastActive(ctx context.Context, tenant string, p *project.Record, r *request, out *Result) (
	sessions []session.NamedHead, err error,
) {
	take := func(heads []session.NamedHead) {
		for _, h := range heads {
			if h.Messages > 0 && !h.LastActivity.Before(r.filter.Since) && (r.SessionID == "" || h.Id == r.SessionID) {
				sessions = append(sessions, h)
			}
		}
	}
	last := func(a, b session.NamedHead) int { return b.LastActivity.Compare(a.LastActivity) }
	if r.SessionID != "" {
		h, err := records.Get[session.Head](ctx, svc.db, tenant, records.Session.Key(p.Incarnation, r.SessionID))
		if errors.Is(err, records.ErrDamaged) {
			out.Incomplete, err = true, nil
		}
		if h != nil {
			take([]session.NamedHead{{Head: *h, Id: r.SessionID}})
		}
		return sessions, err
	}
	looked := 0
	for after := []byte(nil); ; {
		var heads []session.NamedHead
		if heads, after, err = svc.sessions.ReadHeads(ctx, tenant, p.Incarnation, after); err != nil {
			return nil, err
		}
		if take(heads); len(sessions) > 2*tailMessages {
			slices.SortStableFunc(sessions, last)
			sessions = slices.Delete(sessions, tailMessages, len(sessions))
		}
		if after == nil {
			break
		}
		if looked += session.HeadsAtOnce; looked >= maxHeads {
			out.Incomplete = true
			break
		}
	}
	slices.SortStableFunc(sessions, last)
	return sessions, nil
}

// newestOf gives a session's newest messages that the request may show, newest first.
func (svc *Service) newestOf(ctx context.Context, tenant, id string, h *session.Head, r *request, budget *workBudget) (
	hits []Hit, err error,
) {
	for last := h.Messages; last > 0 && len(hits) < r.Limit && budget.left(); {
		first := last - min(last, session.BodiesAtOnce) + 1
		bodies, err := svc.sessions.ReadBodies(ctx, tenant, h.Incarnation, first, last)
		if err != nil {
			return nil, err
		}
		for i, body := range slices.Backward(bodies) {
			if !budget.left() {
				break
			}
			budget.messages--
			budget.bytes -= len(body)
			hd, m, err := session.ParseBody(body)
			if err != nil || m.Text == "" || r.viewer != "" && hd.Delegation != "" && hd.Delegation != r.viewer {
				continue
			}
			d := rank.Document{Session: id, Group: hd.Delegation, Tags: hd.Tags, Created: records.TimeOf(hd.Created)}
			if !r.filter.Passes(&d, d.Created) {
				continue
			}
			hits = append(hits, messageHit(h.Incarnation, first+uint64(i), id, hd, m))
			if len(hits) == r.Limit {
				break
			}
		}
		last = first - 1
	}
	return hits, nil
}
