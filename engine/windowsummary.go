package engine

import (
	"fmt"
	"slices"

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

// summaryWanted is the last message up to which the window's pipeline asks for a longer summary than there is; 0: it
// asks for none, or none could be made.
func (a *assembly) summaryWanted() uint64 {
	if a.e.summariser == nil || a.bare || a.result.ask == 0 {
		return 0
	}
	cut := summaryCut(a.rows[:len(a.rows)-len(a.pending)], a.result.ask, a.asked)
	if cut <= a.covered.Covers && a.summary != nil {
		return 0
	}
	return cut
}

// summaryCut moves a cut back to where it splits no atom and stays before the session's newest user message of no
// delegation, asked, or, where there is none, before the newest atom.
func summaryCut(rows []*row, cut, asked uint64) uint64 {
	newest := slices.Backward(rows)
	bound := asked
	for _, r := range newest {
		if bound == 0 && r.role == plan.RoleUser && r.delegationID == 0 { // a head of before asked was kept
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
