package policies_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/policies/dedupe"
	guardtrust "github.com/seed-0906e6bc/mneme/policies/guard-trust"
	redactsecrets "github.com/seed-0906e6bc/mneme/policies/redact-secrets"
	refusenoise "github.com/seed-0906e6bc/mneme/policies/refuse-noise"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// candidate returns a table of admit with a candidate that a tool stores.
func candidate(text string, memories ...mnemetest.Memory) *mnemetest.Table {
	t := &mnemetest.Table{Hook: mneme.Admit, Origin: mneme.FromTool, Records: []mnemetest.Record{{
		Role: mneme.System, Kind: mneme.Candidate, Text: text,
		Memory: mnemetest.Memory{Trust: mneme.TrustModel, Category: mneme.Core}}}}
	for i, m := range memories {
		if m.Trust == 0 {
			m.Trust = mneme.TrustModel
		}
		if m.Category == 0 {
			m.Category = mneme.Core
		}
		if m.Key == "" {
			m.Key = fmt.Sprint("m", i+1)
		}
		t.Records = append(t.Records, mnemetest.Record{Role: mneme.System, Kind: mneme.Memory, Text: "a memory", Memory: m})
	}
	return t
}

// admitted describes the only op of a plan, "" for none.
func admitted(t *testing.T, policy mneme.Policy, table *mnemetest.Table) string {
	t.Helper()
	switch ops := run(t, policy, table); {
	case len(ops) == 0:
		return ""
	case len(ops) > 1:
		t.Fatalf("%d ops", len(ops))
	case ops[0].Code == mneme.OpRefuse:
		return "refuse:" + ops[0].Reason
	case ops[0].Code == mneme.OpMerge:
		return fmt.Sprintf("merge:%s %d", table.Records[ops[0].First].Memory.Key, ops[0].Argument)
	case ops[0].Code == mneme.OpPatch:
		return ops[0].Text
	}
	t.Fatal("an op of another hook")
	return ""
}

