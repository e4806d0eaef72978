package engine

import (
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// consider picks the messages that the window looks at.
func (a *assembly) consider() error {
	stored := a.view.rows
	if a.bare {
		stored = nil
	}
	start := max(0, len(stored)-a.horizon())
	for start > 0 && start < len(stored) && !stored[start].atomStart() {
		start++ // the limit moves forward to an atom's start
	}
	a.rows = slices.Grow(a.considered[:0], len(stored)-start+len(a.pending))
	if start < len(stored) {
		first := stored[start].seq
		for i := start; i < len(stored); i++ {
			if stored[i].call >= first { // a late result lies with its call beyond the horizon
				a.rows = append(a.rows, &stored[i])
				if stored[i].lost() {
					a.damage++
				}
			}
		}
	}
	if !a.bare {
		a.older.messages = a.extent.messages - uint64(len(a.rows))
		if start > 0 {
			a.older.lastTurn = stored[start-1].turn
		} else if a.older.messages > 0 {
			return fmt.Errorf("%w: %d messages are missing from the transcript", errDamaged, a.older.messages)
		}
	}
	for i := range a.pending {
		a.rows = append(a.rows, &a.pending[i])
	}
	a.considered = a.rows
	return nil
}

// parsePending reads the messages of the turn in flight and gives them places after the session's last.
func (a *assembly) parsePending() error {
	if len(a.request.Pending) == 0 {
		return nil
	}
	format := a.format
	if format == chat.Text {
		format = chat.OpenAIChat
	}
	parsed, err := parseMessages(format, a.request.Pending, &a.skipped)
	if err != nil || len(parsed) == 0 {
		return err
	}
	open := new(openCalls)
	if slices.ContainsFunc(parsed, func(p chat.Parsed) bool { return p.Role == plan.RoleTool }) && !a.bare {
		if err := a.openCalls(open); err != nil {
			return err
		}
	}
	t := &parsedTurn{agent: a.request.Viewer.Agent, delegation: a.viewerDelegation(), messages: parsed}
	h := &head{Turns: a.extent.turns + 1, Messages: a.extent.messages}
	hs, err := t.place(a.e, h, open, timeOf(a.at))
	if err != nil {
		return err
	}
	v := &view{names: a.view.names}
	v.append(hs)
	a.view = &view{head: a.view.head, rows: a.view.rows, names: v.names}
	for i := range v.rows {
		v.rows[i].flags |= plan.FlagPending
		v.rows[i].message.Store(&parsed[i].Message)
	}
	a.pending = v.rows
	return nil
}

// openCalls finds the calls among the stored messages that may still be answered.
func (a *assembly) openCalls(open *openCalls) error {
	answered := map[uint64]map[uint16]bool{}
	var calls []*row
	stored := a.view.rows[max(0, len(a.view.rows)-a.horizon()):]
	for i := range stored {
		r := &stored[i]
		switch {
		case r.calls > 0:
			calls = append(calls, r)
		case r.call != r.seq:
			if answered[r.call] == nil {
				answered[r.call] = map[uint16]bool{}
			}
			answered[r.call][r.callIndex] = true
		}
	}
	calls = slices.DeleteFunc(calls, func(r *row) bool { return len(answered[r.seq]) >= int(r.calls) || r.damaged.Load() })
	if err := a.load(calls); err != nil {
		return err
	}
	for _, r := range calls {
		m := r.message.Load()
		if m == nil {
			continue
		}
		for i, call := range m.Calls {
			if !answered[r.seq][uint16(i)] {
				open.Calls = append(open.Calls, openCall{ID: call.ID, Seq: r.seq, Index: uint16(i), Turn: r.turn,
					Name: call.Name, Delegation: r.delegation})
			}
		}
	}
	return nil
}

// rowOf finds a considered row by its number in the session.
func (a *assembly) rowOf(seq uint64) *row {
	if i, ok := a.indexOf(seq); ok {
		return a.rows[i]
	}
	return nil
}

func (a *assembly) indexOf(seq uint64) (int, bool) {
	// Numbers are contiguous but for late results left out, so the place is at most this far.
	if len(a.rows) == 0 || seq < a.rows[0].seq {
		return 0, false
	}
	i := min(int(seq-a.rows[0].seq), len(a.rows)-1)
	for i > 0 && a.rows[i].seq > seq {
		i--
	}
	return i, a.rows[i].seq == seq
}

// windowOrder gives the considered rows with each result behind its call.
func (a *assembly) windowOrder() []int {
	a.order = slices.Grow(a.order[:0], len(a.rows))[:len(a.rows)]
	order := a.order
	sorted := true
	for i, r := range a.rows {
		order[i] = i
		if i > 0 && r.call < a.rows[i-1].call {
			sorted = false
		}
	}
	if !sorted {
		slices.SortStableFunc(order, func(x, y int) int {
			switch cx, cy := a.rows[x].call, a.rows[y].call; {
			case cx < cy:
				return -1
			case cx > cy:
				return 1
			}
			return x - y
		})
	}
	return order
}
