package history

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/lru"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// pool returns elements of a format: plain ones, some that are several messages or none, some with extra fields, white
// space, repairable ones, and invalid ones.
func pool(f chat.Format) (out []string) {
	for n := range 6 {
		out = append(out, fmt.Sprintf(`{"role":"user","content":"question %d"}`, n),
			fmt.Sprintf(` {"role":"assistant","content":"answer %d"} `, n),
			fmt.Sprintf(`{"role":"assistant","content":"answer %d","decision_id":"dec_%d","hidden":%t}`, n, n, n%2 == 0),
			fmt.Sprintf(`{"role":"user","agent":"a%d","content":[{"type":"text","text":"part %d"},{"type":"text","text":"rest"}]}`, n, n))
	}
	if f == chat.AnthropicMessages {
		return append(out, `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"look","input":{"b":1,"a":2}}]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"}]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"},{"type":"text","text":"and?"}]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"},{"type":"tool_result","tool_use_id":"t1","content":"s"}]}`,
			`{"role":"tool","content":"no such role"}`)
	}
	return append(out, `{"role":"system","content":"Help."}`, `{"role":"developer","content":"Help."}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"look","arguments":"{}"}}]}`,
		`{"role":"assistant","tool_calls":[{"id":"t1","type":"function","function":{"name":"look","arguments":"{}"}},{"id":"t1","type":"function","function":{"name":"look","arguments":"{}"}}]}`,
		`{"role":"tool","tool_call_id":"t1","content":"r"}`, `{"role":"tool","content":"whose?"}`)
}

// TestWhatIsNotReadAgain checks that a request is read as if the previous one were unknown, whatever the client did to
// its history: extend, trim, edit or send it twice.
func TestWhatIsNotReadAgain(t *testing.T) {
	for _, f := range []chat.Format{chat.OpenAIChat, chat.AnthropicMessages} {
		rng, from := rand.New(rand.NewPCG(1, uint64(f))), pool(f)
		svc := &Service{db: &records.DB{Store: memstore.New()}, requests: lru.New(0, func() elements { return nil })}
		any := func() json.RawMessage { return json.RawMessage(from[rng.IntN(len(from))]) }
		ask := &Ask{Session: "s", Format: f}
		refused, reused := 0, 0
		for range 1500 {
			history := slices.Clone(ask.Messages)
			n := len(history)
			switch rng.IntN(8) {
			case 0:
				history = history[min(n, rng.IntN(4)+n/20):]
			case 1:
				history = history[:n-min(n, rng.IntN(4))]
			case 2:
				history = slices.Insert(history, rng.IntN(n+1), any())
			case 3:
				if n > 0 {
					history[rng.IntN(n)] = any()
				}
			case 4: // once more
			default:
				history = append(history, any(), any())
			}
			ask.Messages = history
			want, wrong := listen(f, history)
			got, err := svc.listen("t", "p", ask)
			if !reflect.DeepEqual(err, wrong) {
				t.Fatalf("%s\nis refused with %v, and read anew with %v", history, err, wrong)
			}
			if err != nil {
				refused++
				ask.Messages = slices.DeleteFunc(history, func(raw json.RawMessage) bool {
					_, err := listen(f, []json.RawMessage{raw})
					return err != nil
				})
				continue
			}
			want.read = nil // an element that was read before is not read again
			got.read = nil
			if len(got.parsed) != len(want.parsed) || len(got.parsed) > 0 && !reflect.DeepEqual(got, want) {
				t.Fatalf("%s\nis\n%+v\nand read anew\n%+v", history, got, want)
			}
			c, unlock := svc.requests.Locked(svc.key("t", ident.Join("p", "s", "", f.String())))
			for _, e := range c.Value {
				if e.bytes != (element{}).bytes {
					reused++
				}
			}
			unlock()
		}
		if refused == 0 || reused == 0 {
			t.Errorf("%s: %d requests were refused, %d elements kept", f, refused, reused)
		}
	}
}