// lines decodes the lines of a corpus.
func lines[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	f, err := os.Open("../testdata/memories/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var one T
		if err := json.Unmarshal(s.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// TestRefuseNoise judges the corpora by words alone. Half b was held out from making the rules.
func TestRefuseNoise(t *testing.T) {
	type text struct{ Half, Class, Text string }
	for name, c := range map[string]struct {
		least       int     // texts of a half
		from, until float64 // the share that is kept
	}{"junk.jsonl": {290, 0, 0.1}, "good.jsonl": {75, 0.97, 1}} {
		kept, all := map[string]int{}, map[string]int{}
		for _, one := range lines[text](t, name) {
			all[one.Half]++
			verdict := admitted(t, refusenoise.Admit, candidate(one.Text))
			if verdict == "" {
				kept[one.Half]++
			}
			if (verdict == "") != (name == "good.jsonl") {
				t.Logf("%s: %s %q %s", name, one.Class, one.Text, verdict)
			}
		}
		for _, half := range []string{"a", "b"} {
			share := float64(kept[half]) / float64(all[half])
			t.Logf("%s: half %s: %d of %d kept, %.1f %%", name, half, kept[half], all[half], 100*share)
			if all[half] < c.least || share < c.from || share > c.until {
				t.Errorf("%s, half %s: %d of %d kept", name, half, kept[half], all[half])
			}
		}
	}
}

func TestRefuseNoiseRules(t *testing.T) {
	digits := mnemetest.Memory{Flags: mneme.EqualDigits}
	for name, c := range map[string]struct {
		table *mnemetest.Table
		want  string
	}{
		"a counter":            {candidate("The counter stands at 7 now.", digits, digits), "refuse:counter"},
		"one like it":          {candidate("The counter stands at 7 now.", digits), ""},
		"two words":            {candidate("Likes tea"), "refuse:too_short"},
		"two words of Chinese": {candidate("我住在北京。"), ""},
		"empty":                {candidate("```json\n{\"facts\": []}\n```"), "refuse:empty_json"},
		"JSON that says much":  {candidate(`{"city": "Porto is where I live"}`), ""},
		"a long text":          {candidate(strings.Repeat("I live in Porto. ", 2000)), ""},
		"typographic signs":    {candidate("I’m sorry, but I can’t help with that."), "refuse:refusal"},
	} {
		if got := admitted(t, refusenoise.Admit, c.table); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for _, pass := range []func(*mnemetest.Table){
		func(t *mnemetest.Table) { t.Origin = mneme.FromAPI },
		func(t *mnemetest.Table) { t.Records[0].Memory.Trust = mneme.TrustOperator },
	} {
		table := candidate("HEARTBEAT_OK")
		pass(table)
		if got := admitted(t, refusenoise.Admit, table); got != "" {
			t.Errorf("what passes unread: %q", got)
		}
	}
	user := candidate("HEARTBEAT_OK")
	user.Records[0].Memory.Trust = mneme.TrustUser
	if got := admitted(t, refusenoise.Admit, user); got == "" {
		t.Error("noise in the user's role is kept")
	}
}

func TestGuardTrust(t *testing.T) {
	own := mneme.CandidateKey
	for name, c := range map[string]struct {
		memory mnemetest.Memory
		trust  mneme.Trust
		want   string
	}{
		"a model over a user":      {mnemetest.Memory{Flags: own, Trust: mneme.TrustUser}, mneme.TrustModel, "refuse:protected"},
		"a user over a user":       {mnemetest.Memory{Flags: own, Trust: mneme.TrustUser}, mneme.TrustUser, ""},
		"a tool over a model":      {mnemetest.Memory{Flags: own, Trust: mneme.TrustModel}, mneme.TrustTool, "refuse:protected"},
		"a user over an operator":  {mnemetest.Memory{Flags: own, Trust: mneme.TrustOperator}, mneme.TrustUser, "refuse:protected"},
		"a memory of another key":  {mnemetest.Memory{Trust: mneme.TrustUser}, mneme.TrustModel, ""},
		"an operator over himself": {mnemetest.Memory{Flags: own, Trust: mneme.TrustOperator}, mneme.TrustOperator, ""},
	} {
		table := candidate("I live in Porto", c.memory)
		table.Records[0].Memory.Trust = c.trust
		if got := admitted(t, guardtrust.Admit, table); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestDedupe(t *testing.T) {
	const user, operator = mneme.TrustUser, mneme.TrustOperator
	type memory = mnemetest.Memory
	for name, c := range map[string]struct {
		candidate memory
		memories  []memory
		want      string
	}{
		"equal":            {memory{}, []memory{{}, {Flags: mneme.Equal}}, "merge:m2 1"},
		"covered":          {memory{}, []memory{{Flags: mneme.Covers}}, "merge:m1 1"},
		"it says more":     {memory{}, []memory{{Flags: mneme.Covered}}, "merge:m1 0"},
		"only alike":       {memory{}, []memory{{Score: 999_999}}, ""},
		"equal but digits": {memory{}, []memory{{Flags: mneme.EqualDigits}}, ""},
		"equal comes first": {memory{}, []memory{{Flags: mneme.Covered}, {Flags: mneme.Equal}},
			"merge:m2 1"},
		"the client's key":          {memory{Flags: mneme.ClientKey}, []memory{{Flags: mneme.Equal}}, ""},
		"under its key":             {memory{}, []memory{{Flags: mneme.Equal | mneme.CandidateKey}}, ""},
		"another text of its key":   {memory{}, []memory{{Flags: mneme.CandidateKey}, {Flags: mneme.Equal}}, ""},
		"equal, and more trusted":   {memory{Trust: user}, []memory{{Flags: mneme.Equal}}, "merge:m1 0"},
		"but that one is pinned":    {memory{Trust: user}, []memory{{Flags: mneme.Equal | mneme.PinnedMemory}}, ""},
		"equal, and less trusted":   {memory{}, []memory{{Flags: mneme.Equal, Trust: operator}}, "merge:m1 1"},
		"covered, and more trusted": {memory{Trust: user}, []memory{{Flags: mneme.Covers}}, ""},
		"more than a user said":     {memory{}, []memory{{Flags: mneme.Covered, Trust: user}}, ""},
		"more than an operator's":   {memory{Trust: operator}, []memory{{Flags: mneme.Covered, Trust: operator}}, ""},
		"more than a pinned one":    {memory{}, []memory{{Flags: mneme.Covered | mneme.PinnedMemory}}, ""},
		"core into daily":           {memory{}, []memory{{Flags: mneme.Equal, Category: mneme.Daily, Expires: 9}}, ""},
		"daily into core":           {memory{Category: mneme.Daily}, []memory{{Flags: mneme.Equal}}, "merge:m1 1"},
		"of two sessions": {memory{Category: mneme.Conversation, Session: "a"},
			[]memory{{Flags: mneme.Equal, Category: mneme.Conversation, Session: "b"}}, ""},
		"pinned":                 {memory{Flags: mneme.PinnedMemory}, []memory{{Flags: mneme.Equal}}, ""},
		"daily into daily":       {memory{Category: mneme.Daily}, []memory{{Flags: mneme.Equal, Category: mneme.Daily}}, "merge:m1 1"},
		"daily that ends before": {memory{Category: mneme.Daily, Expires: 9}, []memory{{Flags: mneme.Equal, Category: mneme.Daily, Expires: 8}}, ""},
		"on another day":         {memory{Occurred: 5}, []memory{{Flags: mneme.Equal, Occurred: 6}}, ""},
		"on the same":            {memory{Occurred: 5}, []memory{{Flags: mneme.Equal, Occurred: 5}}, "merge:m1 1"},
	} {
		table := candidate("I live in Porto", c.memories...)
		if c.candidate.Trust == 0 {
			c.candidate.Trust = mneme.TrustModel
		}
		if c.candidate.Category == 0 {
			c.candidate.Category = mneme.Core
		}
		table.Records[0].Memory = c.candidate
		if got := admitted(t, dedupe.Admit, table); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for at := range table.Records {
			table.Records[at].Spec = `{"content":"x"}`
		}
		for _, spec := range []string{`{"value":{"a":1}}`, `{"metadata":{"a":1}}`, `{"standing":true}`, `{"pinned":true}`} {
			table.Records[0].Spec = spec
			if got := admitted(t, dedupe.Admit, table); got != "" {
				t.Errorf("%s, with %s: %q", name, spec, got)
			}
		}
	}
}

// secretsOf are texts with what they become.
var secretsOf = []struct{ text, want string }{
	{"Use ghp_" + strings.Repeat("a1", 18) + ", please.", "Use [redacted: token], please."},
	{"aws: AKIA" + "ABCDEFGH12345678.", "aws: [redacted: token]."},
	{"sk-" + "proj-abcdefgh12345678ABCDEF", "[redacted: token]"},
	{"The header is Authorization: Bearer abcdef0123456789abcd", "The header is Authorization: Bearer [redacted: token]"},
	{"jwt eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl!", "jwt [redacted: token]!"},
	{"postgres://app:hunter2@db:5432/x", "postgres://app:[redacted: password]@db:5432/x"},
	{"My card is 4111 1111 1111 1111.", "My card is [redacted: card number]."},
	{"My card is 378282246310005, ok?", "My card is [redacted: card number], ok?"},
	{"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter", "[redacted: private key]\nafter"},
	{"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb", "[redacted: private key]"},

	{"My card is 4111 1111 1111 1112.", ""},
	{"Order 1234567890123456 has 4111111111111111111 parts", ""},
	{"Take the sk-lift, and see http://example.org:80/a@b", ""},
	{"-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", ""},
	{"ssh git@host:repo, task-1234567890123456789012 and AKIA", ""},
	{"Bearer of bad news", ""},
}

func TestRedactSecrets(t *testing.T) {
	for _, c := range secretsOf {
		table := candidate(c.text)
		got := admitted(t, redactsecrets.Admit, table)
		want := ""
		if c.want != "" {
			text, _ := json.Marshal(map[string]string{"content": c.want})
			want = string(text)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", c.text, got, want)
		}
		table.Config = map[string]any{"mode": "refuse"}
		if got := admitted(t, redactsecrets.Admit, table); (got == "refuse:secret") != (c.want != "") {
			t.Errorf("%q refused: %q", c.text, got)
		}
		window := &mnemetest.Table{Records: []mnemetest.Record{{Turn: 1, Atom: 1, Role: mneme.User, Text: c.text}}}
		ops := run(t, redactsecrets.Assemble, window)
		if c.want == "" && len(ops) > 0 || c.want != "" && (len(ops) != 1 || ops[0].Text != c.want) {
			t.Errorf("%q in a window: %v", c.text, ops)
		}
	}
}

func TestRedactSecretsInFields(t *testing.T) {
	const key = "ghp_012345678901234567890123456789012345"
	for name, c := range map[string]struct{ content, spec, want string }{
		"value":        {"x", `{"value":{"a":["` + key + `",1]}}`, `{"value":{"a":["[redacted: token]",1]}}`},
		"a string":     {"x", `{"value":"is \"` + key + `\""}`, `{"value":"is \"[redacted: token]\""}`},
		"a JSON text":  {"x", `{"value":"{\"a/b\":\"` + key + `\"}"}`, `{"value":"{\"a/b\":\"[redacted: token]\"}"}`},
		"a number":     {"x", `{"value":{"card":4111111111111111}}`, `{"value":{"card":"[redacted: card number]"}}`},
		"metadata":     {"x", `{"metadata":{"t":"\n` + key + `"}}`, `{"metadata":{"t":"\n[redacted: token]"}}`},
		"all of them":  {key, `{"metadata":{"t":"` + key + `"},"value":["` + key + `"]}`, `{"content":"[redacted: token]","metadata":{"t":"[redacted: token]"},"value":["[redacted: token]"]}`},
		"a name":       {"x", `{"metadata":{"` + key + `":1}}`, "refuse:secret"},
		"a long text":  {strings.Repeat("x ", 20_000) + key, `{}`, "refuse:secret"},
		"across reads": {strings.Repeat("x ", 8<<10-10) + key, `{}`, "refuse:secret"},
		"a long value": {"x", `{"value":["` + strings.Repeat("x", 40_000) + `"]}`, "refuse:value_too_long"},
		"none":         {"x", `{"metadata":{"t":"x"},"value":["x"]}`, ""},
	} {
		table := candidate(c.content)
		table.Records[0].Spec = c.spec
		got := admitted(t, redactsecrets.Admit, table)
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	table := candidate("x")
	table.Records[0].Memory.Key = "k-" + key
	if got := admitted(t, redactsecrets.Admit, table); got != "refuse:secret" {
		t.Errorf("a secret in the key: %q", got)
	}
}

func TestRedactSecretsInCalls(t *testing.T) {
	const key = "ghp_012345678901234567890123456789012345"
	table := &mnemetest.Table{Records: []mnemetest.Record{
		{Turn: 1, Atom: 1, Role: mneme.Assistant, Kind: mneme.Call, Text: "I use " + key, Calls: []mnemetest.CallOf{
			{Name: "a", Arguments: `{"k":"` + key + `"}`}, {Name: "b", Arguments: `{}`}}},
		{Turn: 1, Atom: 1, Role: mneme.Tool, Kind: mneme.Result, Text: strings.Repeat("x ", 20_000) + key},
	}}
	ops := run(t, redactsecrets.Assemble, table)
	if len(ops) != 3 || ops[0].Text != "I use [redacted: token]" || ops[1].Text != `{"k":"[redacted: token]"}` ||
		ops[2].Code != mneme.OpStub {
		t.Errorf("%v", ops)
	}
	table.Records[1].Role, table.Records[1].Atom, table.Records[1].Kind = mneme.User, 2, mneme.Chat
	if _, err := mnemetest.Run(redactsecrets.Assemble, table); err == nil {
		t.Error("a long message with a secret is shown")
	}
}
