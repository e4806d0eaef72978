package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"

	"github.com/seed-0906e6bc/mneme/engine/window"
)

// DiffRequest names two windows of a project.
type DiffRequest struct {
	A DiffSide `json:"a"`
	B DiffSide `json:"b"`
}

// DiffSide is a window: the original one of a decision, or the one that a request gets now, which is not stored.
type DiffSide struct {
	Decision string          `json:"decision_id,omitempty"`
	Request  *window.Request `json:"request,omitempty"`
}

// Diff is the difference between two windows.
type Diff struct {
	A        DiffedWindow `json:"a"`
	B        DiffedWindow `json:"b"`
	Messages Sides        `json:"messages"` // in the responses
	Tokens   Sides        `json:"tokens"`   // of the windows
	Prefix   DiffPrefix   `json:"prefix"`
	Changed  int          `json:"changed"` // number of rows in which the sides differ
	Rows     []DiffRow    `json:"rows"`
}

// DiffedWindow is one of the two.
type DiffedWindow struct {
	window.Rendered
	Usage    decision.Usage  `json:"usage"`
	Pipeline []decision.Step `json:"pipeline"`
}

// Sides is a number for both windows.
type Sides struct {
	A uint64 `json:"a"`
	B uint64 `json:"b"`
}

// DiffPrefix is the common beginning of both prompts. Tokens are those of B, of whole messages.
type DiffPrefix struct {
	System   bool   `json:"system"`   // same system prompt, or none in both
	Messages int    `json:"messages"` // number of whole messages that are equal
	Tokens   uint64 `json:"tokens"`
	Bytes    int    `json:"bytes"` // of the system prompt and the messages, as returned
	Of       Sides  `json:"of"`    // total number of bytes
}

// DiffRow is what happened to a message in both windows. A side is nil if that window did not consider the message.
type DiffRow struct {
	MessageID *string             `json:"message_id"`
	Turn      *uint32             `json:"turn"`
	Changed   bool                `json:"changed"`
	A         *decision.ReportRow `json:"a"`
	B         *decision.ReportRow `json:"b"`
}

// diffed is a window in the form in which it is compared.
type diffed struct {
	DiffedWindow
	Report []decision.ReportRow `json:"report"`
}

// Diff compares two windows message by message. It stores nothing. It returns the errors of Replay for a decision, and
// those of Assemble for a request.
func (svc *Service) Diff(ctx context.Context, c ident.Caller, projectID string, req *DiffRequest) (out Diff, err error) {
	var sides [2]diffed
	for i, side := range [...]struct {
		name string
		*DiffSide
	}{{"a", &req.A}, {"b", &req.B}} {
		if (side.Decision == "") == (side.Request == nil) {
			return out, fault.InvalidField(side.name, "invalid_value", "must be either a decision or a request")
		}
		raw, err := svc.sideOf(ctx, c, projectID, side.DiffSide)
		if err != nil {
			return out, err
		}
		if err := json.Unmarshal(raw, &sides[i]); err != nil {
			return out, fmt.Errorf("reading a window: %w", err)
		}
	}
	a, b := &sides[0], &sides[1]
	out = Diff{A: a.DiffedWindow, B: b.DiffedWindow, Messages: Sides{a.Usage.Messages, b.Usage.Messages},
		Tokens: Sides{a.Usage.Tokens, b.Usage.Tokens}, Rows: rowsOf(a.Report, b.Report)}
	for i := range out.Rows {
		if out.Rows[i].Changed {
			out.Changed++
		}
	}
	out.Prefix = prefixOf(a, b)
	return out, nil
}

