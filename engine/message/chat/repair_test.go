package chat_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// FuzzMessages checks that the repaired messages can be read if all elements are well-formed, that nothing new appears,
// that each element is kept or reported, and that a second repair finds nothing.
func FuzzMessages(f *testing.F) {
	for _, posted := range []string{
		`[{"role":"user","content":"x"}]`,
		`[{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"a","function":{"name":"f"}}]}]`,
		`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"a"}]}]`,
		`[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"function_call","id":"fc_1","call_id":"a","name":"f"},
			{"type":"function_call","id":"fc_1","call_id":"a","name":"f"},{"type":"item_reference","id":"rs_2"}]`,
		`[7,{"a":1,"a":2},{"type":"x_call","call_id":"c"},{"type":"x_call_output","call_id":"c"}]`,
	} {
		for format := range 3 {
			f.Add(uint8(format), posted)
		}
	}
	f.Fuzz(func(t *testing.T, format uint8, posted string) {
		var in []json.RawMessage
		if json.Unmarshal([]byte(posted), &in) != nil {
			t.Skip()
		}
		as := chat.Format(format%3 + 1)
		first := chat.Repair(as, in)
		noted := map[int]bool{}
		for _, s := range first.Skipped {
			noted[s.Index] = true
			if s.Code == "" || s.Reason == "" {
				t.Errorf("%+v", s)
			}
		}
		kept := map[int]bool{}
		for i, at := range first.At {
			kept[at] = true
			if !noted[at] && !bytes.Equal(first.Messages[i], bytes.TrimSpace(in[at])) && !bytes.Equal(first.Messages[i], in[at]) {
				t.Errorf("%s became %s and nobody says so", in[at], first.Messages[i])
			}
		}
		for at := range in {
			if !kept[at] && !noted[at] {
				t.Errorf("%s is gone", in[at])
			}
		}
		if again := chat.Repair(as, first.Messages); len(again.Skipped) > 0 {
			t.Errorf("a second repair finds %+v", again.Skipped)
		}
		_, _, errs := chat.Parse(as, first.Messages)
		// An unreadable element may be what reasoning belongs to.
		readable := !slices.ContainsFunc(errs, func(e chat.FieldError) bool { return e.Code != chat.CodeReasoningAlone })
		if len(errs) > 0 && readable {
			t.Errorf("%+v in %s", errs, first.Messages)
		}
	})
}
