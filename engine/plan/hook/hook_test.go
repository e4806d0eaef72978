package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// memory returns a stored memory for tests.
func memory(key string, trust plan.Trust, flags plan.ExtraFlags) Record {
	spec, _ := json.Marshal(map[string]any{"key": key, "content": "says " + key, "category": "daily", "expires_at": "2026-12-01T00:00:00Z"})
	return Record{Kind: plan.KindMemory, Role: plan.RoleSystem, Key: key, Namespace: "[]", Text: "says " + key, Spec: spec,
		Extra: plan.Extra{Trust: trust, Flags: flags}}
}

// setSpec is a Patched that takes any spec with content.
func setSpec(t *Table, record int, spec []byte) error {
	var s struct {
		Content string   `json:"content"`
		Tags    []string `json:"tags"`
	}
	if err := json.Unmarshal(spec, &s); err != nil {
		return err
	}
	if s.Content == "" {
		return errors.New("content: must have a visible character")
	}
	r := &t.Records[record]
	r.Spec, r.Text, r.Tags = spec, s.Content, s.Tags
	return nil
}

// admitting returns a table of admit: a candidate of trust user, a memory less trusted, one as trusted, one more trusted,
// one that is pinned, and one with a value.
func admitting() *Table {
	t := &Table{Hook: plan.HookAdmit, Patched: setSpec, Records: []Record{memory("new", plan.TrustUser, 0),
		memory("model", plan.TrustModel, 0), memory("user", plan.TrustUser, 0), memory("operator", plan.TrustOperator, 0),
		memory("pinned", plan.TrustUser, plan.ExtraPinnedMemory), memory("valued", plan.TrustModel, 0)}}
	t.Records[0].Kind, t.Records[5].Value = plan.KindCandidate, "7"
	return t.Numbered(true)
}

func retaining() *Table {
	t := admitting()
	t.Hook = plan.HookRetain
	t.Records[0].Kind = plan.KindMemory
	return t
}

// remembering returns a table of remember: two messages and a memory.
func remembering() *Table {
	message := func(role plan.Role, text string) Record { return Record{Role: role, Text: text} }
	t := &Table{Hook: plan.HookRemember, Records: []Record{message(plan.RoleUser, "I am Ana"),
		message(plan.RoleAssistant, "Hello"), memory("stored", plan.TrustUser, 0)}}
	return t.Numbered(true)
}

func recalling() *Table {
	t := &Table{Hook: plan.HookRecall, Records: []Record{{Kind: plan.KindQuery, Role: plan.RoleSystem, Text: "who?"},
		memory("a", plan.TrustUser, 0), memory("b", plan.TrustUser, 0), memory("c", plan.TrustUser, 0)}}
	return t.Numbered(true)
}

