package chat_test

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// unknown are members that no format has.
var unknown = []string{"", `,"x_new":1.50e3`, ` , "y" : [ {"agent":"kept"} , null ]`, `,"z":"\u00e9\ud83d\ude42"`}

// turnsOf has one exchange in each format, with a numbered call. #N stands for the number, and #X for unknown members.
var turnsOf = map[chat.Format][]string{
	chat.OpenAIChat: {
		`{"role":"assistant","content":"said #N"#X}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c#N","type":"function","function":{"name":"f","arguments":"{"}#X}]#X},
			{"role":"tool","tool_call_id":"c#N","content":[{"type":"text","text":"r"#X}]#X}`,
		`{"role":"assistant","content":"x","tool_calls":[{"id":"c#N","type":"custom","custom":{"name":"g","input":"raw"}}]},
			{"role":"tool","tool_call_id":"c#N","content":"r"}`,
	},
	chat.AnthropicMessages: {
		`{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"said #N"#X}]#X}`,
		`{"role":"assistant","content":[{"type":"tool_use","id":"c#N","name":"f","input":{"a":1.0}#X}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c#N","content":"r"#X}]#X},
			{"role":"assistant","content":[{"type":"block_#N","v":1#X}]}`,
	},
	chat.OpenAIResponses: {
		`{"type":"reasoning","id":"rs_#N","summary":[]#X},{"type":"web_search_call","id":"ws_#N"#X},
			{"role":"assistant","content":[{"type":"output_text","text":"said"#X}]}`,
		`{"type":"later_call","call_id":"c#N","plan":{}#X},{"type":"function_call","call_id":"d#N","name":"f","arguments":"{}"#X},
			{"type":"later_call_output","call_id":"c#N","output":{"a":1.0}#X},
			{"type":"function_call_output","call_id":"d#N","output":[{"type":"input_text","text":"r"#X}]#X}`,
		`{"type":"compaction","id":"cmp_#N","encrypted_content":"e"#X}`,
		`{"type":"mcp_approval_request","id":"mcpr_#N","name":"f","arguments":"{}"#X},
			{"type":"mcp_approval_response","approval_request_id":"mcpr_#N","approve":false#X}`,
		`{"type":"invented_#N","reasoning":{"effort":1},"metadata":[1]#X}`,
	},
}

// TestCampaignRoundTrip checks that a window in the format in which its messages were posted is byte for byte what was
// posted, whatever members they have.
func TestCampaignRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(campaign.Seed(t), 5))
	for range campaign.Size(500, 50_000) {
		for format, kinds := range turnsOf {
			var posted []string
			for n := range 1 + r.IntN(8) {
				fill := strings.NewReplacer("#N", strconv.Itoa(n), "#X", unknown[r.IntN(len(unknown))])
				posted = append(posted, fill.Replace(`{"role":"user","content":"asked"#X}`),
					fill.Replace(kinds[r.IntN(len(kinds))]))
			}
			var in []json.RawMessage
			if err := json.Unmarshal([]byte("["+strings.Join(posted, ",")+"]"), &in); err != nil {
				t.Fatalf("%v in %s", err, posted)
			}
			parsed, skipped, errs := chat.ParsePosted(format, in)
			if len(skipped)+len(errs) > 0 {
				t.Fatalf("%s: %v %v", format, skipped, errs)
			}
			var as []atom
			for i := range parsed {
				as = append(as, atom{uint64(i + 1), []chat.Message{parsed[i].Message}})
			}
			var want []string
			for _, raw := range in {
				want = append(want, string(raw))
			}
			if got := string(build(format, as, "", false).Messages); got != "["+strings.Join(want, ",")+"]" {
				t.Fatalf("%s\ngot  %s\nwant [%s]", format, got, strings.Join(want, ","))
			}
		}
	}
}

// The work of the provider's own tools is one message with what it led to, so that a window shows both or neither.
func TestItemsBelongTogether(t *testing.T) {
	const (
		think  = `{"type":"reasoning","summary":[]}`
		search = `{"type":"web_search_call","id":"ws_1"}`
		said   = `{"role":"assistant","content":"x"}`
		call   = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
		alone  = `{"type":"compaction","encrypted_content":"e"}`
		refers = `{"type":"item_reference","id":"rs_1"}`
	)
	for want, posted := range map[string][]string{
		"1":     {search},
		"2":     {search, said},
		"4":     {think, search, think, said},
		"1 2":   {said, search, said},
		"3":     {search, call, said},
		"1 1 1": {said, alone, search},
		"2 1":   {think, alone, said},
		"2 1 2": {refers, said, alone, think, call},
	} {
		msgs, ok := parseAll(chat.OpenAIResponses, "["+strings.Join(posted, ",")+"]")
		var got []string
		for _, m := range msgs {
			var items []json.RawMessage
			if err := json.Unmarshal(m.Raw, &items); err != nil {
				t.Fatal(err)
			}
			got = append(got, strconv.Itoa(len(items)))
		}
		if strings.Join(got, " ") != want || !ok {
			t.Errorf("%s: %s, want %s", posted, got, want)
		}
	}
}
