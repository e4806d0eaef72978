package decision

// This part of the package reports what happened to each considered message, and why, as JSON of the API. Reports may
// have thousands of rows. encoding/json would take most of the time of reading a decision, so rows are encoded by hand.

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// ReportRow says what happened to a message, and why. One row stands for all messages that are too old to be
// considered; it has Count and Turns.
type ReportRow struct {
	MessageID    *string     `json:"message_id"`   // null in the row of older messages
	Turn         *uint32     `json:"turn"`         // null if the message belongs to none
	Atom         *uint32     `json:"atom"`         // the same number for messages that stay or go together; null for none
	WindowIndex  *int32      `json:"window_index"` // in messages; null: it has no place there
	Action       plan.Action `json:"action"`
	Policy       string      `json:"policy"`
	Step         *int16      `json:"step"` // in pipeline, of who decided; null: Mneme itself did
	ReasonCode   string      `json:"reason_code"`
	Reason       string      `json:"reason"`
	TokensBefore uint32      `json:"tokens_before"`
	TokensAfter  uint32      `json:"tokens_after"`
	// TokensToKeep is how many more tokens the window would take with the message's whole atom unchanged, or fewer if
	// it is negative; nil if the message is not a stored or pending one, cannot be shown, or is one of many in a row.
	TokensToKeep *int32    `json:"tokens_to_keep"`
	Count        uint64    `json:"count,omitempty"`
	Turns        [2]uint32 `json:"turns,omitzero"`
}

// host is the name in rows that Mneme itself decided, and no policy.
const host = "mneme"

// Decided fills in what was decided about the message, by whom and why. policy is the policy of the step that decided,
// if any. must means that the message is mandatory.
func (r *ReportRow) Decided(f *plan.Fate, must bool, policy string) {
	r.Action, r.Policy = f.Action, host
	if f.Action == "" {
		r.Action = plan.Keep
		r.ReasonCode, r.Reason = "kept", "no policy changed it and it fits the budget"
		if must {
			r.ReasonCode, r.Reason = "mandatory", "the newest user message and the newest atom always stay"
		}
		return
	}
	if f.Step >= 0 {
		r.Policy, r.Step = policy, &f.Step
	}
	r.ReasonCode, r.Reason, _ = strings.Cut(f.Reason, ":")
	if r.Reason = strings.TrimSpace(r.Reason); r.Reason == "" {
		r.Reason = r.ReasonCode
	}
	if r.ReasonCode == "" {
		r.ReasonCode, r.Reason = string(r.Action), "the policy gave no reason"
	}
}

// rowSize is the approximate size of a row as JSON, in bytes.
const rowSize = 320

// AppendReport appends the rows as a JSON array to dst. The result equals that of encoding/json.
func AppendReport(dst []byte, rows []ReportRow) []byte {
	dst = append(slices.Grow(dst, rowSize*len(rows)), '[')
	for i := range rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = rows[i].append(dst)
	}
	return append(dst, ']')
}

func (r *ReportRow) append(dst []byte) []byte {
	dst = append(dst, `{"message_id":`...)
	if r.MessageID == nil {
		dst = append(dst, "null"...)
	} else {
		dst = rawjson.AppendString(dst, *r.MessageID)
	}
	dst = number(append(dst, `,"turn":`...), r.Turn)
	dst = number(append(dst, `,"atom":`...), r.Atom)
	dst = number(append(dst, `,"window_index":`...), r.WindowIndex)
	dst = rawjson.AppendString(append(dst, `,"action":`...), string(r.Action))
	dst = rawjson.AppendString(append(dst, `,"policy":`...), r.Policy)
	dst = number(append(dst, `,"step":`...), r.Step)
	dst = rawjson.AppendString(append(dst, `,"reason_code":`...), r.ReasonCode)
	dst = rawjson.AppendString(append(dst, `,"reason":`...), r.Reason)
	dst = number(append(dst, `,"tokens_before":`...), &r.TokensBefore)
	dst = number(append(dst, `,"tokens_after":`...), &r.TokensAfter)
	dst = number(append(dst, `,"tokens_to_keep":`...), r.TokensToKeep)
	if r.Count != 0 {
		dst = strconv.AppendUint(append(dst, `,"count":`...), r.Count, 10)
	}
	if r.Turns != [2]uint32{} {
		dst = number(append(dst, `,"turns":[`...), &r.Turns[0])
		dst = append(number(append(dst, ','), &r.Turns[1]), ']')
	}
	return append(dst, '}')
}

// number appends a number, or null.
func number[T int16 | int32 | uint32](dst []byte, n *T) []byte {
	if n == nil {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, int64(*n), 10)
}
