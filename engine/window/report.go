package window

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/decision"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// ReportRow tells what became of a message, and why. The row of what is older than the window considers speaks of no
// single message: it has Count and Turns instead.
type ReportRow struct {
	MessageID    *string     `json:"message_id"` // null in the row of older messages
	Turn         *uint32     `json:"turn"`       // null where the message belongs to none
	Action       plan.Action `json:"action"`
	Policy       string      `json:"policy"`
	ReasonCode   string      `json:"reason_code"`
	Reason       string      `json:"reason"`
	TokensBefore uint32      `json:"tokens_before"`
	TokensAfter  uint32      `json:"tokens_after"`
	Count        uint64      `json:"count,omitempty"`
	Turns        [2]uint32   `json:"turns,omitzero"`
}

// report gives one row for each considered message, oldest first, one for each message that was injected, and one for
// what lies beyond the horizon.
func (a *assembly) report() []ReportRow {
	after := make([]uint32, len(a.rows)) // tokens in the window
	for i := range a.result.items {
		if it := &a.result.items[i]; it.Row >= 0 && it.Change != plan.Answer {
			after[it.Row] = it.Tokens
		}
	}
	must := make([]bool, len(a.rows))
	for i := range a.table.items {
		it := &a.table.items[i]
		if it.Change != plan.Answer && it.Change != plan.Notice {
			must[it.Row] = it.Flags&plan.FlagMandatory != 0
		}
	}
	rows := make([]ReportRow, 0, len(a.rows)+4)
	pending := len(a.rows) - len(a.pending)
	for i, r := range a.rows {
		id := ""
		if i >= pending {
			id = "pending:" + strconv.Itoa(i-pending)
		} else {
			id = transcript.MessageID(a.extent.Incarnation, r.Seq)
		}
		row := newReportRow(id, r.Turn, a.result.fates[i], must[i], a.result.steps)
		row.TokensBefore, row.TokensAfter = a.tokensOf(r), after[i]
		rows = append(rows, row)
	}
	for i := range a.result.items {
		it := &a.result.items[i]
		if it.Change != plan.Answer && it.Change != plan.Notice {
			continue
		}
		fate := plan.Fate{Action: plan.Inject, Step: it.Step, Reason: it.Reason}
		row := newReportRow(a.injectedID(i, it), it.Turn, fate, false, a.result.steps)
		row.TokensAfter = it.Tokens
		rows = append(rows, row)
	}
	if a.older.messages == 0 {
		return rows
	}
	reason := "beyond_horizon: older than the messages that a window of this size considers"
	if a.showsSummary() {
		reason += fmt.Sprintf("; the summary covers turns %d to %d", a.summary.FirstTurn, a.summary.LastTurn)
	}
	row := newReportRow("", 0, plan.Fate{Action: plan.Drop, Step: -1, Reason: reason}, false, nil)
	row.Count, row.Turns = a.older.messages, [2]uint32{1, a.older.lastTurn}
	return append(rows, row)
}

// injectedID names a message that no client sent, the window's item at i.
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

// hostPolicy stands in reports where no policy but Mneme itself decided.
const hostPolicy = "mneme"

// newReportRow says who decided what of a message, and why. must says that the message had to stay.
func newReportRow(id string, turn uint32, f plan.Fate, must bool, steps []decision.Step) ReportRow {
	r := ReportRow{Action: f.Action, Policy: hostPolicy}
	if id != "" {
		r.MessageID = &id
	}
	if turn != 0 {
		r.Turn = &turn
	}
	if f.Action == "" {
		r.Action = plan.Keep
		r.ReasonCode, r.Reason = "kept", "no policy changed it and it fits the budget"
		if must {
			r.ReasonCode, r.Reason = "mandatory", "the newest user message and the newest atom always stay"
		}
		return r
	}
	if f.Step >= 0 {
		r.Policy = steps[f.Step].Policy
	}
	r.ReasonCode, r.Reason, _ = strings.Cut(f.Reason, ":")
	if r.Reason = strings.TrimSpace(r.Reason); r.Reason == "" {
		r.Reason = r.ReasonCode
	}
	if r.ReasonCode == "" {
		r.ReasonCode, r.Reason = string(r.Action), "the policy gave no reason"
	}
	return r
}