// Every rule of the validity check, by an op that just breaks it and one that just does not.
func TestCheck(t *testing.T) {
	const spec = `{"content":"x","quote":"I am Ana"}`
	chosen, other := admitting(), admitting()
	chosen.Records[0].Flags, other.Records[0].Namespace = plan.ExtraClientKey, `["other"]`
	sameKey := admitting()
	sameKey.Records[0].Flags, sameKey.Records[0].Key = plan.ExtraClientKey, "user"
	operators := admitting()
	operators.Records[0].Trust = plan.TrustOperator
	asked := remembering().Answered("{}")
	merge := func(into, from, argument uint32) plan.Op {
		return plan.Op{Code: plan.OpMerge, First: into, Last: from, Argument: argument}
	}
	for name, c := range map[string]struct {
		table *Table
		ops   []plan.Op
		want  string // "" means valid
	}{
		"refuse":                    {admitting(), []plan.Op{{Code: plan.OpRefuse, Reason: "noise: a heartbeat"}}, ""},
		"refuse without a code":     {admitting(), []plan.Op{{Code: plan.OpRefuse, Reason: "No!"}}, "without the code"},
		"refuse a memory":           {admitting(), []plan.Op{{Code: plan.OpRefuse, First: 1, Last: 1, Reason: "x"}}, "not the candidate"},
		"refuse an operator's":      {operators, []plan.Op{{Code: plan.OpRefuse, Reason: "x"}}, "what an operator writes"},
		"outside":                   {admitting(), []plan.Op{merge(6, 0, 1)}, "not both inside the 6 records"},
		"far outside":               {admitting(), []plan.Op{merge(1, 1<<32-1, 1)}, "not both inside"},
		"merge, says nothing new":   {admitting(), []plan.Op{merge(3, 0, 1)}, ""},
		"merge into a pinned one":   {admitting(), []plan.Op{merge(4, 0, 1)}, ""},
		"merge and change":          {admitting(), []plan.Op{merge(2, 0, 0)}, ""},
		"change the more trusted":   {admitting(), []plan.Op{merge(3, 0, 0)}, "more trusted"},
		"change a pinned one":       {admitting(), []plan.Op{merge(4, 0, 0)}, "pinned"},
		"change an operator's":      {operators, []plan.Op{merge(3, 0, 0)}, "trust operator"},
		"merge another value":       {admitting(), []plan.Op{merge(5, 0, 1)}, "another value"},
		"merge into itself":         {admitting(), []plan.Op{merge(0, 0, 1)}, "into itself"},
		"merge of a memory":         {admitting(), []plan.Op{merge(1, 2, 1)}, "not the candidate"},
		"merge into the candidate":  {admitting(), []plan.Op{merge(0, 1, 1)}, "not a stored memory"},
		"merge by 2":                {admitting(), []plan.Op{merge(1, 0, 2)}, "not 0 or 1"},
		"merge with unused text":    {admitting(), []plan.Op{{Code: plan.OpMerge, First: 1, Argument: 1, Text: "x"}}, "leaves record 1 as it is"},
		"merge elsewhere":           {other, []plan.Op{merge(1, 0, 1)}, "another namespace"},
		"merge a chosen key":        {chosen, []plan.Op{merge(1, 0, 1)}, "whose key the client chose"},
		"merge into its own key":    {sameKey, []plan.Op{merge(2, 0, 1)}, ""},
		"patch":                     {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `{"content":"y"}`}}, ""},
		"patch the key":             {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `{"key":"y"}`}}, `changes "key"`},
		"patch trust":               {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `{"trust":null}`}}, `changes "trust"`},
		"patch pinned":              {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `{"pinned":true}`}}, `changes "pinned"`},
		"patch namespace":           {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `{"namespace":[]}`}}, `changes "namespace"`},
		"patch a memory":            {admitting(), []plan.Op{{Code: plan.OpPatch, First: 1, Last: 1, Text: `{}`}}, "not the candidate"},
		"patch by a list":           {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `[]`}}, "not a JSON object"},
		"patch by null":             {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `null`}}, "not a JSON object"},
		"patch content away":        {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `{"content":null}`}}, "no valid memory: content"},
		"patch beside merge":        {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `{}`}, merge(2, 0, 1)}, ""},
		"patch twice":               {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `{}`}, {Code: plan.OpPatch, Text: `{}`}}, "another op names"},
		"a third":                   {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `{}`}, merge(2, 0, 1), merge(3, 0, 1)}, "another op names"},
		"keep for the more trusted": {admitting(), []plan.Op{merge(1, 0, 1)}, "keeps record 1 instead of record 0"},
		"refuse beside patch":       {admitting(), []plan.Op{{Code: plan.OpPatch, Text: `{}`}, {Code: plan.OpRefuse, Reason: "x"}}, "another op names"},
		"forget":                    {retaining(), []plan.Op{{Code: plan.OpForget, First: 2, Last: 2}}, ""},
		"forget many at once":       {retaining(), []plan.Op{{Code: plan.OpForget, First: 1, Last: 2}}, "takes one record"},
		"forget a pinned one":       {retaining(), []plan.Op{{Code: plan.OpForget, First: 4, Last: 4}}, "pinned"},
		"forget an operator's":      {retaining(), []plan.Op{{Code: plan.OpForget, First: 3, Last: 3}}, "trust operator"},
		"retain by merging":         {retaining(), []plan.Op{merge(2, 1, 1)}, ""},
		"keep the less trusted":     {retaining(), []plan.Op{merge(1, 2, 1)}, "which is more trusted"},
		"merge a pinned one away":   {retaining(), []plan.Op{merge(2, 4, 1)}, "pinned"},
		"merge an operator's away":  {retaining(), []plan.Op{merge(3, 3, 1)}, "into itself"},
		"merge what is forgotten":   {retaining(), []plan.Op{{Code: plan.OpForget, First: 1, Last: 1}, merge(2, 1, 1)}, "another op names"},
		"retain's patch":            {retaining(), []plan.Op{{Code: plan.OpPatch, First: 1, Last: 1, Text: `{"category":"core"}`}}, ""},
		"retain's patch of text":    {retaining(), []plan.Op{{Code: plan.OpPatch, First: 1, Last: 1, Text: `{"content":"y"}`}}, `changes "content"`},
		"retain's patch of pinned":  {retaining(), []plan.Op{{Code: plan.OpPatch, First: 4, Last: 4, Text: `{}`}}, "pinned"},
		"store":                     {remembering(), []plan.Op{{Code: plan.OpStore, Last: 1, Text: spec}}, ""},
		"store twice":               {remembering(), []plan.Op{{Code: plan.OpStore, Text: spec}, {Code: plan.OpStore, Text: spec}}, ""},
		"store a key twice": {remembering(), []plan.Op{{Code: plan.OpStore, Text: `{"key":"k","content":"x","quote":"q"}`},
			{Code: plan.OpStore, Text: `{"key":"k","content":"y","quote":"q"}`}}, `stores the key "k"`},
		"store without a quote": {remembering(), []plan.Op{{Code: plan.OpStore, Text: `{"content":"x"}`}}, "no quote"},
		"store no spec":         {remembering(), []plan.Op{{Code: plan.OpStore, Text: `7`}}, "not the spec"},
		"store from a memory":   {remembering(), []plan.Op{{Code: plan.OpStore, Last: 2, Text: spec}}, "not a message"},
		"ask":                   {remembering(), []plan.Op{{Code: plan.OpAsk, Last: 2, Argument: 1024, Text: "what?"}}, ""},
		"ask twice":             {asked, []plan.Op{{Code: plan.OpAsk, Last: 2, Argument: 1, Text: "what?"}}, "second time"},
		"ask for nothing":       {remembering(), []plan.Op{{Code: plan.OpAsk, Argument: 0, Text: "what?"}}, "asks for 0 tokens"},
		"ask for too much":      {remembering(), []plan.Op{{Code: plan.OpAsk, Argument: 1025, Text: "what?"}}, "asks for 1025 tokens"},
		"ask with no prompt":    {remembering(), []plan.Op{{Code: plan.OpAsk, Argument: 1}}, "has 0 bytes"},
		"ask at length": {remembering(), []plan.Op{{Code: plan.OpAsk, Argument: 1, Text: strings.Repeat("x", 8193)}},
			"has 8193 bytes"},
		"ask and store":   {remembering(), []plan.Op{{Code: plan.OpAsk, Argument: 1, Text: "x"}, {Code: plan.OpStore, Text: spec}}, "with other ops"},
		"replace":         {remembering(), []plan.Op{{Code: plan.OpReplace, Last: 1, Text: "x"}}, ""},
		"replace twice":   {remembering(), []plan.Op{{Code: plan.OpReplace, Last: 1}, {Code: plan.OpReplace, First: 1, Last: 1}}, "another op names"},
		"rank":            {recalling(), []plan.Op{{Code: plan.OpRank, First: 1, Last: 1, Argument: plan.MaxScore}}, ""},
		"rank too high":   {recalling(), []plan.Op{{Code: plan.OpRank, First: 1, Last: 1, Argument: plan.MaxScore + 1}}, "at most 1000000"},
		"rank the query":  {recalling(), []plan.Op{{Code: plan.OpRank}}, "not a hit"},
		"drop":            {recalling(), []plan.Op{{Code: plan.OpDrop, First: 1, Last: 3}}, ""},
		"drop the query":  {recalling(), []plan.Op{{Code: plan.OpDrop, Last: 3}}, "not a hit"},
		"drop and rank":   {recalling(), []plan.Op{{Code: plan.OpDrop, First: 1, Last: 3}, {Code: plan.OpRank, First: 2, Last: 2}}, "another op names"},
		"backwards":       {recalling(), []plan.Op{{Code: plan.OpDrop, First: 3, Last: 1}}, "ends before it begins"},
		"an unknown op":   {recalling(), []plan.Op{{Code: 99}}, "recall does not take"},
		"nothing at all":  {recalling(), nil, ""},
		"a window's drop": {admitting(), []plan.Op{{Code: plan.OpSummarise}}, "admit does not take"},
	} {
		err := c.table.Check(c.ops)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if bad := (*plan.BadPlanError)(nil); err != nil && !errors.As(err, &bad) {
			t.Errorf("%s: %T", name, err)
		}
	}
}

