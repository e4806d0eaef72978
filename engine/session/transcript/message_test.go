package transcript

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
)

// packed are headers that use every field and share strings.
var packed = []Header{
	{Seq: 1, Call: 1, Created: 1700000000000, Turn: 1, Tokens: [2]uint32{9, 8}, Content: [2]uint32{5, 4},
		Compressed: [2]uint32{12, 11}, TextBytes: 20, BodyBytes: 99, Role: plan.RoleUser, Agent: "main",
		Tags: []string{"a", "b"}},
	{Seq: 2, Call: 2, Turn: 1, Calls: 2, Role: plan.RoleAssistant, Kind: plan.KindCall, Agent: "main", Delegation: "d1", Literals: literal.Of("")},
	{Seq: 3, Call: 2, CallIndex: 1, Turn: 1, Flags: plan.FlagErrorResult, Role: plan.RoleTool,
		Kind: plan.KindResult, Agent: "main", Delegation: "d1", Tool: "search", Tags: []string{"b"},
		Costs: &Costs{Words: [3][2]uint32{{1, 2}, {3, 4}, {5, 6}}, Text: [3][2]uint32{{1}, {2}, {3, 7}},
			Media: [3][2]uint32{{8}, {0, 9}}, Thinking: [2]uint32{10, 11}}},
	{Seq: 4, Call: 4, Turn: 1, Role: plan.RoleAssistant, Compacts: true, Sources: []string{"row-1", "row-2"}},
	{Seq: 5, Call: 5, Turn: 1, Role: plan.RoleAssistant, Flags: plan.FlagThinking,
		Made: prefix.Place{State: prefix.Text("s"), Thought: 3, Tools: 4},
		Reminder: &reminder.Bound{Before: 7, AsSystem: true, Words: 5, Encoding: 1,
			Memories: []reminder.Memory{{Key: "home", Incarnation: [8]byte{1}, Version: 2}}},
		Sources: []string{"row-3"}, Literals: literal.Of("order A1234, flight HAT271")},
}

func TestHeadersComeBackAsTheyWere(t *testing.T) {
	record := append(appendHeaders(nil, packed), "behind"...)
	got, rest, err := parseHeaders(record)
	if err != nil || string(rest) != "behind" || !reflect.DeepEqual(got, packed) {
		t.Fatalf("%+v, %q, %v", got, rest, err)
	}
	for n := range len(record) - len("behind") {
		if _, _, err := parseHeaders(record[:n]); err == nil {
			t.Errorf("the first %d bytes alone were taken for a whole record", n)
		}
	}
}

func TestABodyTellsItsHeader(t *testing.T) {
	h := packed[0]
	m := &chat.Message{Format: chat.OpenAIChat, Raw: json.RawMessage(`{"role":"user","content":"what is it?"}`)}
	h.BodyBytes = uint32(len(appendBody(nil, &h, m)))
	body := appendBody(nil, &h, m)
	got, msg, err := ParseBody(body)
	if err != nil || !reflect.DeepEqual(got, &h) || msg.Text != "what is it?" || msg.Agent != "main" {
		t.Fatalf("%+v, %+v, %v", got, msg, err)
	}
	for _, broken := range [][]byte{nil, body[:len(body)-1], append(body[:len(body):len(body)], ' ')} {
		if _, _, err := ParseBody(broken); err == nil {
			t.Errorf("%q was taken for a body", broken)
		}
	}
}

// The copy of a header in the body has no literals, so bodies and the histories hashed from them are those of earlier
// versions.
func TestBodiesHaveNoLiterals(t *testing.T) {
	m := &chat.Message{Format: chat.OpenAIChat, Raw: json.RawMessage(`{"role":"user","content":"A1234"}`)}
	bare, with := packed[0], packed[0]
	with.Literals = m.Literals()
	if a, b := appendBody(nil, &bare, m), appendBody(nil, &with, m); !bytes.Equal(a, b) {
		t.Errorf("%q, with literals %q", a, b)
	}
}

func FuzzParseBody(f *testing.F) {
	f.Add(appendHeaders(nil, packed))
	f.Add(appendBody(nil, &packed[0], &chat.Message{Raw: []byte(`{"role":"user","content":"x"}`)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if hs, _, err := parseHeaders(b); err == nil {
			again, _, err := parseHeaders(appendHeaders(nil, hs))
			if err != nil || !reflect.DeepEqual(again, hs) {
				t.Errorf("%+v became %+v, %v", hs, again, err)
			}
		}
		_, _, _ = ParseBody(b)
	})
}
