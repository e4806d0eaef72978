package decision_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler/compilertest"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

func TestMain(m *testing.M) { os.Exit(compilertest.Main(m)) }

// kept is a decision as the test knows it.
type kept struct {
	id, session string
	at          time.Time
	trapped     bool
	policy      string
	cut         bool
}

// pages lists all decisions that a filter passes, in pages of a length.
func pages(k *enginetest.Kit, f decision.Filter, limit int) (rows []decision.Row) {
	k.Helper()
	for cursor := ""; ; {
		list, err := k.Decisions.List(k.Context(), k.Admin, ident.DefaultProject, f, records.Page{Limit: limit, Cursor: cursor})
		if err != nil {
			k.Fatal(err)
		}
		rows = append(rows, list.Data...)
		if len(list.Data) > limit || list.HasMore != (list.NextCursor != nil) {
			k.Fatalf("%d rows in a page of %d: %+v", len(list.Data), limit, list)
		}
		if !list.HasMore {
			return rows
		}
		cursor = *list.NextCursor
	}
}

// made makes windows of some sessions over some days, of which every third has a failing step.
func made(k *enginetest.Kit, r *rand.Rand, n int) (all []kept) {
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("keeps"), wasmtest.Keep()))
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("traps"), wasmtest.Trap()))
	for i := range n {
		session := fmt.Sprint("s", r.IntN(4))
		if r.IntN(3) == 0 { // some decisions come before their session's first turn
			k.Post(session, enginetest.User("hello"))
		}
		trapped := r.IntN(3) == 0
		ref := "p@1"
		if trapped {
			ref = "p@2"
		}
		w := k.Ask(`{"session_id":%q,"viewer":{"agent":"a%d"},"pipeline":[{"policy":"tool-pair-trim"},{"policy":%q}]}`,
			session, i, ref)
		all = append(all, kept{w.DecisionID, session, k.Clock(), trapped, ref, w.Cut})
		if r.IntN(12) == 0 { // a day has more of a session than a page
			k.Advance(time.Duration(r.IntN(40)) * time.Hour)
		}
		k.Advance(time.Millisecond)
	}
	slices.Reverse(all)
	return all
}

