package window_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// shownOf is all that a window shows.
func shownOf(w enginetest.Window) string {
	return w.System + w.Text + string(bytes.Join(bytesOf(w.Messages), []byte("\n")))
}

// desk posts turns of a service desk: a customer asks, the agent looks a reservation up, and answers.
func desk(k *enginetest.Kit, sessionID string, turns int) {
	for n := range turns {
		k.Post(sessionID, enginetest.User(fmt.Sprintf("I am user_%d_%04d, what about my reservation R%04dX?", n, n, n)),
			fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"look","arguments":"{\"reservation_id\":\"R%04dX\"}"}}]}`, n, n),
			fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":"{\"flight_number\": \"HAT%03d\", \"payment_id\": \"gift_card_%07d\"}"}`, n, n, n),
			enginetest.Assistant(fmt.Sprintf("It is on flight HAT%03d.", n)))
	}
}

const lastTurns = `[{"policy":"last-turns","config":{"turns":2,"questions":2,"ledger_tokens":%d}}]`

// A ledger names what the messages named that are gone, in every format, and a replay makes it again.
func TestLedgerNamesWhatIsGone(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("last-turns", enginetest.Example(t, "last-turns"))
	desk(k, "s", 6)
	for _, format := range everyFormat {
		for _, results := range []string{"messages", "markdown"} {
			w := k.Ask(`{"session_id":"s","format":%q,"tool_results":%q,"explain":true,"pipeline":`+lastTurns+`}`, format, results, 800)
			shown := shownOf(w)
			for n := range 4 {
				for _, literal := range []string{fmt.Sprintf("user_%d_%04d", n, n), fmt.Sprintf("R%04dX", n), fmt.Sprintf("HAT%03d", n), fmt.Sprintf("gift_card_%07d", n)} {
					if !strings.Contains(shown, literal) {
						t.Errorf("%s, %s: %s is not in %s", format, results, literal, shown)
					}
				}
			}
			// It is made of what users and tools wrote, so it never has a system prompt's authority.
			if format != "text" && strings.Contains(string(w.Messages[0]), `"system"`) || w.System != "" {
				t.Errorf("%s: %s", format, w.Messages[0])
			}
			if w.Pipeline[0].Outcome != "ok" || strings.Count(shown, plan.Marker) != 1 {
				t.Errorf("%s: %+v %s", format, w.Pipeline, shown)
			}
			row := w.Report[24]
			if row.Action != "inject" || row.ReasonCode != "ledger" || row.Policy != "last-turns" || row.Reason != "names 16 literals" {
				t.Errorf("%s: %+v", format, row)
			}
			if n := w.Usage["parts.marker"]; row.After == 0 || n != row.After {
				t.Errorf("%s: the marker takes %d tokens, the report says %d", format, n, row.After)
			}
			k.Replay(w.DecisionID)
		}
	}
	// The least room names nothing, and then there is no ledger; a small one holds the newest names.
	w := k.Ask(`{"session_id":"s","pipeline":`+lastTurns+`}`, 1)
	if shown := shownOf(w); strings.Contains(shown, plan.Marker) {
		t.Error(shown)
	}
	w = k.Ask(`{"session_id":"s","pipeline":`+lastTurns+`}`, 24)
	if shown := shownOf(w); !strings.Contains(shown, plan.Marker+` They named payment_id: gift_card_0000003; flight: HAT003"`) {
		t.Error(shown)
	}
}

// The ledger is the same, byte for byte, until the cut moves.
func TestLedgerStaysBetweenCuts(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("last-turns", enginetest.Example(t, "last-turns"))
	desk(k, "s", 6)
	ask := func(pending string) string {
		w := k.Ask(`{"session_id":"s","pending":[%s],"pipeline":`+lastTurns+`}`, pending, 800)
		return string(w.Messages[0])
	}
	first := ask(enginetest.User("And R9999X?"))
	call := `{"role":"assistant","content":null,"tool_calls":[{"id":"c9","type":"function","function":{"name":"look","arguments":"{\"id\":\"R9999X\"}"}}]}`
	second := ask(enginetest.User("And R9999X?") + "," + call + `,{"role":"tool","tool_call_id":"c9","content":"none, see Q1234"}`)
	if first != second || !strings.Contains(first, "HAT003") {
		t.Errorf("%s, then %s", first, second)
	}
}

