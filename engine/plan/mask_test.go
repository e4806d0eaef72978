package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

func mask(first, last uint32, text string) plan.Op {
	return plan.Op{Code: plan.OpMask, First: first, Last: last, Text: text, Reason: "secret"}
}

// A MASK comes before the other ops of its plan, whatever they do with the records.
func TestMaskComesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		before string
		ops    []plan.Op
		want   string // the shape
	}{
		"alone":          {"ua", []plan.Op{mask(0, 1, "text")}, "xx"},
		"and compressed": {"ua ua", []plan.Op{op(plan.OpCompress, 0, 1), mask(0, 3, "text")}, "Cxx"},
		"and pinned":     {"ua", []plan.Op{op(plan.OpKeep, 0, 1), mask(0, 0, "text")}, "xa"},
		"twice":          {"ua", []plan.Op{mask(0, 1, "text"), mask(0, 0, "ext 0")}, "xx"},
		"nothing found":  {"ua", []plan.Op{mask(0, 1, "none of it")}, "ua"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.Apply(window(c.before), c.ops, 0, source{}, free{})
			if err != nil {
				t.Fatal(err)
			}
			if s := shape(got.Items); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
			for _, it := range got.Items {
				if name != "nothing found" && it.Change != plan.Unchanged && (strings.Contains(it.Text, "text") || !strings.Contains(it.Text, plan.Masked)) {
					t.Errorf("%q is shown", it.Text)
				}
			}
		})
	}
}

func TestMaskRules(t *testing.T) {
	for name, c := range map[string]struct {
		ops  []plan.Op
		want string
	}{
		"too short":        {[]plan.Op{mask(0, 1, "abc")}, "masks a text of 3 bytes"},
		"too long":         {[]plan.Op{mask(0, 1, strings.Repeat("x", 257))}, "masks a text of 257 bytes"},
		"a quote":          {[]plan.Op{mask(0, 1, `say "x"`)}, "a quote"},
		"a backslash":      {[]plan.Op{mask(0, 1, `C:\key`)}, "a quote"},
		"a control":        {[]plan.Op{mask(0, 1, "one\ntwo")}, "control"},
		"what it drops":    {[]plan.Op{mask(0, 1, "text"), op(plan.OpDrop, 1, 1)}, "which the plan drops"},
		"outside the list": {[]plan.Op{mask(0, 9, "text")}, "range"},
	} {
		if _, err := plan.Apply(window("ua"), c.ops, 0, source{}, free{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Arguments that are JSON remain JSON, and no string in them stands for the masked text, however it is written.
func FuzzMaskedArguments(f *testing.F) {
	f.Add(`{"key":"sk-1234","n":123456789,"deep":[{"sk-1234":null}]}`, "sk-1234")
	f.Add(`{"key":"s\u006b-1234 \"and\" more"}`, "sk-1234")
	f.Add(`[4111111111111111, -4111111111111111e4, true]`, "4111111111111111")
	f.Add(`not JSON: {"sk-1234"`, "sk-1234")
	f.Add(`"sk-1234"`, "sk-1234")
	f.Add(`{"a":"\ud83d\ude00 sk-1234 \\"}`, "sk-1234")
	f.Fuzz(func(t *testing.T, arguments, secret string) {
		if strings.Contains(plan.Masked, secret) || len(secret) < 4 || len(secret) > 256 || strings.ContainsAny(secret, "\"\\\x00") {
			return
		}
		masked, err := plan.MaskedArguments(arguments, secret)
		if err != nil {
			return // not a text that can be masked
		}
		if !json.Valid([]byte(arguments)) {
			if strings.Contains(strings.ReplaceAll(masked, plan.Masked, "\x00"), secret) {
				t.Errorf("%q without %q: %q", arguments, secret, masked)
			}
			return
		}
		var value any
		dec := json.NewDecoder(strings.NewReader(masked))
		dec.UseNumber()
		if err := dec.Decode(&value); err != nil {
			t.Fatalf("%q without %q is no JSON: %q", arguments, secret, masked)
		}
		walk(value, func(s string) {
			if strings.Contains(strings.ReplaceAll(s, plan.Masked, "\x00"), secret) {
				t.Errorf("%q without %q: %q", arguments, secret, masked)
			}
		})
	})
}

// walk visits all strings, names and numbers of a JSON value.
func walk(value any, visit func(string)) {
	switch v := value.(type) {
	case string:
		visit(v)
	case json.Number:
		visit(v.String())
	case []any:
		for _, e := range v {
			walk(e, visit)
		}
	case map[string]any:
		for name, e := range v {
			visit(name)
			walk(e, visit)
		}
	}
}