// A plan has a limited number of ops of each kind.
func TestCheckLimits(t *testing.T) {
	table := &Table{Hook: plan.HookRetain}
	for i := range 200 {
		table.Records = append(table.Records, memory(fmt.Sprint("m", i), plan.TrustModel, 0))
	}
	said := &Table{Hook: plan.HookRemember, Records: []Record{{Role: plan.RoleUser}}}
	for _, c := range []struct {
		table *Table
		limit int
		op    func(i uint32) plan.Op
	}{
		{table, MaxForgets, func(i uint32) plan.Op { return plan.Op{Code: plan.OpForget, First: i, Last: i} }},
		{table, MaxMerges, func(i uint32) plan.Op {
			return plan.Op{Code: plan.OpMerge, First: 2 * i, Last: 2*i + 1, Argument: 1}
		}},
		{said, MaxStores, func(uint32) plan.Op { return plan.Op{Code: plan.OpStore, Text: `{"content":"x","quote":"q"}`} }},
	} {
		var ops []plan.Op
		for i := range c.limit + 1 {
			if err := c.table.Check(ops); err != nil {
				t.Fatalf("%d ops: %v", len(ops), err)
			}
			ops = append(ops, c.op(uint32(i)))
		}
		if err := c.table.Check(ops); err == nil || !strings.Contains(err.Error(), fmt.Sprint("more than ", c.limit)) {
			t.Errorf("%d ops: %v", len(ops), err)
		}
	}
}

