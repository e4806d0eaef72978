package decision_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// Rows write what encoding/json reads as the same rows, with the same fields in the same order.
func TestRowsWriteThemselves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	texts := []string{"", "plain", "quote \" and \\", "line\nbreak\x01", "snow ☃ and 🂡", "<tag> & more", "\u2028"}
	text := func() string { return texts[r.IntN(len(texts))] }
	for range 3000 {
		rows := make([]decision.ReportRow, r.IntN(4))
		for i := range rows {
			rows[i] = decision.ReportRow{Action: plan.Action(text()), Policy: text(), ReasonCode: text(), Reason: text(),
				TokensBefore: r.Uint32(), TokensAfter: r.Uint32() >> r.IntN(33)}
			id, n := text(), r.Uint32()
			if r.IntN(2) == 0 {
				rows[i].MessageID, rows[i].Turn = &id, &n
			}
			atom, at, step := r.Uint32(), r.Int32(), int16(r.IntN(16))
			if r.IntN(2) == 0 {
				rows[i].Atom, rows[i].WindowIndex, rows[i].Step = &atom, &at, &step
			}
			if r.IntN(3) == 0 {
				rows[i].Count, rows[i].Turns = r.Uint64(), [2]uint32{1, r.Uint32()}
			}
		}
		raw := decision.AppendReport(nil, rows)
		var back []decision.ReportRow
		if err := json.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(back, rows) {
			t.Fatalf("%v: %s was read as %+v, not %+v", err, raw, back, rows)
		}
		want, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		var ours, theirs []map[string]any
		if json.Unmarshal(raw, &ours) != nil || json.Unmarshal(want, &theirs) != nil || !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("%s is not %s", raw, want)
		}
	}
}
