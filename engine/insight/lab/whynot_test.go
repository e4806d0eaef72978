package lab_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// TestWhyNot checks the values with forks: the message stays at each of them, and one less loses it.
func TestWhyNot(t *testing.T) {
	raw := &enginetest.Counting{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	talk(k, "s", 40)
	r := rand.New(rand.NewPCG(3, 5))
	enough := map[string]int{}
	for _, budget := range []string{`{"max_tokens":700}`, `{"max_messages":9,"max_tokens":0}`,
		`{"max_messages":0,"max_tokens":0}`, `{"max_tokens":4000,"context_window":900,"reserve_tokens":100}`} {
		w := k.Ask(`{"session_id":"s","explain":true,"budget":%s}`, budget)
		raw.Reset()
		for range 5 {
			row := w.Report[(len(w.Report)-80)*r.IntN(2)+r.IntN(80)]
			got, err := k.Trials.WhyNot(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID,
				lab.WhyNotRequest{MessageID: row.MessageID})
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Row.Action) != row.Action || got.Row.ReasonCode != row.ReasonCode || got.Stays != stays(row.Action) ||
				got.Windows > 170 {
				t.Errorf("%s: %+v is not %+v", budget, got, row)
			}
			for name, found := range map[string]*lab.Enough{"max_tokens": got.MaxTokens, "max_messages": got.MaxMessages,
				"session_history_depth": got.Depth, "only_tokens": got.OnlyTokens} {
				at := func(n int) bool {
					request := fmt.Sprintf(`{"budget":{%q:%d,"context_window":0}}`, name, n)
					if name == "session_history_depth" {
						request = fmt.Sprintf(`{"settings":{%q:%d}}`, name, n)
					} else if name == "only_tokens" {
						request = fmt.Sprintf(`{"budget":{"max_tokens":%d,"context_window":0,"max_messages":0},
							"settings":{"session_history_depth":100}}`, n)
					} else if name == "max_messages" {
						request = fmt.Sprintf(`{"budget":{%q:%d}}`, name, n)
					}
					f, err := fork(k, w.DecisionID, request)
					if err != nil {
						return false
					}
					for _, other := range f.Report {
						if other.MessageID == row.MessageID {
							return stays(other.Action)
						}
					}
					return false
				}
				switch {
				case found == nil && !got.Stays && name == "max_tokens" && w.Usage["parts.free"] > 0 && at(1<<20):
					t.Errorf("%s: %s stays with all the tokens there are, and nothing says so", budget, row.MessageID)
				case found == nil:
				case !at(found.From):
					t.Errorf("%s: %s does not stay at %s %d", budget, row.MessageID, name, found.From)
				case at(found.From - 1):
					t.Errorf("%s: %s stays at %s %d, too", budget, row.MessageID, name, found.From-1)
				case found.Now >= found.From:
					t.Errorf("%s: %s was %d and is enough from %d", budget, name, found.Now, found.From)
				default:
					enough[name]++
				}
			}
			if !got.Stays && !got.Unbounded && (got.MaxTokens != nil || got.MaxMessages != nil || got.Depth != nil) &&
				got.Row.ReasonCode != "earlier_question" {
				t.Errorf("%s: %s stays with some bound and not without any: %+v", budget, row.MessageID, got)
			}
		}
		if raw.Commits != 0 {
			t.Errorf("%d commits", raw.Commits)
		}
	}
	if enough["max_tokens"] == 0 || enough["only_tokens"] == 0 || enough["max_messages"] == 0 || enough["session_history_depth"] == 0 {
		t.Errorf("hardly anything was found: %v", enough)
	}
	w := k.Ask(`{"session_id":"s"}`)
	for id, code := range map[string]string{"": "required", "msg_none_1": "not_found"} {
		_, err := k.Trials.WhyNot(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID, lab.WhyNotRequest{MessageID: id})
		kind := fault.Invalid
		if code == "not_found" {
			kind = fault.NotFound
		}
		enginetest.RefusedWith(t, err, kind, code)
	}
}

func stays(action string) bool { return action == "keep" || action == "strip" || action == "truncate" }