// Whatever plans do, in any number of steps: pinned memories and those of operators stay as they are, and no memory is
// changed by one that is less trusted, or set aside in favour of one.
func TestRandomPlansObeyTheRules(t *testing.T) {
	valid := 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		table := &Table{Hook: []plan.Hook{plan.HookAdmit, plan.HookRetain}[seed%2], Patched: setSpec}
		for i := range 2 + rng.IntN(6) {
			r := memory(fmt.Sprint("m", i), plan.Trust(rng.IntN(5)), plan.ExtraFlags(rng.IntN(2)*2))
			table.Records = append(table.Records, r)
		}
		if table.Hook == plan.HookAdmit {
			table.Records[0].Kind = plan.KindCandidate
		}
		start := table.Numbered(true)
		now := start
		var changes []Change
		for step := range 3 {
			var ops []plan.Op
			for range rng.IntN(3) {
				ops = append(ops, randomOp(rng, len(now.Records)))
			}
			before := now.clone()
			next, did, err := now.Apply(step, ops)
			if !reflect.DeepEqual(before.Records, now.Records) {
				t.Fatalf("seed %d: a step changed its input", seed)
			}
			if err != nil {
				continue
			}
			valid++
			now, changes = next, append(changes, did...)
		}
		checkRules(t, seed, start, now, changes)
	}
	if valid < 1000 {
		t.Errorf("only %d plans were valid", valid)
	}
}