// sideOf makes one of the windows and returns its JSON with its report.
func (svc *Service) sideOf(ctx context.Context, c ident.Caller, projectID string, side *DiffSide) ([]byte, error) {
	if side.Request != nil {
		asked := *side.Request
		asked.Record, asked.Explain = new(false), true
		answer, err := svc.windows.Assemble(ctx, c, projectID, &asked, nil, nil)
		if err != nil {
			return nil, err
		}
		return answer.JSON()
	}
	d, err := svc.decisions.Read(ctx, c, projectID, side.Decision)
	if err != nil {
		return nil, err
	}
	made, err := svc.windows.Remake(ctx, c.Tenant, d, nil)
	if err != nil {
		return nil, err
	}
	return made.AppendMembers([]byte(`{"fork_of":null`))
}

// rowName identifies a row within its window. Messages have ids; other rows are identified by who inserted them and by
// a running number.
func rowName(r *decision.ReportRow, seen map[string]int) string {
	if r.MessageID != nil {
		return "m" + *r.MessageID
	}
	name := "o" + r.Policy + " " + string(r.Action) + " " + r.ReasonCode
	seen[name]++
	return fmt.Sprint(name, " ", seen[name])
}

// rowsOf aligns two reports in their common order.
func rowsOf(a, b []decision.ReportRow) []DiffRow {
	rows := make([]DiffRow, 0, max(len(a), len(b)))
	names, seen := make([]string, len(a)), map[string]int{}
	inA := map[string]bool{}
	for i := range a {
		names[i] = rowName(&a[i], seen)
		inA[names[i]] = true
	}
	at, only := map[string]int{}, make([]bool, len(b))
	seen = map[string]int{}
	for i := range b {
		name := rowName(&b[i], seen)
		at[name], only[i] = i, !inA[name]
	}
	next := 0
	upTo := func(end int) {
		for ; next < end; next++ {
			if only[next] {
				rows = append(rows, diffRow(nil, &b[next]))
			}
		}
	}
	for i := range a {
		if j, ok := at[names[i]]; ok {
			upTo(j)
			rows = append(rows, diffRow(&a[i], &b[j]))
		} else {
			rows = append(rows, diffRow(&a[i], nil))
		}
	}
	upTo(len(b))
	return rows
}

func diffRow(a, b *decision.ReportRow) DiffRow {
	row := DiffRow{A: a, B: b, Changed: true}
	if a != nil {
		row.MessageID, row.Turn = a.MessageID, a.Turn
	} else {
		row.MessageID, row.Turn = b.MessageID, b.Turn
	}
	if a != nil && b != nil {
		row.Changed = fateOf(a) != fateOf(b) || a.TokensBefore != b.TokensBefore || a.Policy != b.Policy ||
			(a.WindowIndex == nil) != (b.WindowIndex == nil) || a.Count != b.Count
	}
	return row
}

// prefixOf returns the common beginning of two prompts.
func prefixOf(a, b *diffed) (p DiffPrefix) {
	parts := func(d *diffed) [][]byte {
		out := [][]byte{d.System}
		for _, m := range d.DiffedWindow.Messages {
			out = append(out, m)
		}
		return append(out, []byte(d.Text))
	}
	x, y := parts(a), parts(b)
	p.Of = Sides{uint64(len(bytes.Join(x, nil))), uint64(len(bytes.Join(y, nil)))}
	for i := range min(len(x), len(y)) {
		n := 0
		for n < min(len(x[i]), len(y[i])) && x[i][n] == y[i][n] {
			n++
		}
		p.Bytes += n
		if n < len(x[i]) || n < len(y[i]) {
			break
		}
		if whole := min(len(x), len(y)) - 2; 0 < i && i <= whole { // the first part is the system prompt, the last one the text
			p.Messages++
		}
	}
	// Formats without a field for the system prompt have it as their first message.
	if p.System = bytes.Equal(a.System, b.System); p.System && len(a.System) == 0 {
		p.System = a.Usage.SystemTokens+b.Usage.SystemTokens == 0 || p.Messages > 0
	}
	if p.System {
		p.Tokens = b.Usage.SystemTokens
	}
	for i := range b.Report {
		if at := b.Report[i].WindowIndex; at != nil && int(*at) < p.Messages {
			p.Tokens += uint64(b.Report[i].TokensAfter)
		}
	}
	return p
}
