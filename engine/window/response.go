package window

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// appendRest appends all of the answer to a context request that stands behind the window. The answer is put together
// by hand: the messages are stored JSON, copied, never encoded again.
func (a *assembly) appendRest(dst []byte, w *chat.Window) []byte {
	dst = append(dst, `,"usage":`...)
	dst = a.appendUsage(dst, w)
	dst = a.appendSummary(append(dst, `,"summary":`...))
	if a.request.Memories != nil {
		dst = a.appendMemories(append(dst, `,"memories":`...))
	}
	dst = a.appendSteps(append(dst, `,"pipeline":`...))
	if a.request.Explain {
		dst = a.appendReport(append(dst, `,"report":`...))
	}
	if len(a.skipped) > 0 {
		dst = append(dst, `,"skipped":[`...)
		for i, s := range a.skipped {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(append(dst, `{"index":`...), int64(s.Index), 10)
			dst = append(chat.AppendString(append(dst, `,"code":`...), s.Code), '}')
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// openWindow appends the beginning of a window's members format, messages, text and system, up to where its messages
// follow; closeWindow appends the rest, once the window is made.
func (a *assembly) openWindow(dst []byte) []byte {
	return append(append(append(dst, `"format":"`...), a.format.String()...), `","messages":`...)
}

func (a *assembly) closeWindow(dst []byte, w *chat.Window) []byte {
	if a.format == chat.Text {
		return chat.AppendString(append(dst, `[],"text":`...), string(w.Text))
	}
	dst = w.Buf
	if w.System != "" {
		dst = chat.AppendString(append(dst, `,"system":`...), w.System)
	}
	return dst
}

func (a *assembly) appendUsage(dst []byte, w *chat.Window) []byte {
	var historyTokens uint64
	for i := range a.result.items {
		if it := &a.result.items[i]; it.Role != plan.RoleSystem {
			historyTokens += uint64(it.Tokens)
		}
	}
	for _, f := range [...]struct {
		name  string
		value uint64
	}{
		{`{"messages":`, uint64(w.Rendered)},
		{`,"tokens":`, a.result.tokens + uint64(a.limits.systemTokens)},
		{`,"history_messages":`, uint64(a.result.messages)},
		{`,"history_tokens":`, historyTokens},
		{`,"system_tokens":`, uint64(a.limits.systemTokens)},
		{`,"considered_messages":`, uint64(len(a.rows))},
		{`,"considered_tokens":`, a.table.tokens},
	} {
		dst = strconv.AppendUint(append(dst, f.name...), f.value, 10)
	}
	return append(dst, '}')
}

func (a *assembly) appendSteps(dst []byte) []byte {
	dst = append(dst, '[')
	for i := range a.result.steps {
		s := &a.result.steps[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, `{"policy":"`...), s.Policy...)
		dst = strconv.AppendInt(append(dst, `","version":`...), int64(s.Version), 10)
		dst = append(append(dst, `,"digest":"`...), s.Digest...)
		dst = strconv.AppendUint(append(dst, `","fuel":`...), s.Fuel, 10)
		dst = strconv.AppendInt(append(dst, `,"duration_us":`...), s.Duration, 10)
		dst = append(append(append(dst, `,"outcome":"`...), s.Outcome...), '"')
		if s.Detail != "" {
			dst = chat.AppendString(append(dst, `,"detail":`...), s.Detail)
		}
		if len(s.Log) > 0 {
			dst = append(dst, `,"log":[`...)
			for j, line := range s.Log {
				if j > 0 {
					dst = append(dst, ',')
				}
				dst = append(append(append(dst, `{"level":"`...), line.Level...), `","message":`...)
				dst = append(chat.AppendString(dst, line.Message), '}')
			}
			dst = append(dst, ']')
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// appendReport appends one row for each considered message, oldest first, one for each message that was injected, and
// one for what lies beyond the horizon.
func (a *assembly) appendReport(dst []byte) []byte {
	dst = append(dst, '[')
	for _, row := range a.reportRows() {
		dst = append(row.append(dst), ',')
	}
	if a.older.messages > 0 {
		row := reportRow{}
		reason := "beyond_horizon: older than the messages that a window of this size considers"
		if a.showsSummary() {
			reason += fmt.Sprintf("; the summary covers turns %d to %d", a.summary.FirstTurn, a.summary.LastTurn)
		}
		row.explain(plan.Fate{Action: plan.Drop, Step: -1, Reason: reason}, false, nil)
		dst = row.append(dst)
		dst = dst[:len(dst)-1]
		dst = strconv.AppendUint(append(dst, `,"count":`...), a.older.messages, 10)
		dst = strconv.AppendUint(append(dst, `,"turns":[1,`...), uint64(a.older.lastTurn), 10)
		dst = append(dst, "]},"...)
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, ']')
}

// reportRows are the rows of the considered messages, and behind them those of injected ones.
func (a *assembly) reportRows() []reportRow {
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
	rows := make([]reportRow, 0, len(a.rows)+4)
	pending := len(a.rows) - len(a.pending)
	for i, r := range a.rows {
		row := reportRow{turn: r.Turn, before: a.tokensOf(r), after: after[i]}
		if i >= pending {
			row.id = "pending:" + strconv.Itoa(i-pending)
		} else {
			row.id = transcript.MessageID(a.extent.Incarnation, r.Seq)
		}
		row.explain(a.result.fates[i], must[i], a.result.steps)
		rows = append(rows, row)
	}
	for i := range a.result.items {
		it := &a.result.items[i]
		if it.Change != plan.Answer && it.Change != plan.Notice {
			continue
		}
		row := reportRow{turn: it.Turn, after: it.Tokens}
		row.explain(plan.Fate{Action: plan.Inject, Step: it.Step, Reason: it.Reason}, false, a.result.steps)
		if it.Change == plan.Answer {
			row.id = "answer:" + transcript.MessageID(a.extent.Incarnation, it.Seq) + ":" + strconv.Itoa(int(it.Call))
		} else {
			switch row.id = "notice:" + strconv.Itoa(i); it.Kind {
			case plan.KindSummary:
				row.id = "summary:" + strconv.FormatUint(uint64(a.summary.Version), 10)
			case plan.KindMemory:
				row.id = "memories"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// reportRow is one row of a report.
type reportRow struct {
	id            string // empty: null
	turn          uint32 // 0: null
	action        plan.Action
	policy        string
	code, reason  string
	before, after uint32
}

// hostPolicy stands in reports where no policy but Mneme itself decided.
const hostPolicy = "mneme"

// explain fills in who decided what, and why.
func (r *reportRow) explain(f plan.Fate, must bool, steps []stepOutcome) {
	if r.action, r.policy = f.Action, hostPolicy; f.Action == "" {
		r.action = plan.Keep
		r.code, r.reason = "kept", "no policy changed it and it fits the budget"
		if must {
			r.code, r.reason = "mandatory", "the newest user message and the newest atom always stay"
		}
		return
	}
	if f.Step >= 0 {
		r.policy = steps[f.Step].Policy
	}
	r.code, r.reason, _ = strings.Cut(f.Reason, ":")
	if r.reason = strings.TrimSpace(r.reason); r.reason == "" {
		r.reason = r.code
	}
	if r.code == "" {
		r.code, r.reason = string(r.action), "the policy gave no reason"
	}
}

func (r *reportRow) append(dst []byte) []byte {
	dst = append(dst, `{"message_id":`...)
	if r.id == "" {
		dst = append(dst, "null"...)
	} else {
		dst = chat.AppendString(dst, r.id)
	}
	dst = append(dst, `,"turn":`...)
	if r.turn == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendUint(dst, uint64(r.turn), 10)
	}
	dst = append(append(append(dst, `,"action":"`...), r.action...), `","policy":"`...)
	dst = append(append(dst, r.policy...), `","reason_code":`...)
	dst = chat.AppendString(dst, r.code)
	dst = chat.AppendString(append(dst, `,"reason":`...), r.reason)
	dst = strconv.AppendUint(append(dst, `,"tokens_before":`...), uint64(r.before), 10)
	dst = strconv.AppendUint(append(dst, `,"tokens_after":`...), uint64(r.after), 10)
	return append(dst, '}')
}