func randomOp(rng *rand.Rand, records int) plan.Op {
	op := plan.Op{Code: []plan.OpCode{plan.OpRefuse, plan.OpPatch, plan.OpMerge, plan.OpForget}[rng.IntN(4)],
		First: rng.Uint32N(uint32(records + 1)), Reason: "code", Argument: 0}
	op.Last = op.First
	switch op.Code {
	case plan.OpMerge:
		op.Last, op.Argument = rng.Uint32N(uint32(records)), rng.Uint32N(2)
	case plan.OpPatch:
		op.Text = []string{`{"tags":["x"]}`, `{"content":"changed"}`, `{"category":"core"}`, `{"key":"k"}`}[rng.IntN(4)]
	}
	return op
}

// checkRules compares what changed with what may change.
func checkRules(t *testing.T, seed uint64, start, end *Table, changes []Change) {
	t.Helper()
	fixed := func(r *Record) bool { return r.Trust == plan.TrustOperator || r.Flags&plan.ExtraPinnedMemory != 0 }
	for i := range start.Records {
		was := &start.Records[i]
		if was.Kind != plan.KindMemory || !fixed(was) {
			continue
		}
		if is := end.Find(i); is == nil || string(is.Spec) != string(was.Spec) || is.Text != was.Text {
			t.Fatalf("seed %d: %q is pinned or an operator's, and is %+v", seed, was.Key, is)
		}
	}
	for _, c := range changes {
		into, from := &start.Records[c.First], &start.Records[c.Last]
		if c.Code == plan.OpForget && fixed(into) || c.Code == plan.OpMerge &&
			(c.Argument == 0 && from.Trust < into.Trust || from.Trust > into.Trust && c.Argument == plan.KeepStored) {
			t.Fatalf("seed %d: %+v", seed, c)
		}
		if c.Code == plan.OpMerge && start.Hook == plan.HookRetain && end.Find(c.Last) != nil {
			t.Fatalf("seed %d: %q went into another and is still there", seed, from.Key)
		}
		if c.Code == plan.OpRefuse && (start.Hook != plan.HookAdmit || start.Records[0].Trust == plan.TrustOperator) {
			t.Fatalf("seed %d: %+v", seed, c)
		}
	}
}

// The next step sees what the step before left, under ids that stay.
func TestApply(t *testing.T) {
	table := retaining()
	next, changes, err := table.Apply(0, []plan.Op{{Code: plan.OpForget, First: 0, Last: 0, Reason: "old: unused"},
		{Code: plan.OpMerge, First: 2, Last: 1, Argument: plan.KeepStored},
		{Code: plan.OpPatch, First: 5, Last: 5, Text: `{"category":"core","tags":["a"]}`}})
	if err != nil {
		t.Fatal(err)
	}
	if keys := keysOf(next); !slices.Equal(keys, []string{"user", "operator", "pinned", "valued"}) {
		t.Errorf("%q are left", keys)
	}
	if changes[0].Reason != "old" || changes[1].First != 2 || changes[1].Last != 1 {
		t.Errorf("%+v", changes)
	}
	if spec := string(next.Records[3].Spec); spec != `{"category":"core","content":"says valued","key":"valued","tags":["a"]}` ||
		changes[2].Text != spec {
		t.Errorf("patched to %s, reported %s", spec, changes[2].Text)
	}
	_, changes, err = next.Apply(1, []plan.Op{{Code: plan.OpForget, First: 0, Last: 0}})
	if err != nil || changes[0].First != 2 || changes[0].Step != 1 {
		t.Errorf("%+v, %v", changes, err)
	}
	all, ranked, err := recalling().Apply(0, []plan.Op{{Code: plan.OpDrop, First: 1, Last: 1},
		{Code: plan.OpRank, First: 3, Last: 3, Argument: 9}})
	if err != nil || len(ranked) != 2 {
		t.Fatal(err)
	}
	var order []string
	for _, r := range all.Ordered() {
		order = append(order, r.Key)
	}
	if !slices.Equal(order, []string{"", "c", "b"}) {
		t.Errorf("ordered %q", order)
	}
}

