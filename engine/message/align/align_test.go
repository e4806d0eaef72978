package align_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// stored is a history in memory that counts reads.
type stored struct {
	messages []align.Hash
	reads    int
}

func (s *stored) Len() int { return len(s.messages) }

func (s *stored) Message(i int) align.Hash {
	s.reads++
	return s.messages[i]
}

// TestFindAgainstItsWords compares Find with the definitions of the cases, on short random histories of few different
// messages, which make every confusion likely.
func TestFindAgainstItsWords(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[align.Case]int{}
	for range 200_000 {
		messages := func() []align.Hash {
			out := make([]align.Hash, random.IntN(7))
			for i := range out {
				out[i] = align.Hash{byte(1 + random.IntN(3))}
			}
			return out
		}
		s, m := &stored{messages: messages()}, messages()
		if random.IntN(3) == 0 {
			m = slices.Concat(messages()[:0:0], s.messages[random.IntN(len(s.messages)+1):], m)
		}
		assistant := func(i int) bool { return m[i][0] == 2 }
		got := align.Find(s, m, assistant)
		if want := words(s.messages, m, assistant); got != want {
			t.Fatalf("stored %v request %v: %+v, wanted %+v", s.messages, m, got, want)
		}
		seen[got.Case]++
	}
	for _, c := range []align.Case{align.New, align.Extend, align.Rewind, align.Tail, align.Diverge, align.None} {
		if seen[c] == 0 {
			t.Errorf("no history was a case of %s", c)
		}
	}
}

func words(s, m []align.Hash, assistant func(int) bool) align.Match {
	begins := func(a, b []align.Hash) bool { return len(a) >= len(b) && slices.Equal(a[:len(b)], b) }
	common := 0
	for common < min(len(s), len(m)) && s[common] == m[common] {
		common++
	}
	switch {
	case len(s) == 0:
		return align.Match{Case: align.New}
	case begins(m, s):
		return align.Match{Case: align.Extend, Keep: len(s), New: len(s)}
	case begins(s, m):
		return align.Match{Case: align.Rewind, Keep: len(m), New: len(m)}
	}
	for length := min(len(s), len(m)); length >= 2; length-- {
		for end := len(m); end >= length; end-- {
			said := false
			for i := end - length; i < end; i++ {
				said = said || assistant(i)
			}
			if said && slices.Equal(m[end-length:end], s[len(s)-length:]) {
				return align.Match{Case: align.Tail, Keep: len(s), New: end, Front: end - length}
			}
		}
	}
	if common > 0 {
		return align.Match{Case: align.Diverge, Keep: common, New: common}
	}
	return align.Match{Case: align.None}
}

// TestExtendingReadsOnce checks that the usual request reads each hash once.
func TestExtendingReadsOnce(t *testing.T) {
	s := &stored{}
	for i := range 5000 {
		s.messages = append(s.messages, align.Hash{byte(i), byte(i >> 8), 1})
	}
	request := append(slices.Clone(s.messages), align.Hash{9, 9, 9})
	if got := align.Find(s, request, func(int) bool { return true }); got.New != 5000 || s.reads != 5000 {
		t.Errorf("%+v, %d reads", got, s.reads)
	}
}

// one parses one message of a format and returns its hash.
func one(t *testing.T, f chat.Format, raw string) align.Hash {
	t.Helper()
	var in []json.RawMessage
	if f == chat.OpenAIResponses {
		in = []json.RawMessage{json.RawMessage(raw)}
	} else {
		in = append(in, json.RawMessage(raw))
	}
	parsed, _, bad := chat.Parse(f, in)
	if bad != nil || len(parsed) != 1 {
		t.Fatal(bad, len(parsed), raw)
	}
	return align.Of(&parsed[0].Message)
}