// What an earlier step of the pipeline took away is in no ledger.
func TestLedgerNamesNothingRedacted(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("last-turns", enginetest.Example(t, "last-turns"))
	k.Upload("redact", enginetest.Example(t, "redact"))
	k.Post("s", enginetest.User("My key is sk-12ab, my order is A1234."),
		`{"role":"assistant","content":"I use sk-12ab.","tool_calls":[
			{"id":"c1","type":"function","function":{"name":"login","arguments":"{\"key\":\"sk-12ab\",\"order\":\"A1234\"}"}}]}`,
		`{"role":"tool","tool_call_id":"c1","content":"welcome sk-12ab, B5678"}`)
	desk(k, "s", 2)
	const pipeline = `[{"policy":"redact"},{"policy":"last-turns","config":{"turns":2,"questions":0,"ledger_tokens":800}}]`
	for _, format := range everyFormat {
		for _, results := range []string{"messages", "markdown"} {
			w := k.Ask(`{"session_id":"s","format":%q,"tool_results":%q,"pipeline":`+pipeline+`}`, format, results)
			shown := shownOf(w)
			if strings.Contains(shown, "sk-12ab") || !strings.Contains(shown, "A1234") || !strings.Contains(shown, "B5678") {
				t.Errorf("%s, %s: %s", format, results, shown)
			}
			k.Replay(w.DecisionID)
		}
	}
}

// A viewer's ledger does not name what other delegations named, whatever the pipeline drops.
func TestLedgerOfDelegations(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("last-turns", enginetest.Example(t, "last-turns"))
	k.Post("s", enginetest.User("Plan the trip A1234."))
	k.Post("s", `{"role":"user","content":"Book hotel B1234.","delegation_id":"hotel"}`, `{"role":"assistant","content":"Booked.","delegation_id":"hotel"}`)
	k.Post("s", `{"role":"user","content":"Book car C1234.","delegation_id":"car"}`, `{"role":"assistant","content":"Booked D1234.","delegation_id":"car"}`)
	k.Post("s", `{"role":"user","content":"And the hotel's bill?","delegation_id":"hotel"}`)
	const pipeline = `[{"policy":"last-turns","config":{"turns":1,"questions":0}}]`
	for viewer, want := range map[string]string{
		`{"delegation_id":"hotel","whole":true}`: "[earlier messages left out] They named trip: A1234; hotel: B1234",
		`{"whole":true}`:                         "[earlier messages left out] They named trip: A1234; hotel: B1234; Book: C1234; Booked: D1234",
	} {
		w := k.Ask(`{"session_id":"s","viewer":%s,"pipeline":`+pipeline+`}`, viewer)
		if shown := shownOf(w); !strings.Contains(shown, want+`"`) {
			t.Errorf("%s is shown %s, want %s", viewer, shown, want)
		}
	}
}

// Messages that are stored without their literals get them when they are first needed. A turn whose literals have no room in its
// header record is stored that way, like all messages of earlier versions.
func TestLedgerOfMessagesWithoutLiterals(t *testing.T) {
	raw := memstore.New()
	k := enginetest.Open(t, raw)
	k.Upload("last-turns", enginetest.Example(t, "last-turns"))
	const n = 1500
	messages := make([]string, n)
	for i := range messages {
		var b strings.Builder
		for j := range 16 {
			fmt.Fprintf(&b, "item_%c I%05d_%02d_aaaaaaaa ", 'a'+j, i, j)
		}
		messages[i] = enginetest.User(b.String())
	}
	k.Post("long", messages...)
	for from := 0; from < n; from += 100 {
		k.Post("short", messages[from:from+100]...)
	}
	for _, s := range []string{"long", "short"} {
		for range 2 {
			k.Post(s, enginetest.User("What is next?"))
		}
	}
	ask := func(s string) string {
		w := k.Ask(`{"session_id":%q,"budget":{"max_messages":0,"max_tokens":0},"pipeline":[{"policy":"last-turns","config":{"turns":2,"questions":0,"ledger_tokens":4000}}]}`, s)
		k.Replay(w.DecisionID)
		return shownOf(w)
	}
	long, short := ask("long"), ask("short")
	if long != short || !strings.Contains(short, "I01499_15_aaaaaaaa") {
		t.Errorf("%.300s\n%.300s", long, short)
	}
	k = enginetest.Open(t, raw) // with nothing in memory
	if again := ask("long"); again != long {
		t.Errorf("%.300s, then %.300s", long, again)
	}
	k.Sound()
}

