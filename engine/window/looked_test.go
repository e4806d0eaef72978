package window_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// A window that is only looked at is the one that would be answered, and leaves nothing behind: no record, no job for a
// summary, and no failure of a policy.
func TestALookLeavesNothing(t *testing.T) {
	raw := memstore.New()
	scribe := &enginetest.Scribe{}
	k := enginetest.Open(t, raw, enginetest.SummariseWith(scribe))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true,"summary_threshold":4,"summary_keep_last":2}`)
	k.Say("s", 1, 12)
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("keeps"), wasmtest.Keep()))
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("traps"), wasmtest.Trap()))
	k.SetLive("p", 2)
	k.SetPipeline(`[{"policy":"p"},{"policy":"summarise"}]`)
	k.Drain()
	before := stored(k)
	for range 8 { // more often than the breaker waits
		w := k.Ask(`{"session_id":"s","record":false}`)
		var members map[string]json.RawMessage
		if err := json.Unmarshal(w.Raw, &members); err != nil || members["decision_id"] != nil || len(w.Messages) != 12 ||
			w.Pipeline[0].Outcome != "trap" {
			t.Fatalf("%v %s", err, w.Raw)
		}
	}
	k.Drain()
	if after := stored(k); after != before || k.Live("p") != 2 || scribe.Calls() != 0 {
		t.Errorf("version %d is live, %d summaries were made, stored is\n%s\nand was\n%s", k.Live("p"), scribe.Calls(),
			after, before)
	}
	looked, kept := k.Ask(`{"session_id":"s","record":false}`), k.Ask(`{"session_id":"s","record":true}`)
	if fmt.Sprintf("%s", looked.Messages) != fmt.Sprintf("%s", kept.Messages) || kept.DecisionID == "" {
		t.Errorf("%s\n%s", looked.Raw, kept.Raw)
	}
	k.Drain()
	if scribe.Calls() == 0 {
		t.Error("a window that is kept asks for no summary, so nothing was tried")
	}
}

// stored are the keys of all that the tenant has.
func stored(k *enginetest.Kit) string {
	var keys []string
	for _, it := range k.Everything(k.Admin.Tenant) {
		keys = append(keys, fmt.Sprintf("%q", it.Key))
	}
	return strings.Join(keys, "\n")
}

// A report names the place of every message that the window shows, the step that decided, and what stays together.
func TestReportsNamePlaces(t *testing.T) {
	for _, format := range []string{"openai.chat", "anthropic.messages", "openai.responses", "text"} {
		k := enginetest.New(t)
		for i := range 30 {
			id := fmt.Sprint("c", i)
			k.Post("s", enginetest.User(fmt.Sprintf("question-%d.", i)), enginetest.Call(id, "tool"),
				enginetest.Result(id, fmt.Sprintf("result-%d.", i)), enginetest.Assistant(fmt.Sprintf("answer-%d.", i)))
		}
		w := k.Ask(`{"session_id":"s","explain":true,"format":%q,"system":"sys","budget":{"max_messages":60},
			"pending":[{"role":"user","content":"pending-0."}]}`, format)
		if format == "text" {
			if w.Report[len(w.Report)-1].WindowIndex != nil {
				t.Error("flat text has no messages to point at")
			}
			continue
		}
		atoms, shown := map[int]int{}, 0
		for i, row := range w.Report[:121] {
			kept := row.Action == "keep" || row.Action == "compress"
			if kept != (row.WindowIndex != nil) {
				t.Fatalf("%s: %+v", format, row)
			}
			want := [...]string{"question-", `"c`, "result-", "answer-"}[i%4]
			want += fmt.Sprint(i / 4)
			if i%4 != 1 {
				want += "."
			}
			if i == 120 {
				want = "pending-0."
			}
			if kept {
				shown++
				if at := *row.WindowIndex; !strings.Contains(string(w.Messages[at]), want) {
					t.Fatalf("%s: row %d should show %s at %d, which is %s", format, i, want, at, w.Messages[at])
				}
			}
			if row.Atom == nil {
				t.Fatalf("%s: %+v", format, row)
			}
			atoms[*row.Atom]++
			if i%4 == 2 && *row.Atom != *w.Report[i-1].Atom || i%4 != 2 && i > 0 && *row.Atom == *w.Report[i-1].Atom {
				t.Fatalf("%s: row %d is of atom %d", format, i, *row.Atom)
			}
			if byStep := row.Policy != "mneme"; byStep != (row.Step != nil) ||
				byStep && w.Pipeline[*row.Step].Policy != row.Policy {
				t.Fatalf("%s: %+v", format, row)
			}
		}
		if shown < 40 || len(atoms) != 91 {
			t.Errorf("%s: %d messages are shown and %d atoms named", format, shown, len(atoms))
		}
		for _, row := range w.Report[121:] {
			if inSystem := format == "anthropic.messages" && row.ReasonCode != "ledger"; row.Action == "inject" && inSystem != (row.WindowIndex == nil) {
				t.Errorf("%s: %+v", format, row)
			}
		}
	}
}

// A decision that other rules made is not made again.
func TestOtherRules(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", enginetest.User("a"))
	w := k.Ask(`{"session_id":"s"}`)
	k.Replay(w.DecisionID)
	for _, it := range k.Everything(k.Admin.Tenant) {
		if _, _, _, _, ok := records.Decision.Split(it.Key); !ok {
			continue
		}
		now, other := fmt.Sprintf(`"rules":%d`, plan.Rules), fmt.Sprintf(`"rules":%d`, plan.Rules+1)
		value := strings.Replace(string(it.Value), now, other, 1)
		if value == string(it.Value) {
			t.Fatalf("no rules in %s", value)
		}
		err := store.Seal(k.Store).Commit(t.Context(), k.Admin.Tenant,
			store.Batch{Put: []store.Pair{{Key: it.Key, Value: []byte(value)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := k.Windows.Replay(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID, nil)
	enginetest.RefusedWith(t, err, fault.Gone, "rules_changed")
	d, err := k.Trials.Decision(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID)
	if err != nil || d.Report != nil || d.Rules != plan.Rules+1 || !strings.Contains(d.Purged, "version") {
		t.Errorf("%+v %v", d, err)
	}
}
