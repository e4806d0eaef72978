package window_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/chat/chattest"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// bodyOf matches the body records of one message, by its number.
func bodyOf(seq byte) func([]byte) bool {
	return func(key []byte) bool {
		return key[0] == 'm' && len(key) == 2+8+1+8 && key[10] == 'b' && key[18] == seq
	}
}

// Messages broken in storage never make an invalid window: they are repaired in it, and the report says so.
func TestDamagedMessagesAreRepaired(t *testing.T) {
	turn := []string{enginetest.User("first"), enginetest.Call("c1", "search"), enginetest.Result("c1", "found"), enginetest.Assistant("answer"), enginetest.User("second"),
		enginetest.Assistant("last")}
	for _, test := range []struct {
		name    string
		seq     byte
		shown   int // messages left in the window
		rows    map[int]string
		missing string
	}{
		{"a user's text", 1, 6, map[int]string{0: "replace"}, "first"},
		{"a call", 2, 4, map[int]string{1: "drop", 2: "drop"}, "found"},
		{"a result", 3, 6, map[int]string{2: "replace"}, "found"},
		{"the newest user message", 5, 6, map[int]string{4: "replace"}, "second"},
		{"the newest atom", 6, 6, map[int]string{5: "replace"}, "last"},
	} {
		for _, format := range []string{"openai.chat", "anthropic.messages", "openai.responses", "text"} {
			t.Run(test.name+"/"+format, func(t *testing.T) {
				disk := &enginetest.Broken{Store: memstore.New()}
				k := enginetest.Open(t, disk)
				k.Post("s", turn...)
				disk.Spoil(bodyOf(test.seq))
				w := k.Ask(`{"session_id":"s","explain":true,"format":%q}`, format)
				if bytes.Contains(w.Raw, []byte(test.missing)) {
					t.Errorf("the damaged text is shown: %s", w.Raw)
				}
				if w.Usage["history_messages"] != test.shown {
					t.Errorf("%d messages, want %d: %s", w.Usage["history_messages"], test.shown, w.Raw)
				}
				for i, row := range w.Report {
					want, reason := test.rows[i], "storage_damaged"
					if want == "" {
						want, reason = "keep", row.ReasonCode
					}
					if row.Action != want || row.ReasonCode != reason {
						t.Errorf("row %d: %s %s, want %s", i, row.Action, row.ReasonCode, want)
					}
				}
				validate(t, format, w)
				k.Replay(w.DecisionID)
			})
		}
	}
}

// A lost record of headers is made again from the bodies: the window is the same.
func TestDamagedHeadersAreReadFromBodies(t *testing.T) {
	disk := &enginetest.Broken{Store: memstore.New()}
	k := enginetest.Open(t, disk)
	for range 5 {
		k.Post("s", enginetest.User("question"), enginetest.Call("c1", "search"), enginetest.Result("c1", "found"), enginetest.Assistant("answer"))
	}
	want := k.Ask(`{"session_id":"s","explain":true}`)
	disk.Spoil(func(key []byte) bool { return key[0] == 'm' && key[10] == 'h' && key[14] == 3 })
	again := enginetest.Open(t, disk) // nothing in memory
	got := again.Ask(`{"session_id":"s","explain":true}`)
	if len(got.Messages) != 20 || len(got.Report) != 20 {
		t.Fatalf("%d messages, %d rows", len(got.Messages), len(got.Report))
	}
	for i := range got.Messages {
		if !bytes.Equal(got.Messages[i], want.Messages[i]) || got.Report[i].Action != want.Report[i].Action {
			t.Errorf("message %d: %s, want %s", i, got.Messages[i], want.Messages[i])
		}
	}
	disk.Spoil(func(key []byte) bool {
		return key[0] == 'm' && key[10] == 'h' && key[14] == 3 || bodyOf(10)(key)
	})
	got = enginetest.Open(t, disk).Ask(`{"session_id":"s","explain":true}`)
	if got.Usage["history_messages"] != 18 || got.Report[9].Action != "drop" || got.Report[10].Action != "drop" {
		t.Fatalf("%s", got.Raw)
	}
	validate(t, "openai.chat", got)
}

func validate(t testing.TB, format string, w enginetest.Window) {
	t.Helper()
	if format == "text" {
		return
	}
	var messages []byte
	messages = append(messages, '[')
	for i, m := range w.Messages {
		if i > 0 {
			messages = append(messages, ',')
		}
		messages = append(messages, m...)
	}
	f, _ := chat.ParseFormat(format)
	if err := chattest.Validate(f, append(messages, ']'), w.System, chattest.AllowOpenTail); err != nil {
		t.Errorf("not valid as %s: %v\n%s", format, err, strings.TrimSpace(string(messages)))
	}
}
