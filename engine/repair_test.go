package engine_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/chat/chattest"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// broken is a store of which some values come back changed, as from a failing disk.
type broken struct {
	store.Store
	mu     sync.Mutex
	spoils func(key []byte) bool
}

func (b *broken) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	r, err := b.Store.Read(ctx, tenant, q)
	b.mu.Lock()
	defer b.mu.Unlock()
	spoil := func(items []store.Item) {
		for i := range items {
			if b.spoils != nil && items[i].Value != nil && b.spoils(items[i].Key) {
				items[i].Value = append([]byte("x"), items[i].Value...)
			}
		}
	}
	spoil(r.Keys)
	for _, items := range r.Ranges {
		spoil(items)
	}
	return r, err
}

func (b *broken) spoil(f func(key []byte) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spoils = f
}

// bodyOf matches the body records of one message, by its number.
func bodyOf(seq byte) func([]byte) bool {
	return func(key []byte) bool {
		return key[0] == 'm' && len(key) == 2+8+1+8 && key[10] == 'b' && key[18] == seq
	}
}

// Messages broken in storage never make an invalid window: they are repaired in it, and the report says so.
func TestDamagedMessagesAreRepaired(t *testing.T) {
	turn := []string{user("first"), call("c1", "search"), result("c1", "found"), assistant("answer"), user("second"),
		assistant("last")}
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
				disk := &broken{Store: memstore.New()}
				k := openKit(t, disk)
				k.post("s", turn...)
				disk.spoil(bodyOf(test.seq))
				w := k.ask(`{"session_id":"s","explain":true,"format":%q}`, format)
				if bytes.Contains(w.raw, []byte(test.missing)) {
					t.Errorf("the damaged text is shown: %s", w.raw)
				}
				if w.Usage["history_messages"] != test.shown {
					t.Errorf("%d messages, want %d: %s", w.Usage["history_messages"], test.shown, w.raw)
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
				k.replay(w.DecisionID)
			})
		}
	}
}

// A lost record of headers is made again from the bodies: the window is the same.
func TestDamagedHeadersAreReadFromBodies(t *testing.T) {
	disk := &broken{Store: memstore.New()}
	k := openKit(t, disk)
	for range 5 {
		k.post("s", user("question"), call("c1", "search"), result("c1", "found"), assistant("answer"))
	}
	want := k.ask(`{"session_id":"s","explain":true}`)
	disk.spoil(func(key []byte) bool { return key[0] == 'm' && key[10] == 'h' && key[14] == 3 })
	again := openKit(t, disk) // nothing in memory
	got := again.ask(`{"session_id":"s","explain":true}`)
	if len(got.Messages) != 20 || len(got.Report) != 20 {
		t.Fatalf("%d messages, %d rows", len(got.Messages), len(got.Report))
	}
	for i := range got.Messages {
		if !bytes.Equal(got.Messages[i], want.Messages[i]) || got.Report[i].Action != want.Report[i].Action {
			t.Errorf("message %d: %s, want %s", i, got.Messages[i], want.Messages[i])
		}
	}
	disk.spoil(func(key []byte) bool {
		return key[0] == 'm' && key[10] == 'h' && key[14] == 3 || bodyOf(10)(key)
	})
	got = openKit(t, disk).ask(`{"session_id":"s","explain":true}`)
	if got.Usage["history_messages"] != 18 || got.Report[9].Action != "drop" || got.Report[10].Action != "drop" {
		t.Fatalf("%s", got.raw)
	}
	validate(t, "openai.chat", got)
}

func validate(t testing.TB, format string, w answer) {
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
