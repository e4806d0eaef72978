package lab_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// talk creates a session whose turns use tools, with some long results.
func talk(k *enginetest.Kit, session string, turns int) {
	k.Helper()
	for i := range turns {
		id := fmt.Sprint("c", i)
		k.Post(session, enginetest.User(fmt.Sprint("question ", i, " about the weather in Oslo")), enginetest.Call(id, "look"),
			enginetest.Result(id, string(bytes.Repeat([]byte("rain "), 1+(i*37)%90))), enginetest.Assistant(fmt.Sprint("answer ", i)))
	}
}

func diff(k *enginetest.Kit, request string) (lab.Diff, error) {
	k.Helper()
	var req lab.DiffRequest
	if err := json.Unmarshal([]byte(request), &req); err != nil {
		k.Fatal(err)
	}
	return k.Trials.Diff(k.Context(), k.Admin, ident.DefaultProject, &req)
}

// TestDiffIsBothReports expects both windows and both reports, with each row once, and nothing stored.
func TestDiffIsBothReports(t *testing.T) {
	raw := &enginetest.Counting{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	talk(k, "s", 30)
	const asked = `"session_id":"s","system":"Be brief.","explain":true`
	w := k.Ask(`{%s,"budget":{"max_tokens":900}}`, asked)
	other := k.Ask(`{%s,"budget":{"max_tokens":1900},"record":false}`, asked)
	raw.Reset()
	d, err := diff(k, fmt.Sprintf(`{"a":{"decision_id":%q},"b":{"request":{%s,"budget":{"max_tokens":1900}}}}`, w.DecisionID, asked))
	if err != nil || raw.Commits != 0 {
		t.Fatal(err, raw.Commits)
	}
	for side, want := range map[string]struct {
		got  lab.DiffedWindow
		want enginetest.Window
	}{"a": {d.A, w}, "b": {d.B, other}} {
		if fmt.Sprintf("%s", want.got.Messages) != fmt.Sprintf("%s", want.want.Messages) ||
			int(want.got.Usage.Tokens) != want.want.Usage["tokens"] {
			t.Errorf("side %s is another window", side)
		}
	}
	var ids [2][]string
	changed := 0
	for _, row := range d.Rows {
		name := ""
		if row.MessageID != nil {
			name = *row.MessageID
		}
		for i, side := range []bool{row.A != nil, row.B != nil} {
			if side {
				ids[i] = append(ids[i], name)
			}
		}
		differs := row.A == nil || row.B == nil || row.A.Action != row.B.Action || row.A.ReasonCode != row.B.ReasonCode ||
			row.A.TokensAfter != row.B.TokensAfter || row.A.Policy != row.B.Policy ||
			(row.A.WindowIndex == nil) != (row.B.WindowIndex == nil)
		if differs != row.Changed {
			t.Errorf("%s: changed is %t: %+v %+v", name, row.Changed, row.A, row.B)
		}
		if differs {
			changed++
		}
	}
	for i, w := range []enginetest.Window{w, other} {
		var want []string
		for _, row := range w.Report {
			want = append(want, row.MessageID)
		}
		if fmt.Sprint(ids[i]) != fmt.Sprint(want) {
			t.Errorf("side %d has the rows\n%v\nnot\n%v", i, ids[i], want)
		}
	}
	if changed == 0 || d.Changed != changed || d.Tokens.A >= d.Tokens.B {
		t.Errorf("%d rows differ, the diff says %d; tokens %+v", changed, d.Changed, d.Tokens)
	}
	same, err := diff(k, fmt.Sprintf(`{"a":{"decision_id":%q},"b":{"decision_id":%q}}`, w.DecisionID, w.DecisionID))
	if err != nil || same.Changed != 0 || len(same.Rows) != len(w.Report) || same.Prefix.Messages != len(w.Messages) ||
		uint64(same.Prefix.Bytes) != same.Prefix.Of.A || same.Prefix.Of.A != same.Prefix.Of.B || !same.Prefix.System {
		t.Errorf("a decision differs from itself: %v %d %+v", err, same.Changed, same.Prefix)
	}
}

// TestDiffPrefix counts what both prompts begin with.
func TestDiffPrefix(t *testing.T) {
	k := enginetest.New(t)
	talk(k, "s", 3)
	ask := func(more string) string {
		return fmt.Sprintf(`{"request":{"session_id":"s","pipeline":[{"policy":"tool-pair-trim"}]%s}}`, more)
	}
	try := func(a, b string) lab.Diff {
		t.Helper()
		d, err := diff(k, fmt.Sprintf(`{"a":%s,"b":%s}`, ask(a), ask(b)))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	later := try(``, `,"pending":[{"role":"user","content":"and now?"}]`)
	if p := later.Prefix; p.Messages != 12 || p.Of.A != uint64(p.Bytes) || p.Of.B <= p.Of.A || p.Tokens == 0 {
		t.Errorf("a window with one more message: %+v", p)
	}
	if last := later.Rows[len(later.Rows)-1]; last.A != nil || last.B == nil || *last.MessageID != "pending:0" {
		t.Errorf("the last row is %+v", last)
	}
	if p := try(`,"system":"One."`, `,"system":"Other."`).Prefix; p.System || p.Messages != 0 || p.Tokens != 0 || p.Bytes == 0 {
		t.Errorf("another system prompt: %+v", p)
	}
	if p := try(`,"pending":[{"role":"user","content":"now"}]`, `,"pending":[{"role":"user","content":"noon"}]`).Prefix; p.Messages != 12 {
		t.Errorf("the last message differs: %+v", p)
	}
	if p := try(`,"format":"anthropic.messages"`, `,"format":"anthropic.messages","system":"Be brief."`).Prefix; p.System ||
		p.Messages != 0 || p.Bytes != 0 || p.Tokens != 0 {
		t.Errorf("a system prompt on one side: %+v", p)
	}
	if p := try(`,"format":"text"`, `,"format":"text"`).Prefix; p.Messages != 0 || uint64(p.Bytes) != p.Of.B || p.Bytes == 0 {
		t.Errorf("texts: %+v", p)
	}
	for _, wrong := range []string{`{}`, `{"a":{"decision_id":"dec_x","request":{}},"b":{"request":{}}}`} {
		_, err := diff(k, wrong)
		enginetest.RefusedWith(t, err, fault.Invalid, "invalid_value")
	}
	_, err := diff(k, `{"a":{"request":{}},"b":{"decision_id":"dec_none"}}`)
	enginetest.RefusedWith(t, err, fault.NotFound, "not_found")
	_, err = diff(k, `{"a":{"request":{"session_id":"s","budget":{"max_tokens":1}}},"b":{"request":{}}}`)
	enginetest.RefusedWith(t, err, fault.Invalid, "budget_too_small")
}
