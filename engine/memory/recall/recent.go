package recall

import (
	"errors"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// maxHeads limits the sessions that one query without words examines.
const maxHeads = 20_000

// recentMessages finds the newest messages with a text, in the sessions that were active last.
func (r *recalling) recentMessages() error {
	sessions, err := r.lastActive()
	if err != nil {
		return err
	}
	var found []Hit
	budget := workBudget{tailMessages, tailBytes}
	for _, s := range sessions {
		// Messages older than the oldest hit so far cannot be among the newest.
		if len(found) >= r.Limit && s.LastActivity.Before(found[r.Limit-1].CreatedAt) {
			break
		}
		if !budget.left() {
			r.out.Incomplete = true
			break
		}
		hits, err := r.newestOf(&s, &budget)
		if err != nil {
			return err
		}
		found = append(found, hits...)
		slices.SortStableFunc(found, func(a, b Hit) int { return b.CreatedAt.Compare(a.CreatedAt) })
		found = found[:min(len(found), r.Limit)]
	}
	if len(found) < r.Limit && !budget.left() {
		r.out.Incomplete = true
	}
	for _, h := range found {
		if !r.out.add(h) {
			break
		}
	}
	return nil
}

// lastActive returns the sessions that may have the newest messages, last active first. If there are many it keeps
// tailMessages of them: each has a message that uses the budget, so no session after these would be reached.
func (r *recalling) lastActive() (sessions []session.NamedHead, err error) {
	take := func(h session.NamedHead) {
		if h.Messages > 0 && !h.LastActivity.Before(r.filter.Since) && (r.SessionID == "" || h.ID == r.SessionID) &&
			r.shows(h.Kind) && ident.Below(h.Namespace, r.Namespace) {
			sessions = append(sessions, h)
		}
	}
	last := func(a, b session.NamedHead) int { return b.LastActivity.Compare(a.LastActivity) }
	if r.SessionID != "" {
		key := records.Session.Key(r.project.Incarnation, r.SessionID)
		h, err := records.Get[session.Head](r.ctx, r.svc.db, r.tenant, key)
		if errors.Is(err, records.ErrDamaged) {
			r.out.Incomplete, err = true, nil
		}
		if h != nil {
			take(session.NamedHead{Head: *h, ID: r.SessionID})
		}
		return sessions, err
	}
	looked := 0
	for h, err := range r.svc.sessions.Heads(r.ctx, r.tenant, r.project.Incarnation, "") {
		if err != nil {
			return nil, err
		}
		if looked++; looked > maxHeads {
			r.out.Incomplete = true
			break
		}
		take(h)
		if len(sessions) > 2*tailMessages {
			slices.SortStableFunc(sessions, last)
			sessions = slices.Delete(sessions, tailMessages, len(sessions))
		}
	}
	slices.SortStableFunc(sessions, last)
	return sessions, nil
}

// newestOf returns a session's newest messages that the request may show, newest first.
func (r *recalling) newestOf(h *session.NamedHead, budget *workBudget) (hits []Hit, err error) {
	for last := h.Superseded.LastMessage(h.Messages); last > 0 && len(hits) < r.Limit && budget.left(); {
		first := last - min(last, transcript.BodiesAtOnce) + 1
		for begin := range h.Superseded.Living(last) {
			first = max(first, begin)
			break
		}
		bodies, err := r.svc.sessions.ReadBodies(r.ctx, r.tenant, h.Incarnation, first, last)
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
			if err != nil || m.Text == "" || m.Hidden || r.viewer != "" && hd.Delegation != "" && hd.Delegation != r.viewer {
				continue
			}
			d := rank.Document{Session: h.ID, Group: hd.Delegation, Tags: hd.Tags, Created: records.TimeOf(hd.Created)}
			if !r.filter.Passes(&d, d.Created) {
				continue
			}
			hit := messageHit(h.Incarnation, first+uint64(i), h.ID, hd, m)
			hit.Background = h.Kind == session.KindBackground
			hits = append(hits, hit)
			if len(hits) == r.Limit {
				break
			}
		}
		last = h.Superseded.LastMessage(first - 1)
	}
	return hits, nil
}
