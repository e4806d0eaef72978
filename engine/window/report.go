package window

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"

	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// report returns one row for each considered message, oldest first, one for each injected message, and one for all
// messages beyond the horizon.
func (a *assembly) report() []decision.ReportRow {
	after := make([]uint32, len(a.rows)) // tokens in the window
	places := make([]*int32, len(a.rows))
	for i := range a.result.items {
		it := &a.result.items[i]
		if it.Row < 0 || it.Change == plan.Answer {
			continue
		}
		after[it.Row], places[it.Row] = it.Tokens, a.placeOf(i)
		if shown := a.memories.Of(it); shown != nil {
			after[it.Row] -= shown.Tokens
		}
		if it.Change == plan.Compressed {
			for _, row := range it.Rows { // one message shows the questions of all
				places[row] = places[it.Row]
			}
		}
	}
	must, atoms := make([]bool, len(a.rows)), make([]*uint32, len(a.rows))
	for i := range a.table.items {
		it := &a.table.items[i]
		if it.Change != plan.Answer && it.Change != plan.Notice {
			must[it.Row], atoms[it.Row] = it.Flags&plan.FlagMandatory != 0, &it.Atom
		}
	}
	toKeep := a.tokensToKeep()
	rows, ids := make([]decision.ReportRow, 0, len(a.rows)+4), make([]string, len(a.rows))
	pending := len(a.rows) - len(a.pending)
	for i, r := range a.rows {
		if i >= pending {
			ids[i] = "pending:" + strconv.Itoa(i-pending)
		} else {
			ids[i] = transcript.MessageID(a.extent.Incarnation, r.Seq)
		}
		row := decision.ReportRow{MessageID: &ids[i], Turn: turnOf(&r.Turn), Atom: atoms[i], WindowIndex: places[i],
			TokensBefore: a.tokensOf(r), TokensAfter: after[i]}
		if atoms[i] != nil && !damaged(&a.result.fates[i]) {
			row.TokensToKeep = toKeep[*atoms[i]]
		}
		a.decided(&row, &a.result.fates[i], must[i])
		rows = append(rows, row)
	}
	for i := range a.result.items {
		it := &a.result.items[i]
		if shown := a.memories.Of(it); shown != nil {
			row := decision.ReportRow{MessageID: &shown.ID, Turn: turnOf(&it.Turn), Atom: &it.Atom, TokensAfter: shown.Tokens}
			if shown.Place >= 0 {
				row.WindowIndex = &shown.Place
			}
			a.decided(&row, &plan.Fate{Action: plan.Inject, Step: -1, Reason: shown.Reason}, false)
			rows = append(rows, row)
		}
		if it.Change != plan.Answer && it.Change != plan.Notice {
			continue
		}
		id := a.injectedID(i, it)
		row := decision.ReportRow{MessageID: &id, Turn: turnOf(&it.Turn), WindowIndex: a.placeOf(i), TokensAfter: it.Tokens}
		if it.Change == plan.Answer {
			row.Atom = &it.Atom
		}
		a.decided(&row, &plan.Fate{Action: plan.Inject, Step: it.Step, Reason: it.Reason}, false)
		rows = append(rows, row)
	}
	if a.older.messages == 0 {
		return rows
	}
	reason := "beyond_horizon: older than the messages that a window of this size considers"
	if a.showsSummary() {
		reason += fmt.Sprintf("; the summary covers turns %d to %d", a.summary.FirstTurn, a.summary.LastTurn)
	}
	row := decision.ReportRow{Count: a.older.messages, Turns: [2]uint32{1, a.older.lastTurn}}
	a.decided(&row, &plan.Fate{Action: plan.Drop, Step: -1, Reason: reason}, false)
	return append(rows, row)
}

// tokensToKeep returns, for each atom, how many more tokens the window would take with the whole atom unchanged.
// Messages of an atom stay or go together, so this is the price of each of them. It is negative if the replacement of
// the atom takes more.
func (a *assembly) tokensToKeep() map[uint32]*int32 {
	more := map[uint32]int64{}
	for i := range a.table.items {
		if it := &a.table.items[i]; it.Change != plan.Notice {
			more[it.Atom] += int64(it.Tokens)
		}
	}
	for i := range a.result.items {
		it := &a.result.items[i]
		if it.Row < 0 || it.Change == plan.Notice || it.Change == plan.Compressed && len(it.Rows) > 1 {
			continue // questions that are shown as one message stay when one of their turns is kept
		}
		more[it.Atom] -= int64(it.Tokens)
		if shown := a.memories.Of(it); shown != nil {
			more[it.Atom] += int64(shown.Tokens)
		}
	}
	out := make(map[uint32]*int32, len(more))
	for atom, n := range more {
		out[atom] = new(int32(n))
	}
	return out
}

// damaged reports whether the message cannot be shown as it was.
func damaged(f *plan.Fate) bool { return f.Step < 0 && strings.HasPrefix(f.Reason, "storage_damaged") }

// decided fills in what was decided about a row's message, and by which step.
func (a *assembly) decided(row *decision.ReportRow, f *plan.Fate, must bool) {
	policy := ""
	if f.Action != "" && f.Step >= 0 {
		policy = a.result.steps[f.Step].Policy
	}
	row.Decided(f, must, policy)
}

// turnOf returns a turn as rows have it: nil if there is none.
func turnOf(turn *uint32) *uint32 {
	if *turn == 0 {
		return nil
	}
	return turn
}

// placeOf returns the place of the window's item at i in the rendered messages, or nil if it has none.
func (a *assembly) placeOf(i int) *int32 {
	if i >= len(a.places) || a.places[i] < 0 {
		return nil
	}
	return &a.places[i]
}

// injectedID names the window's item at i, a message that no client sent.
func (a *assembly) injectedID(i int, it *plan.Item) string {
	switch {
	case it.Change == plan.Answer:
		return "answer:" + transcript.MessageID(a.extent.Incarnation, it.Seq) + ":" + strconv.Itoa(int(it.Call))
	case it.Kind == plan.KindSummary:
		return "summary:" + strconv.FormatUint(uint64(a.summary.Version), 10)
	case it.Kind == plan.KindMemory:
		return "memories"
	}
	return "notice:" + strconv.Itoa(i)
}

// seen returns what lists say about the window.
func (a *assembly) seen() decision.Seen {
	out := decision.Seen{Viewer: a.request.Viewer, Format: a.format.String()}
	if a.request.Proxied != nil {
		out.OfCall = *a.request.Proxied
	}
	for i := range a.result.fates {
		if a.result.fates[i].Action == plan.Drop {
			out.LeftOut.Count++
			out.LeftOut.Tokens += uint64(a.tokensOf(a.rows[i]))
		}
	}
	older := a.older.messages
	if a.showsSummary() {
		older -= min(older, a.summary.Covers)
	}
	out.LeftOut.Count += older
	return out
}
