package hostapi

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
	"github.com/seed-0906e6bc/mneme/testdata/hostile"
)

//go:generate go run ../testdata/hostile/build ../testdata/hostile/modules

const hostileFolder = "../testdata/hostile/modules"

// attackRequest is the request for which the outcomes of the attacks were recorded.
func attackRequest(d plan.Digest, n int) plan.Call {
	c := conversation(d, nil, n)
	c.Tenant = "attacker"
	c.Request.BudgetTokens = 2000
	text := strings.Repeat("some words ", 64<<10/11)
	c.Texts = texts(slices.Repeat([]string{text}, n))
	if n > 0 {
		newest := n - 1 - (n-1)%4
		c.Request.Records[newest].Flags |= plan.FlagMandatory
	}
	return c
}

// finish does the engine's part with a call's ops: it applies them and runs the validity check.
func finish(c plan.Call, out plan.Outcome) (status plan.Status, words string, violation *plan.Violation, err error) {
	if out.Status != plan.StatusOK {
		return out.Status, out.Detail, nil, nil
	}
	items := make([]plan.Item, len(c.Request.Records))
	for i, r := range c.Request.Records {
		items[i] = plan.Item{Record: r, Row: int32(i)}
	}
	applied, err := plan.Apply(items, out.Ops, 0, wordSource{c.Texts}, free{})
	if bad := (*plan.BadPlanError)(nil); errors.As(err, &bad) {
		return plan.StatusBadPlan, bad.Error(), nil, nil
	}
	if err != nil {
		return "", "", nil, err
	}
	law := plan.Law{BudgetMessages: c.Request.BudgetMessages, BudgetTokens: c.Request.BudgetTokens}
	return plan.StatusOK, "", law.Check(items, applied.Items), nil
}

// wordSource counts words as tokens.
type wordSource struct{ plan.Texts }

func (s wordSource) RowText(row int32) (string, error) {
	text, err := s.Text(int(row))
	return string(text), err
}
func (s wordSource) Call(it *plan.Item, call int) (plan.Called, int, bool, error) {
	c, ok, err := s.Texts.Call(int(it.Row), call)
	return c, call, ok && it.Kind == plan.KindCall, err
}
func (s wordSource) Edited(it *plan.Item) (text string, tokens uint32, empty bool, err error) {
	text, err = s.RowText(it.Row)
	return text, s.NoticeTokens(text), false, err
}
func (s wordSource) Tool(*plan.Item) string { return "search" }
func (s wordSource) TokensWith(_ *plan.Item, text string) (uint32, error) {
	return s.NoticeTokens(text), nil
}
func (s wordSource) Summary() (covers uint64, text string, tokens uint32) {
	return 1, "a summary", s.NoticeTokens("a summary")
}
func (s wordSource) NoticeTokens(text string) uint32 { return uint32(len(strings.Fields(text))) }
func (s wordSource) Load([]int32) error              { return nil }
func (s wordSource) QuestionTokens(turn uint32, text string) uint32 {
	return s.NoticeTokens(plan.EarlierQuestion(turn) + text)
}
func (s wordSource) ShortQuestion(it *plan.Item, text string, tokens uint32) (string, uint32) {
	words := strings.Fields(text)
	text = strings.Join(words[:min(int(tokens), len(words))], " ")
	return text, s.QuestionTokens(it.Turn, text)
}
func (s wordSource) Sees(*plan.Item) bool { return true }
func (s wordSource) Literals(rows []int32) ([]literal.List, error) {
	lists := make([]literal.List, len(rows))
	for i, row := range rows {
		text, err := s.RowText(row)
		if err != nil {
			return nil, err
		}
		lists[i] = literal.Of(text)
	}
	return lists, nil
}
func (s wordSource) Ledger(l *plan.Ledger, tokens uint32) (text string, cost uint32, without int) {
	without = l.Fit(int(tokens), func(text string) int { return int(s.NoticeTokens(text)) })
	text = l.Text(without)
	return text, s.NoticeTokens(text), without
}
func (s wordSource) DocumentTexts(*plan.Item) ([]string, error) { return nil, nil }
func (s wordSource) Thinking(*plan.Item) (string, error)        { return "", nil }
func (s wordSource) Bare(*plan.Item) (uint32, error)            { return 0, nil }
func (s wordSource) Documents(it *plan.Item) (int, plan.Flags, error) {
	return 0, it.Flags, nil
}
func (s wordSource) Truncated(it *plan.Item, tokens int, note string) (plan.Cut, error) {
	text, err := plan.TextOf(it, s)
	words := strings.Fields(text)
	text = strings.Join(words[:min(tokens, len(words))], " ") + note
	return plan.Cut{Text: text, Tokens: uint32(len(strings.Fields(text)))}, err
}

// never is a timer that never expires: only fuel must decide, on the slowest machine.
type never struct{}

func (never) Reset(time.Duration) bool { return true }
func (never) Stop() bool               { return true }

func stoppedTimer(func()) Timer { return never{} }

// StoppedTimer lets tests outside the package run with only fuel limiting a call.
func StoppedTimer(f func()) Timer { return stoppedTimer(f) }