// TestWhatIsTheSame lists forms in which clients send the same message again, and messages that differ.
func TestWhatIsTheSame(t *testing.T) {
	const openai, claude, items = chat.OpenAIChat, chat.AnthropicMessages, chat.OpenAIResponses
	type form struct {
		format chat.Format
		raw    string
	}
	same := [][]form{
		{{openai, `{"role":"user","content":"Hi"}`}, {openai, `{"content":[{"type":"text","text":"Hi"}],"role":"user"}`},
			{openai, `{"role":"user","content":"Hi","name":"ada"}`},
			{claude, `{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}`},
			{claude, `{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"text","text":""}]}`},
			{items, `{"role":"user","content":[{"type":"input_text","text":"Hi","prompt_cache_breakpoint":true}]}`},
			{items, `{"type":"message","role":"user","content":"Hi","id":"msg_1","status":"completed"}`}},
		{{openai, `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1.0,\"y\":[\"\\u00e4\"]}"}}]}`},
			{openai, `{"role":"assistant","refusal":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{ \"y\": [\"ä\"], \"x\": 1 }"}}]}`},
			{claude, `{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"S"},{"type":"tool_use","id":"a","name":"f","input":{"x":1,"y":["ä"]}}]}`},
			{claude, `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"y":["ä"],"x":1.00},"cache_control":{"type":"ephemeral"}}]}`}},
		{{openai, `{"role":"assistant","content":"Yes.","annotations":[]}`}, {openai, `{"role":"assistant","content":"Yes.","refusal":null}`},
			{items, `{"type":"message","role":"assistant","id":"m","status":"completed","phase":"final","content":[{"type":"output_text","text":"Yes.","annotations":[],"logprobs":[]}]}`}},
		{{openai, `{"role":"tool","tool_call_id":"a","content":"42"}`},
			{claude, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"42"}]}]}`},
			{items, `{"type":"function_call_output","call_id":"a","output":"42","id":"fco_1"}`}},
		{{openai, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/1.png","detail":"low"}}]}`},
			{openai, `{"role":"user","content":[{"image_url":{"detail":"low","url":"http://x/1.png"},"type":"image_url","cache_control":null}]}`}},
		{{openai, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/2.png","detail":"low"}}]}`}},
		{{openai, `{"role":"assistant","content":"Hi"}`}},
		{{openai, `{"role":"user","content":"Hi "}`}},
		{{openai, `{"role":"assistant","content":null,"tool_calls":[{"id":"b","type":"function","function":{"name":"f","arguments":"{\"x\":1.0,\"y\":[\"\\u00e4\"]}"}}]}`}},
		{{openai, `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"not json"}}]}`}},
		{{claude, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"url","url":"u"}}]}]}`}},
	}
	of := map[align.Hash]int{}
	for i, forms := range same {
		for _, f := range forms {
			h := one(t, f.format, f.raw)
			if first, ok := of[h]; ok && first != i {
				t.Errorf("%s is the same as message %d", f.raw, first)
			} else if !ok && f != forms[0] {
				t.Errorf("%s is not the same as %s", f.raw, forms[0].raw)
			}
			of[h] = i
		}
	}
}

// FuzzOf checks that no arguments break the hash, and that canonical JSON is a fixed point: decoding and encoding
// arguments again does not change them.
func FuzzOf(f *testing.F) {
	f.Add(`{"b":1e2,"a":[true,null,"\u2028"]}`)
	f.Add(`[1] 2`)
	f.Add(`{"a":12345678901234567890}`)
	f.Fuzz(func(t *testing.T, arguments string) {
		call := func(arguments string) align.Hash {
			return align.Of(&chat.Message{Role: 2, Calls: []chat.Call{{ID: "a", Name: "f", Arguments: arguments}}})
		}
		h := call(arguments)
		var v any
		if json.Unmarshal([]byte(arguments), &v) != nil {
			return
		}
		again, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if call(string(again)) != h {
			t.Fatalf("%s is not %s", again, arguments)
		}
	})
}

func ExampleFind() {
	history := &stored{messages: []align.Hash{{1}, {2}, {3}, {4}}}
	summarised := []align.Hash{{9}, {3}, {4}, {5}}
	match := align.Find(history, summarised, func(i int) bool { return i%2 == 0 })
	fmt.Printf("%+v\n", match)
	// Output: {Case:tail Keep:4 New:3 Front:1}
}
