package window

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// maxTable limits the records of a table: the considered messages and a result for each of their calls. It is the
// number of records that fit into the largest arena of the ABI.
const maxTable = 6000

// consider selects candidate messages: those after the limit, and mandatory ones before it. Mandatory messages are only
// searched for among the newest project.MaxConsidered messages.
func (a *assembly) consider() error {
	stored := a.view.Rows
	if a.bare {
		stored = nil
	}
	start := a.limit(stored)
	must, found := a.beyondLimit(stored, start)
	if !found && len(stored) < min(project.MaxConsidered, int(a.extent.LivingMessages())) && !a.bare {
		if err := a.widen(); err != nil {
			return err
		}
		return a.consider()
	}
	a.rows = slices.Grow(a.considered[:0], len(must)+len(stored)-start+len(a.pending))
	a.rows = append(a.rows, must...)
	if start < len(stored) {
		first := stored[start].Seq
		for i := start; i < len(stored); i++ {
			if stored[i].Call >= first { // a late result belongs to its call, which is beyond the horizon
				a.rows = append(a.rows, &stored[i])
			}
		}
		slices.SortFunc(a.rows, func(x, y *cache.Row) int { return cmp.Compare(x.Seq, y.Seq) })
		a.rows = slices.Compact(a.rows)
	}
	a.older = older{}
	hidden := len(a.rows)
	if v := &a.request.Viewer; v.ResultTokens != nil {
		results := a.newestResults(a.rows, *v.ResultTokens)
		a.rows = slices.DeleteFunc(a.rows, func(r *cache.Row) bool { return !a.own(r) && !results[r] })
	} else if v.Alone {
		a.rows = slices.DeleteFunc(a.rows, func(r *cache.Row) bool { return !a.own(r) })
	}
	hidden -= len(a.rows)
	if !a.bare {
		a.older.messages = a.extent.LivingMessages() - uint64(len(a.rows)+hidden)
		if start > 0 {
			a.older.lastTurn = stored[start-1].Turn
		} else if a.older.messages > 0 {
			return fmt.Errorf("%w: %d messages are missing from the transcript", records.ErrDamaged, a.older.messages)
		}
	}
	for _, r := range a.rows {
		if r.Lost() {
			a.damage++
		}
	}
	for i := range a.pending {
		a.rows = append(a.rows, &a.pending[i])
	}
	a.compacted = 0
	for _, r := range a.rows {
		if r.Compacts && a.format == chat.AnthropicMessages && a.visible(r) {
			a.compacted = r.Seq
		}
	}
	a.considered = a.rows
	return nil
}

// limit returns the index of the first considered message.
func (a *assembly) limit(stored []cache.Row) int {
	before := int(a.extent.LivingMessages()) - len(stored)
	return cache.TableStart(stored, before, a.horizon(), maxTable)
}

// beyondLimit returns the newest user message and the newest atom that the viewer may see, as far as they are before
// the limit. found is false if one of them was not found at all.
func (a *assembly) beyondLimit(stored []cache.Row, start int) (must []*cache.Row, found bool) {
	var user, atom bool
	for i := range a.pending {
		user = user || a.pending[i].Role == plan.RoleUser // the viewer may see its own pending messages
		atom = atom || a.pending[i].Call > a.extent.Messages
	}
	for i := len(stored) - 1; i >= start && !(user && atom); i-- {
		if r := &stored[i]; a.visible(r) {
			user = user || r.Role == plan.RoleUser
			atom = atom || r.Call >= stored[start].Seq
		}
	}
	oldest := max(0, len(stored)-project.MaxConsidered)
	call := uint64(0) // the newest atom, by its call
	for i := start - 1; i >= oldest; i-- {
		if r := &stored[i]; a.visible(r) {
			if !user && r.Role == plan.RoleUser {
				user, must = true, append(must, r)
			}
			if !atom {
				call = max(call, r.Call)
			}
		}
	}
	for i := max(oldest, start); i < len(stored) && !atom; i++ { // late results after the limit
		if a.visible(&stored[i]) {
			call = max(call, stored[i].Call)
		}
	}
	for i := oldest; i < len(stored) && call > 0; i++ {
		if stored[i].Call == call {
			must, atom = append(must, &stored[i]), true
		}
	}
	return must, user && atom
}

