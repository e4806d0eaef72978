package recall

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// recentMemories answers a query without words.
func (svc *Service) recentMemories(ctx context.Context, c access.Caller, p *project.Record, r *request, out *Result) error {
	for page := (records.Page{Limit: r.Limit}); ; {
		list, err := svc.memories.List(ctx, c, p.ID, r.memories, page)
		if err != nil {
			return err
		}
		for _, m := range list.Data {
			if m.Damaged {
				continue // there is nothing to show
			}
			if !out.add(memoryHit(&m)) {
				return nil
			}
		}
		if !list.HasMore || len(out.Data) >= r.Limit || len(list.Data) == 0 {
			out.Incomplete = out.Incomplete || list.HasMore && len(out.Data) < r.Limit
			return nil
		}
		page = records.Page{Limit: r.Limit - len(out.Data), Cursor: *list.NextCursor}
	}
}

// maxHeads bounds the sessions that one query without words looks at.
const maxHeads = 20_000

// recentMessages answers a query without words: the newest messages with a text of the sessions that were active last.
func (svc *Service) recentMessages(ctx context.Context, c access.Caller, p *project.Record, r *request, out *Result) error {
	sessions, err := svc.lastActive(ctx, c.Tenant, p, r, out)
	if err != nil {
		return err
	}
	var found []Hit
	budget := workBudget{tailMessages, tailBytes}
	for _, s := range sessions {
		// What was written before the oldest hit at hand cannot be among the newest.
		if len(found) >= r.Limit && s.LastActivity.Before(found[r.Limit-1].CreatedAt) {
			break
		}
		if !budget.left() {
			out.Incomplete = true
			break
		}
		hits, err := svc.newestOf(ctx, c.Tenant, s.ID, &s.Head, r, &budget)
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

// lastActive gives the sessions that may have the newest messages, the last active first: of so many sessions none
// further back can be needed, unless those have nothing that the query may show.
func (svc *Service) lastActive(ctx context.Context, tenant string, p *project.Record, r *request, out *Result) (
	sessions []session.NamedHead, err error,
) {
	take := func(h session.NamedHead) {
		if h.Messages > 0 && !h.LastActivity.Before(r.filter.Since) && (r.SessionID == "" || h.ID == r.SessionID) {
			sessions = append(sessions, h)
		}
	}
	last := func(a, b session.NamedHead) int { return b.LastActivity.Compare(a.LastActivity) }
	if r.SessionID != "" {
		read, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{records.Session.Key(p.Incarnation, r.SessionID)}})
		if err != nil || read.Keys[0].Value == nil {
			out.Incomplete = out.Incomplete || err == nil && read.Keys[0].Damaged
			return nil, err
		}
		h := session.NamedHead{ID: r.SessionID}
		if err := json.Unmarshal(read.Keys[0].Value, &h.Head); err != nil {
			return nil, err
		}
		take(h)
		return sessions, nil
	}
	looked := 0
	for h, err := range svc.sessions.Heads(ctx, tenant, p.Incarnation, "") {
		if err != nil {
			return nil, err
		}
		if looked++; looked > maxHeads {
			out.Incomplete = true
			break
		}
		if take(h); len(sessions) > 2*tailMessages {
			slices.SortStableFunc(sessions, last)
			sessions = slices.Delete(sessions, tailMessages, len(sessions)) // each has one message that costs of the budget
		}
	}
	slices.SortStableFunc(sessions, last)
	return sessions, nil
}

// newestOf gives a session's newest messages that a query without words may show, newest first.
func (svc *Service) newestOf(ctx context.Context, tenant, id string, h *session.Head, r *request, budget *workBudget) (
	hits []Hit, err error,
) {
	for last := h.Messages; last > 0 && len(hits) < r.Limit && budget.left(); {
		first := last - min(last, transcript.BodiesAtOnce) + 1
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
			hd, m, err := transcript.ParseBody(body)
			if err != nil || m.Text == "" || r.viewer != "" && hd.Delegation != "" && hd.Delegation != r.viewer {
				continue
			}
			d := rank.Document{Session: id, Group: hd.Delegation, Tags: hd.Tags, Created: records.TimeOf(hd.Created)}
			if !r.filter.Passes(&d, d.Created) {
				continue
			}
			if hits = append(hits, messageHitOf(h.Incarnation, first+uint64(i), id, hd, m)); len(hits) == r.Limit {
				break
			}
		}
		last = first - 1
	}
	return hits, nil
}
