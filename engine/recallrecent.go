package engine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// recentMemories answers a query without words.
func (e *Engine) recentMemories(ctx context.Context, c Caller, p *project, r *recallRequest, out *RecallResult) error {
	for page := (Page{Limit: r.Limit}); ; {
		list, err := e.ListMemories(ctx, c, p.ID, r.memories, page)
		if err != nil {
			return err
		}
		for _, m := range list.Data {
			out.Data = append(out.Data, memoryHit(&m))
		}
		if !list.HasMore || len(out.Data) >= r.Limit || len(list.Data) == 0 {
			out.Incomplete = out.Incomplete || list.HasMore && len(out.Data) < r.Limit
			return nil
		}
		page = Page{Limit: r.Limit - len(out.Data), Cursor: *list.NextCursor}
	}
}

// recentMessages answers a query without words: the newest messages with a text of the sessions that were active last.
func (e *Engine) recentMessages(ctx context.Context, c Caller, p *project, r *recallRequest, out *RecallResult) error {
	type active struct {
		id   string
		head head
	}
	var sessions []active
	rng := prefixRange(headPrefix(p.Incarnation))
	if r.SessionID != "" {
		rng = store.Range{From: headKey(p.Incarnation, r.SessionID), To: append(headKey(p.Incarnation, r.SessionID), 0)}
	}
	read, err := e.store.Read(ctx, c.Tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return err
	}
	for _, it := range read.Ranges[0] {
		s := active{id: string(it.Key[len(headPrefix(p.Incarnation)) : len(it.Key)-1])}
		if it.Damaged || json.Unmarshal(it.Value, &s.head) != nil {
			return errDamaged
		}
		if s.head.Messages > 0 && !s.head.LastActivity.Before(r.filter.Since) {
			sessions = append(sessions, s)
		}
	}
	slices.SortFunc(sessions, func(a, b active) int { return b.head.LastActivity.Compare(a.head.LastActivity) })
	var found []RecallHit
	budget := workBudget{tailMessages, tailBytes}
	for _, s := range sessions {
		// What was written before the oldest hit at hand cannot be among the newest.
		if len(found) >= r.Limit && s.head.LastActivity.Before(found[r.Limit-1].CreatedAt) {
			break
		}
		if !budget.left() {
			out.Incomplete = true
			break
		}
		hits, err := e.newestOf(ctx, c.Tenant, s.id, &s.head, r, &budget)
		if err != nil {
			return err
		}
		found = append(found, hits...)
		slices.SortStableFunc(found, func(a, b RecallHit) int { return b.CreatedAt.Compare(a.CreatedAt) })
	}
	out.Data = append(out.Data, found[:min(len(found), r.Limit)]...)
	return nil
}

// newestOf gives a session's newest messages that a query without words may show, newest first.
func (e *Engine) newestOf(ctx context.Context, tenant, id string, h *head, r *recallRequest, budget *workBudget) (
	hits []RecallHit, err error,
) {
	for last := h.Messages; last > 0 && len(hits) < r.Limit && budget.left(); {
		first := last - min(last, 64) + 1
		bodies, err := e.readBodies(ctx, tenant, h.Incarnation, first, last)
		if err != nil {
			return nil, err
		}
		for i, body := range slices.Backward(bodies) {
			budget.messages--
			budget.bytes -= len(body)
			hd, m, err := parseBody(body)
			if err != nil || m.Text == "" || r.viewer != "" && hd.delegation != "" && hd.delegation != r.viewer {
				continue
			}
			d := recall.Document{Session: id, Group: hd.delegation, Tags: hd.tags, Created: timeOf(hd.created)}
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