// Every attack ends as recorded, the same way and at the same price each time, and its host continues to serve others.
func TestAttacks(t *testing.T) {
	h := newHost(t, Options{NewTimer: stoppedTimer})
	good := conversation(mustLoad(t, h, returnsPlan(planBytes("code", opBytes(1, 0, 0, 0, 0, 0, 48, 4))).build()), nil,
		8)
	want := h.Run(t.Context(), good)
	for _, a := range hostile.Attacks() {
		t.Run(a.Name, func(t *testing.T) {
			code := a.Build()
			m, err := h.Load(t.Context(), "attacker", code)
			if a.Check != "" {
				var refusal *plan.Refusal
				if !errors.As(err, &refusal) {
					t.Fatalf("not refused: %v", err)
				}
				if refusal.Check != a.Check || !strings.Contains(err.Error(), a.Words) {
					t.Errorf("refused by %s: %v", refusal.Check, err)
				}
				_, again := h.Load(t.Context(), "attacker", code)
				if again == nil || again.Error() != err.Error() {
					t.Errorf("refused with %v, then with %v", err, again)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				attack(t, h, a, m.Digest)
			}
			if out := h.Run(t.Context(), good); !sameOutcome(out, want) {
				t.Errorf("a neighbour's call afterwards: %+v", out)
			}
		})
	}
}

// attack calls an admitted module several times.
func attack(t *testing.T, h *Host, a hostile.Attack, d plan.Digest) {
	t.Helper()
	c := attackRequest(d, hostile.Records)
	first := h.Run(t.Context(), c)
	status, words, violation, err := finish(c, first)
	if err != nil || status != a.Status || !strings.Contains(words, a.Words) {
		t.Errorf("%s: %s (%v)", status, words, err)
	}
	rule := ""
	if violation != nil || a.Rule != "" {
		if violation != nil {
			rule = violation.Rule
		}
		if rule != a.Rule {
			t.Errorf("the law is broken in %q, not in %q", rule, a.Rule)
		}
	}
	for range 2 {
		if again := h.Run(t.Context(), c); !sameOutcome(first, again) {
			t.Errorf("first %+v, then %+v", first, again)
		}
	}
}

// A module that is just below the limits is compiled and runs.
func TestHeavyModule(t *testing.T) {
	h := newHost(t, Options{NewTimer: stoppedTimer})
	if out := h.Run(t.Context(), attackRequest(mustLoad(t, h, hostile.Heavy(1)), 2)); out.Status != plan.StatusOK {
		t.Errorf("%+v", out)
	}
}

// The committed modules are what the sources build, and there are no others.
func TestAttacksAreCommitted(t *testing.T) {
	stray, err := filepath.Glob(hostileFolder + "/*")
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, file := range stray {
		left[filepath.Base(file)] = true
	}
	seen := map[string]bool{}
	for _, a := range hostile.Attacks() {
		if seen[a.Name] || a.Doc == "" || (a.Check == "") == (a.Status == "") {
			t.Errorf("%s: named twice, without a word, or without one ending", a.Name)
		}
		seen[a.Name] = true
		if a.Large {
			continue
		}
		file := a.Name + ".wasm"
		if got, err := os.ReadFile(filepath.Join(hostileFolder, file)); err != nil || !bytes.Equal(got, a.Build()) {
			t.Errorf("%s is not what its source builds (%v): run `go generate ./hostapi`", file, err)
		}
		delete(left, file)
	}
	for file := range left {
		t.Errorf("%s has no source", file)
	}
}

// Modules that try to keep state find none: not in the same session, nor in another one, nor as another tenant, nor
// after others.
func TestKeepersFindNothing(t *testing.T) {
	h := newHost(t, Options{NewTimer: stoppedTimer})
	for _, a := range hostile.Keepers() {
		t.Run(a.Name, func(t *testing.T) {
			d := mustLoad(t, h, a.Build())
			want := map[int]plan.Outcome{}
			for i := range 24 {
				n := []int{2, hostile.Records, 1200}[i%3] // other sessions; the last one in the larger arenas
				c := attackRequest(d, n)
				c.Tenant = fmt.Sprint("tenant", i/6%2)
				out := h.Run(t.Context(), c)
				first, ok := want[n]
				if !ok {
					want[n], first = out, out
					if out.Status != plan.StatusOK || len(out.Ops) != 1 || strings.Contains(out.Ops[0].Text, ".") {
						t.Fatalf("%+v", out)
					}
				}
				if !sameOutcome(out, first) {
					t.Fatalf("call %d found %+v, the first found %+v", i, out, first)
				}
			}
		})
	}
}

// A module that behaves only for small requests is stopped at the first large one, and is still called for small ones.
func TestSleepers(t *testing.T) {
	h := newHost(t, Options{NewTimer: stoppedTimer})
	for _, a := range hostile.Sleepers() {
		d := mustLoad(t, h, a.Build())
		for range 3 {
			if out := h.Run(t.Context(), attackRequest(d, hostile.SelfTestRecords)); out.Status != plan.StatusOK {
				t.Errorf("%s asleep: %+v", a.Name, out)
			}
			if out := h.Run(t.Context(), attackRequest(d, hostile.Records)); out.Status != a.Status || out.Ops != nil {
				t.Errorf("%s awake: %+v", a.Name, out)
			}
		}
	}
}

// free is a meter that never runs out.
type free struct{}

func (free) Spend(int) error { return nil }