// A list shows what a filter passes and nothing else, newest first, whatever the length of its pages.
func TestListsAreThoseOfTheModel(t *testing.T) {
	k := enginetest.New(t)
	r := rand.New(rand.NewPCG(13, 6))
	all := made(k, r, 200)
	for range 200 {
		var f decision.Filter
		if r.IntN(2) == 0 {
			f.Session = fmt.Sprint("s", r.IntN(5)) // s4 has none
		}
		if r.IntN(3) == 0 {
			f.Since = &all[r.IntN(len(all))].at
		}
		if r.IntN(3) == 0 {
			f.Until = &all[r.IntN(len(all))].at
		}
		f.Outcome = []plan.Status{"", "", "ok", "failed", "trap", "timeout"}[r.IntN(6)]
		if r.IntN(4) == 0 {
			cut := r.IntN(2) == 0
			f.Cut = &cut
		}
		f.Policy = []string{"", "", "p", "p@1", "p@2", "tool-pair-trim", "nobody"}[r.IntN(7)]
		var want []string
		for _, d := range all {
			trapped := d.trapped && f.Policy != "tool-pair-trim"
			switch {
			case f.Cut != nil && *f.Cut != d.cut, f.Session != "" && f.Session != d.session, f.Since != nil && d.at.Before(*f.Since),
				f.Until != nil && !d.at.Before(*f.Until), f.Outcome == "ok" && trapped,
				(f.Outcome == "failed" || f.Outcome == "trap") && !trapped, f.Outcome == "timeout",
				f.Policy == "nobody", (f.Policy == "p@1" || f.Policy == "p@2") && f.Policy != d.policy:
				continue
			}
			want = append(want, d.id)
		}
		var got []string
		for _, row := range pages(k, f, 1+r.IntN(20)) {
			got = append(got, row.ID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: %d rows, want %d\n%v\n%v", f, len(got), len(want), got, want)
		}
	}
	rows := pages(k, decision.Filter{}, 1000)
	d, err := k.Trials.Decision(t.Context(), k.Admin, ident.DefaultProject, rows[0].ID)
	row := rows[0]
	if err != nil || d.SessionID != row.Session || !d.CreatedAt.Equal(row.At) || d.Turns != row.Turn || !reflect.DeepEqual(d.Usage, row.Usage) ||
		d.Format != row.Format || row.Viewer.Agent != "a199" || len(row.Outcomes) != 2 {
		t.Errorf("%v: the row %+v is not of %+v", err, row, d)
	}
	for _, f := range []decision.Filter{{Outcome: "fine"}} {
		_, err := k.Decisions.List(t.Context(), k.Admin, ident.DefaultProject, f, records.Page{})
		enginetest.RefusedWith(t, err, fault.Invalid, "invalid_value")
	}
	for _, cursor := range []string{"AA", "____", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		for _, f := range []decision.Filter{{}, {Session: "s1"}} {
			page := records.Page{Cursor: cursor}
			_, err := k.Decisions.List(t.Context(), k.Admin, ident.DefaultProject, f, page)
			enginetest.RefusedWith(t, err, fault.Invalid, "invalid_cursor")
		}
	}
}

// What is listed goes with its session, its project's retention and its project.
func TestRowsGoWithDecisions(t *testing.T) {
	k := enginetest.New(t)
	made(k, rand.New(rand.NewPCG(1, 2)), 60)
	k.Post("s1", enginetest.User("once more"))
	k.Ask(`{"session_id":"s1"}`)
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "s1"); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	for _, row := range pages(k, decision.Filter{}, 7) {
		if row.Session == "s1" && row.Turn > 0 {
			t.Errorf("%+v is still listed", row)
		}
	}
	left := pages(k, decision.Filter{}, 7)
	k.Advance(4 * 24 * time.Hour)
	k.Drain()
	some := pages(k, decision.Filter{}, 7)
	if oldest := k.Clock().AddDate(0, 0, -8); len(some) == 0 || len(some) >= len(left) || some[len(some)-1].At.Before(oldest) {
		t.Errorf("%d rows, and %d before", len(some), len(left))
	}
	for _, f := range k.Verify().Findings {
		t.Errorf("%+v", f)
	}
	k.Advance(8 * 24 * time.Hour)
	k.Drain()
	for _, it := range k.Everything(k.Admin.Tenant) {
		if records.DecisionRow.Is(it.Key) {
			t.Errorf("%q is still there", it.Key)
		}
	}
}

// A page costs the same few round trips and rows however many decisions others made.
func TestPagesCostTheSame(t *testing.T) {
	raw := &enginetest.Counting{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	for range 20 {
		k.Ask(`{"session_id":"quiet"}`)
		k.Advance(time.Minute)
	}
	for i := range 3000 {
		k.Ask(`{"session_id":"busy%d"}`, i%7)
	}
	cost := func(f decision.Filter) int {
		raw.Reset()
		list, err := k.Decisions.List(t.Context(), k.Admin, ident.DefaultProject, f, records.Page{Limit: 10})
		if err != nil || len(list.Data) != 10 && f.Policy == "" || !list.HasMore {
			t.Fatalf("%+v %v", list, err)
		}
		return raw.Reads
	}
	for name, is := range map[string][2]int{"all": {cost(decision.Filter{}), 2},
		"of a session":          {cost(decision.Filter{Session: "quiet"}), 4},
		"of a policy not there": {cost(decision.Filter{Policy: "nobody"}), 10}} {
		if is[0] > is[1] {
			t.Errorf("a page %s took %d round trips, at most %d are meant", name, is[0], is[1])
		}
	}
}
