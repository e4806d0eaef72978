package hostapi

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/manifest"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

const ledgerDir = "../sdk/policy/go/examples/last-turns/"

// orders returns a table of turns that each name an order.
func orders(turns uint32) *mnemetest.Table {
	table := &mnemetest.Table{Config: map[string]any{"turns": 1, "questions": 1, "question_tokens": 16, "ledger_tokens": 30}}
	for n := range turns {
		order := "order A" + string(rune('0'+n)) + "00"
		table.Records = append(table.Records,
			mnemetest.Record{Turn: n + 1, Atom: 2 * n, Role: mneme.User, Text: "Where is " + order + "? " + strings.Repeat("so ", 40), CompressedTokens: 60},
			mnemetest.Record{Turn: n + 1, Atom: 2*n + 1, Role: mneme.Assistant, Text: "I sent it, see B" + string(rune('0'+n)) + "00."})
	}
	return table
}

// A module that TinyGo built asks for a ledger and for short questions, and the engine makes them.
func TestLedgerOfAModule(t *testing.T) {
	code, err := os.ReadFile(ledgerDir + "last-turns.wasm")
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, Options{})
	call := callOf(mustLoad(t, h, code), orders(4))
	out := h.Run(t.Context(), call)
	if out.Status != plan.StatusOK {
		t.Fatalf("%+v", out)
	}
	items := make([]plan.Item, len(call.Request.Records))
	for i, r := range call.Request.Records {
		items[i] = plan.Item{Record: r, Row: int32(i)}
	}
	applied, err := plan.Apply(items, out.Ops, 0, wordSource{call.Texts}, free{})
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, it := range applied.Items[:2] {
		shown = append(shown, it.Text)
	}
	want := []string{"[earlier messages left out] They named order: A000; sent: B000; order: A100; sent: B100; order: A200; sent: B200",
		"[earlier question] (turn 3): Where is order A200?" + strings.Repeat(" so", 12)}
	if len(applied.Items) != 4 || shown[0] != want[0] || shown[1] != want[1] {
		t.Errorf("%d items, %q, want %q", len(applied.Items), shown, want)
	}
	if v := (&plan.Law{}).Check(items, applied.Items); v != nil {
		t.Error(v)
	}
	if again := h.Run(t.Context(), call); !sameOutcome(out, again) {
		t.Errorf("%+v, then %+v", out, again)
	}
}

// A module whose manifest is of an earlier version gets what that version had.
func TestLedgerNeedsItsVersion(t *testing.T) {
	code, err := os.ReadFile(ledgerDir + "last-turns.wasm")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(ledgerDir + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	if code, err = manifest.Set(code, bytes.Replace(text, []byte(`"abi": "1.2"`), []byte(`"abi": "1.1"`), 1)); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, Options{})
	for questions, words := range map[int]string{1: "COMPRESS takes none before mneme/1.2", 0: "LEDGER of mneme/1.2"} {
		table := orders(4)
		table.Config["questions"] = questions
		out := h.Run(t.Context(), callOf(mustLoad(t, h, code), table))
		if out.Status != plan.StatusBadPlan || !strings.Contains(out.Detail, words) {
			t.Errorf("%s: %s, want bad_plan: %s", out.Status, out.Detail, words)
		}
	}
}