// A fork and an import give the same ledger. A turn that was taken back is in none.
func TestLedgerOfCopies(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("last-turns", enginetest.Example(t, "last-turns"))
	desk(k, "s", 5)
	ask := func(s string) string {
		return shownOf(k.Ask(`{"session_id":%q,"pipeline":`+lastTurns+`}`, s, 800))
	}
	want := ask("s")
	if _, err := k.Sessions.Fork(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "s", session.ForkRequest{As: "f"}); err != nil {
		t.Fatal(err)
	}
	file, err := k.Sessions.Export(t.Context(), k.Admin, ident.DefaultProject, "s")
	if err != nil {
		t.Fatal(err)
	}
	file.Session.ID = "i"
	if _, err := k.Sessions.Import(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, file); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"f", "i"} {
		if got := ask(s); got != want {
			t.Errorf("%s is shown\n%s, want\n%s", s, got, want)
		}
	}
	if _, err := k.Sessions.Rewind(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "f", session.RewindRequest{ToTurn: new(uint32(1))}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		k.Post("f", enginetest.User("Something else."), enginetest.Assistant("Yes."))
	}
	if got := ask("f"); strings.Contains(got, "R0001X") || !strings.Contains(got, "R0000X") {
		t.Errorf("after going back to turn 1: %s", got)
	}
	k.Sound()
}

// A shortened question costs at most the bound that policies reckon with, in every format and at every scale.
func TestShortQuestionsKeepTheirBound(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("last-turns", enginetest.Example(t, "last-turns"))
	texts := []string{"Short.", strings.Repeat("Where is my order, and when does it arrive? ", 20), strings.Repeat("größer und schöner ", 40),
		strings.Repeat("订单在哪里，什么时候到？", 30), strings.Repeat("🙂🚀", 80), strings.Repeat("x", 900), "A question of about thirty two tokens, which is as long as an earlier question may be before it is cut, so it may stay whole or not, one two three."}
	for n := range 130 {
		k.Post("s", enginetest.User(texts[n%len(texts)]), enginetest.Assistant("Yes."))
	}
	for _, settings := range []string{`{"tokenizer":"o200k_base"}`, `{"tokenizer":"cl100k_base"}`, `{"token_scale":1.4}`, `{"token_scale":0.7}`} {
		k.SetIn("default", settings)
		for _, format := range everyFormat {
			for _, most := range []int{16, 32, 100} {
				ask := func(argument int) enginetest.Window {
					return k.Ask(`{"session_id":"s","format":%q,"explain":true,"budget":{"max_messages":0,"max_tokens":0},"pipeline":[{"policy":"last-turns","config":{"turns":1,"questions":1000,"question_tokens":%d}}]}`, format, argument)
				}
				short, whole := ask(most), ask(1000)
				for i := 0; i < 2*129; i += 2 {
					got, want := short.Report[i], whole.Report[i]
					if got.Action != "compress" || got.After > min(want.After, most+plan.QuestionOverhead) || got.After == 0 {
						t.Fatalf("%s, %s: question %d in %d tokens costs %d, whole %d", settings, format, i/2, most, got.After, want.After)
					}
				}
				k.Replay(short.DecisionID)
			}
		}
	}
}

// BenchmarkLedger makes windows of 400 stored messages with a ledger and without one. Fuel is that of the policy.
func BenchmarkLedger(b *testing.B) {
	k := enginetest.New(b)
	k.Upload("last-turns", enginetest.Example(b, "last-turns"))
	desk(k, "s", 100)
	fuel := map[int]float64{}
	asking := func(tokens int) func(n int) {
		raw := []byte(fmt.Sprintf(`{"session_id":"s","budget":{"max_messages":0,"max_tokens":0},"pipeline":[{"policy":"last-turns","config":{"turns":12,"questions":0,"ledger_tokens":%d}}]}`, tokens))
		req := new(window.Request)
		if err := json.Unmarshal(raw, req); err != nil {
			b.Fatal(err)
		}
		var buf []byte
		make := func(n int) {
			for range n {
				var err error
				if buf, err = k.Assemble(ident.DefaultProject, req, raw, buf[:0]); err != nil {
					b.Fatal(err)
				}
			}
		}
		make(1)
		var w enginetest.Window
		if err := json.Unmarshal(buf, &w); err != nil || w.Pipeline[0].Outcome != "ok" {
			b.Fatal(err, w.Pipeline)
		}
		fuel[tokens] = float64(w.Pipeline[0].Fuel)
		return make
	}
	with, without := asking(800), asking(0)
	var took [2]time.Duration // of processor time
	rounds := 0
	for ; b.Loop(); rounds++ {
		for i, ask := range [...]func(int){with, without} {
			before := benchtest.ProcessorTime()
			ask(50)
			took[i] += benchtest.ProcessorTime() - before
		}
	}
	micros := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(50*rounds) }
	b.ReportMetric(micros(took[0]), "ledger-µs")
	b.ReportMetric(micros(took[1]), "bare-µs")
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "x-bare")
	b.ReportMetric(fuel[800], "ledger-fuel")
	b.ReportMetric(fuel[0], "bare-fuel")
}