// own reports whether a stored message can be read and belongs to the viewer's delegation, or to none if the viewer is
// in none.
func (a *assembly) own(r *cache.Row) bool {
	return !r.Lost() && r.Header.Delegation == a.viewerDelegation()
}

// visible reports whether a stored message can be read and may be shown to the viewer.
func (a *assembly) visible(r *cache.Row) bool {
	viewer := &a.request.Viewer
	main := a.viewerDelegation() == ""
	switch {
	case a.own(r):
		return true
	case r.Lost() || viewer.Alone || !main && r.Header.Delegation != "":
		return false
	case viewer.Whole || r.Kind == plan.KindA2A:
		return true
	case main:
		return r.Role != plan.RoleUser
	}
	return r.Role == plan.RoleTool || r.Calls > 0
}

// widen loads as many messages as any window may consider.
func (a *assembly) widen() (err error) {
	if a.view, err = a.svc.views.Widen(a.ctx, a.view, project.MaxConsidered+1); err != nil {
		return err
	}
	a.pending, a.skipped = nil, nil // because their names are numbered together with those of the stored messages
	return a.parsePending()
}

// parsePending reads the messages of the pending turn and numbers them after the session's last.
func (a *assembly) parsePending() error {
	if len(a.request.Pending) == 0 {
		return nil
	}
	t, skipped := transcript.TurnOf(a.request.Elements, "")
	if t == nil {
		t = new(transcript.Turn)
		var err error
		if t.Messages, skipped, err = transcript.ParseMessages(a.pendingFormat, a.request.Pending); err != nil {
			return err
		}
	}
	parsed := t.Messages
	a.skipped = skipped
	if len(parsed) == 0 {
		return nil
	}
	t.Agent = a.request.Viewer.Agent
	t.Delegation = a.viewerDelegation()
	open := new(transcript.OpenCalls)
	if slices.ContainsFunc(parsed, func(p chat.Parsed) bool { return p.Role == plan.RoleTool }) && !a.bare {
		var damaged int
		var err error
		if open, damaged, err = a.svc.views.OpenCalls(a.ctx, a.view, a.limit(a.view.Rows)); err != nil {
			return err
		}
		a.damage += damaged
	}
	if from := a.memories.From; from != nil { // In a replay, the decision has the provenance of pending messages.
		making := transcript.Making{Session: cmp.Or(a.request.SessionID, ident.DefaultSession),
			Format: a.pendingFormat.String(), Posted: a.request.Pending, Field: "pending"}
		if err := making.Trace(t, func(id string) (*transcript.Kept, error) {
			return a.svc.decisions.Decided(a.ctx, from.Caller.Unconfined(), from.ProjectID, id)
		}); err != nil {
			return err
		}
		t.Reminders = nil // The previous window determines which reminders are repeated.
	}
	a.used = t.OwnNames(a.names)
	hs, err := a.svc.sessions.NumberTurn(a.ctx, t, a.extent, open, records.TimeOf(a.at))
	if err != nil {
		return err
	}
	a.pending, a.view = a.view.Beside(hs)
	a.posted = make([]int32, len(parsed))
	for i := range a.pending {
		a.posted[i] = int32(parsed[i].Index)
		a.pending[i].Flags |= plan.FlagPending
		a.pending[i].Message.Store(&parsed[i].Message)
	}
	return nil
}

// rowOf returns the considered row with a number in the session, or nil.
func (a *assembly) rowOf(seq uint64) *cache.Row {
	if i := cache.IndexOf(a.rows, seq); i >= 0 {
		return a.rows[i]
	}
	return nil
}

// windowOrder returns the indexes of the considered rows in the order in which each result directly follows its call.
func (a *assembly) windowOrder() []int {
	a.order = slices.Grow(a.order[:0], len(a.rows))[:len(a.rows)]
	order := a.order
	for i := range order {
		order[i] = i
	}
	byCall := func(x, y int) int { return cmp.Compare(a.rows[x].Call, a.rows[y].Call) }
	if !slices.IsSortedFunc(order, byCall) {
		slices.SortStableFunc(order, byCall)
	}
	return order
}
