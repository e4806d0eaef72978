package transcript_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// posted are elements of each format. Some hold several messages, some none, and some have to be repaired.
var posted = map[chat.Format][]string{
	chat.OpenAIChat: {
		`{"role":"user","content":"<b> & \u003c"}`,
		` {"role": "assistant", "content": "Sure." }`,
		`{"role":"system","content":"Be brief."}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		`{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"1"}},` +
			`{"id":"c1","type":"function","function":{"name":"f","arguments":"1"}}]}`,
		`{"role":"tool","tool_call_id":"c1","content":"done","hidden":true}`,
		`{"role":"assistant","content":"Later.","decision_id":"dec_2"}`,
	},
	chat.AnthropicMessages: {
		`{"role":"user","content":"Hello"}`,
		`{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"f","input":{}}]}`,
		`{"role":"user","content":[{"type":"text","text":"Hurry."},{"type":"tool_result","tool_use_id":"t1","content":"1"},` +
			`{"type":"tool_result","tool_use_id":"t2","content":"2"}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"1"},` +
			`{"type":"tool_result","tool_use_id":"t1","content":"2"}]}`,
		`{"role":"assistant","content":[]}`,
	},
}

// TestElementsAreWhatIsParsed reads random lists in pieces, with what is said of a message in between, and compares the
// turn with the one that parsing the whole list gives.
func TestElementsAreWhatIsParsed(t *testing.T) {
	for f, all := range posted {
		for seed := range uint64(300) {
			rng := rand.New(rand.NewPCG(seed, uint64(f)))
			var list []*transcript.Element
			for range 1 + rng.IntN(6) {
				raw := json.RawMessage(all[rng.IntN(len(all))])
				read, err := transcript.Read(f, append(list, &transcript.Element{Raw: raw}))
				if err != nil {
					t.Fatal(err)
				}
				list = read
				last := len(list) - 1
				switch rng.IntN(4) {
				case 0:
					list[last] = list[last].Decided("dec_1")
				case 1:
					list[last] = list[last].Hide()
				case 2:
					list[last] = list[last].Decided("dec_1").Undecided()
				}
			}
			list, err := transcript.Read(f, list)
			if err != nil {
				t.Fatal(err)
			}
			same(t, f, list, transcript.ModeRepair, transcript.ParseRepaired)
			same(t, f, list, "", transcript.ParseMessages)
		}
	}
}

func same(t *testing.T, f chat.Format, list []*transcript.Element, mode string, parse transcript.Parser) {
	t.Helper()
	raw := transcript.Raw(list)
	messages, skipped, err := parse(f, raw)
	turn, left := transcript.TurnOf(list, mode)
	if turn == nil {
		if mode == transcript.ModeRepair {
			t.Fatalf("%s was not read", raw)
		}
		return // It has to be parsed.
	}
	if err != nil {
		t.Fatalf("%s was read, but is refused: %v", raw, err)
	}
	if fmt.Sprint(turn.Messages) != fmt.Sprint(messages) || len(messages) > 0 && !reflect.DeepEqual(turn.Messages, messages) {
		t.Fatalf("%s\nwas read as\n%+v\nand is parsed as\n%+v", raw, turn.Messages, messages)
	}
	if len(skipped)+len(left) > 0 && !reflect.DeepEqual(left, skipped) {
		t.Fatalf("%s: skipped %v, wanted %v", raw, left, skipped)
	}
}
