package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Summary is, for plans, what the running summary covers and how it is shown; the text is "" where there is none.
func (a *assembly) Summary() (covers uint64, text string, tokens uint32) {
	s := a.summary
	if s == nil {
		return 0, "", 0
	}
	flat := 0
	if a.format == chat.Text {
		flat = 1
	}
	counted := &s.tokens[flat][a.encoding]
	if counted.Load() == 0 {
		counted.Store(1 + int64(a.NoticeTokens(s.notice)))
	}
	return s.Covers, s.notice, uint32(counted.Load() - 1)
}

// appendSummary appends the summary that a window shows, or null.
func (a *assembly) appendSummary(dst []byte) []byte {
	if !a.showsSummary() {
		return append(dst, "null"...)
	}
	dst = chat.AppendString(append(dst, `{"text":`...), a.summary.Text)
	dst = fmt.Appendf(dst, `,"covers_turns":[%d,%d],"covers_messages":%d,"version":%d}`, a.summary.FirstTurn,
		a.summary.LastTurn, a.summary.Count, a.summary.version)
	return dst
}

// showsSummary tells whether the window holds the running summary.
func (a *assembly) showsSummary() bool {
	return a.summary != nil && slices.ContainsFunc(a.result.items, func(it plan.Item) bool {
		return it.Change == plan.Notice && it.Kind == plan.KindSummary
	})
}

// summaryWish is a longer summary than there is, which a window's pipeline asks for.
type summaryWish struct {
	caller           Caller
	project, session string
	pinc, sinc       incarnation   // of both
	through          uint64        // the last message to cover
	had              summaryHead   // what the window's summary covers
	wait             time.Duration // how long the window may wait for it; 0: it goes without
}

// awaitsSummary asks for the summary that the window would like to have. In mode wait it waits for it, once, and tells
// whether the session has another summary by now.
func (a *assembly) awaitsSummary(ask *asking, pinc incarnation) bool {
	if a.e.wantSummary == nil || a.bare || a.result.ask == 0 {
		return false
	}
	if ask.request.Pipeline != nil && ask.caller.Role < RoleAgent { // a reader changes nothing, nor has it paid for
		return false
	}
	through := summaryCut(a.rows[:len(a.rows)-len(a.pending)], a.result.ask, a.asked)
	if through == 0 || through <= a.covered.Covers && a.summary != nil {
		return false // none could be made, or there is one
	}
	w := summaryWish{caller: ask.caller, project: ask.project, session: ask.session, pinc: pinc,
		sinc: a.extent.incarnation, through: through, had: a.covered}
	if !ask.waited && a.settings.SummaryMode == "wait" {
		w.wait = time.Duration(a.settings.SummaryWaitMS) * time.Millisecond
	}
	return a.e.wantSummary(a.ctx, w)
}

// summaryCut moves a cut back to where it splits no atom and stays before the session's newest user message of no
// delegation, asked, or, where there is none, before the newest atom.
func summaryCut(rows []*row, cut, asked uint64) uint64 {
	newest := slices.Backward(rows)
	bound := asked
	for _, r := range newest {
		if bound == 0 && r.role == plan.RoleUser && r.delegationID == 0 { // heads written before the field Asked existed have none
			bound = r.seq
		}
	}
	if bound == 0 && len(rows) > 0 {
		bound = rows[len(rows)-1].call
	}
	cut = min(cut, max(bound, 1)-1)
	for _, r := range newest {
		if r.seq > cut && r.call <= cut && r.call != unknownCall {
			cut = r.call - 1
		}
	}
	return cut
}

// allBut is the last message to cover so that the newest keep ones of no delegation are left.
func (v *view) allBut(keep int) uint64 {
	rows := make([]*row, len(v.rows))
	for i := range v.rows {
		rows[i] = &v.rows[i]
	}
	for _, r := range slices.Backward(rows) {
		if r.delegationID != 0 {
			continue
		}
		if keep--; keep < 0 {
			return summaryCut(rows, r.seq, v.head.Asked)
		}
	}
	return 0
}