func keysOf(t *Table) (keys []string) {
	for i := range t.Records {
		keys = append(keys, t.Records[i].Key)
	}
	return keys
}

// The content that replaces a memory's is what later steps see.
func TestMergedText(t *testing.T) {
	for text, want := range map[string]string{"": "says model", "both": "both"} {
		table := retaining()
		table.Records[1].Trust = plan.TrustUser
		next, _, err := table.Apply(0, []plan.Op{{Code: plan.OpMerge, First: 2, Last: 1, Text: text}})
		if err != nil {
			t.Fatal(err)
		}
		r := next.Find(2)
		var spec struct{ Content, Key string }
		if json.Unmarshal(r.Spec, &spec) != nil || r.Text != want || spec.Content != want || spec.Key != "user" {
			t.Errorf("%q gives %q, %s", text, r.Text, r.Spec)
		}
	}
}

func TestReasonCode(t *testing.T) {
	for reason, want := range map[string]string{"noise": "noise", "noise: a heartbeat": "noise", "a_1:x": "a_1", "": "",
		"No": "", "a b": "", "é": "", strings.Repeat("x", 64): strings.Repeat("x", 64), strings.Repeat("x", 65): ""} {
		if got := ReasonCode(reason); got != want {
			t.Errorf("%q: %q", reason, got)
		}
	}
}

// The examples of RFC 7396, appendix A.
func TestMergePatch(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`}, {`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`}, {`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`}, {`{"a":"foo"}`, `null`, `null`}, {`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`}, {`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`}, {`{"n":12345678901234567890.10}`, `{}`, `{"n":12345678901234567890.10}`},
	} {
		if got, err := MergePatch([]byte(c[0]), []byte(c[1])); err != nil || string(got) != c[2] {
			t.Errorf("%s with %s: %s, %v; want %s", c[0], c[1], got, err, c[2])
		}
	}
	for _, c := range [][2]string{{`{`, `{}`}, {`{}`, `{} {}`}, {`{}`, ``}} {
		if got, err := MergePatch([]byte(c[0]), []byte(c[1])); err == nil {
			t.Errorf("%s with %s: %s", c[0], c[1], got)
		}
	}
}

// A request says of each record what the table says.
func TestRequest(t *testing.T) {
	table := remembering()
	table.Origin, table.Budget, table.Now, table.Seed = plan.OriginTool, 9, 8, 7
	table.Records[0].Calls, table.Records[0].Head.Seq, table.Records[0].Head.Turn = []plan.Called{{Name: "find", Arguments: "{}"}}, 4, 2
	table.Records[2].Tags, table.Records[2].Session, table.Records[2].Score = []string{"a", "find"}, "s", 5
	r := table.Request(nil)
	m := r.Extra[2]
	if len(r.Records) != 3 || len(r.Extra) != 3 || r.Hook != plan.HookRemember || r.Origin != plan.OriginTool ||
		r.BudgetTokens != 9 || r.Now != 8 || r.Seed != 7 || r.NewestTurn != 2 || r.Records[0].Seq != 4 || m.Score != 5 ||
		r.Strings[m.Key] != "stored" || r.Strings[m.Namespace] != "[]" || r.Strings[m.Session] != "s" ||
		r.Strings[r.Records[0].Tool] != "find" || r.Records[2].TagCount != 2 || r.Strings[r.Tags[r.Records[2].TagsAt]] != "a" ||
		r.Records[2].TextBytes != uint32(len("says stored")) || r.Records[2].Atom != 2 || r.Records[2].Kind != plan.KindMemory {
		t.Errorf("%+v", r)
	}
	texts := table.Answered(`{"a":1}`).Texts()
	if called, ok, _ := texts.Call(0, 0); !ok || called.Name != "find" {
		t.Errorf("call %+v", called)
	}
	for record, want := range map[int]string{0: "", 2: string(table.Records[2].Spec), 3: `{"a":1}`} {
		if text, ok, err := texts.JSON(record); err != nil || ok != (want != "") || string(text) != want {
			t.Errorf("record %d: %s, %v", record, text, err)
		}
	}
}
