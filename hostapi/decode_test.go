package hostapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

const testMaxText = 16

var testAsked = asked{minor: abiMinor, maxText: testMaxText}

// one is a plan of a single op with the texts `code: why` at 48 and `text` at 57.
func one(code, template byte, words ...uint32) []byte {
	return planBytes("code: whytext", opBytes(code, template, words...))
}

func TestDecode(t *testing.T) {
	wide := []byte("MNP1")
	wide = binary.LittleEndian.AppendUint32(wide, 2)
	wide = binary.LittleEndian.AppendUint32(wide, 24)
	wide = binary.LittleEndian.AppendUint32(wide, 40)
	wide = append(wide, make([]byte, 8)...)
	for i := range 2 {
		wide = append(append(wide, opBytes(1, 0, uint32(i), uint32(i))...), bytes.Repeat([]byte{0xff}, 8)...)
	}
	for name, c := range map[string]struct {
		plan []byte
		want []plan.Op
	}{
		"nothing":  {nil, nil},
		"no ops":   {planBytes(""), nil},
		"drop":     {one(1, 0, 3, 7, 0, 0, 48, 9), []plan.Op{{Code: 1, First: 3, Last: 7, Reason: "code: why"}}},
		"compress": {one(2, 1, 0, 1), []plan.Op{{Code: 2, Template: 1, Last: 1}}},
		"truncate": {one(3, 0, 2, 2, 0, 0, 0, 0, 99), []plan.Op{{Code: 3, First: 2, Last: 2, Argument: 99}}},
		"stub": {one(4, 1, 5, 5, 0, 0, 48, 4), []plan.Op{{Code: 4, Template: 1, First: 5, Last: 5,
			Reason: "code"}}},
		"replace":     {one(5, 0, 5, 5, 57, 4), []plan.Op{{Code: 5, First: 5, Last: 5, Text: "text"}}},
		"insert":      {one(6, 0, 9, 0, 57, 4), []plan.Op{{Code: 6, First: 9, Text: "text"}}},
		"summarise":   {one(7, 0, 0, 4), []plan.Op{{Code: 7, Last: 4}}},
		"stored only": {one(7, 0, 0, 4, 0, 0, 0, 0, 1), []plan.Op{{Code: 7, Last: 4, Argument: plan.StoredOnly}}},
		"arguments": {one(5, 2, 3, 3, 57, 4, 0, 0, 1), []plan.Op{{Code: 5, Template: 2, First: 3, Last: 3, Text: "text",
			Argument: 1}}},
		"keep":           {one(8, 0, 2, 4, 0, 0, 48, 9), []plan.Op{{Code: 8, First: 2, Last: 4, Reason: "code: why"}}},
		"strip":          {one(9, 0, 2, 4, 0, 0, 0, 0, 9), []plan.Op{{Code: 9, First: 2, Last: 4, Argument: 9}}},
		"short question": {one(2, 1, 0, 1, 0, 0, 0, 0, 32), []plan.Op{{Code: 2, Template: 1, Last: 1, Argument: 32}}},
		"ledger":         {one(10, 0, 0, 4, 0, 0, 0, 0, 800), []plan.Op{{Code: 10, Last: 4, Argument: 800}}},
		"larger steps":   {wide, []plan.Op{{Code: 1}, {Code: 1, First: 1, Last: 1}}},
	} {
		got, err := decode(c.plan, testAsked, reasons{})
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	edit := func(b []byte, at int, v uint32) []byte {
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	for name, c := range map[string]struct {
		plan []byte
		want string // what the author must be told
	}{
		"short header":       {[]byte("MNP1"), "header"},
		"magic":              {edit(one(1, 0), 0, 0x314d4e4d), "magic"},
		"too many ops":       {edit(one(1, 0), 4, 3), "ops_offset"},
		"countless ops":      {edit(one(1, 0), 4, 1<<32-1), "ops_offset"},
		"ops in header":      {edit(one(1, 0), 8, 8), "ops_offset"},
		"ops beyond":         {edit(one(1, 0), 8, 1<<32-16), "ops_offset"},
		"small op_size":      {edit(one(1, 0), 12, 31), "op_size is 31"},
		"no op_size":         {edit(one(1, 0), 12, 0), "op_size is 0"},
		"huge op_size":       {edit(one(1, 0), 12, 1<<32-1), "ops_offset"},
		"op 0":               {one(0, 0), "op 0: op is 0"},
		"op 19":              {one(19, 0), "op 0: op is 19"},
		"op of another hook": {one(11, 0), "op 0: op is 11, REFUSE, which assemble does not take"},
		"op 255":             {one(255, 0), "op 0: op is 255"},
		"replace's template": {one(5, 1), "op 0: template is 1, REPLACE takes 0 or 2"},
		"keep's template":    {one(8, 1), "op 0: template is 1, KEEP takes 0"},
		"argument of a text": {one(5, 0, 0, 0, 57, 4, 0, 0, 1), "op 0: argument is 1, REPLACE takes none"},
		"argument of a keep": {one(8, 0, 0, 0, 0, 0, 0, 0, 1), "op 0: argument is 1"},
		"text of a strip":    {one(9, 0, 0, 0, 57, 4, 0, 0, 1), "op 0: text_length is 4"},
		"second op":          {planBytes("", opBytes(1, 0), opBytes(99, 0)), "op 1: op is 99"},
		"no template":        {one(2, 0), "op 0: template is 0, COMPRESS takes 1"},
		"template":           {one(1, 1), "op 0: template is 1, DROP takes 0"},
		"reserved":           {edit(one(1, 0), 16, 1|1<<16), "op 0: reserved is 1"},
		"argument":           {one(1, 0, 0, 0, 0, 0, 0, 0, 5), "op 0: argument is 5"},
		"text of a drop":     {one(1, 0, 0, 0, 57, 4), "op 0: text_length is 4"},
		"text beyond":        {one(5, 0, 0, 0, 57, 5), "op 0: text_offset 57 and text_length 5"},
		"text wraps":         {one(5, 0, 0, 0, 1<<32-1, 2), "text_offset"},
		"reason beyond":      {one(1, 0, 0, 0, 0, 0, 60, 2), "op 0: reason_offset 60 and reason_length 2"},
		"long reason": {planBytes(strings.Repeat("x", 201), opBytes(1, 0, 0, 0, 0, 0, 48, 201)),
			"reason_length is 201"},
		"text not UTF-8":   {planBytes("\xff", opBytes(5, 0, 0, 0, 48, 1)), "op 0: text is not valid UTF-8"},
		"reason not UTF-8": {planBytes("\xff", opBytes(1, 0, 0, 0, 0, 0, 48, 1)), "op 0: reason is not valid UTF-8"},
	} {
		got, err := decode(c.plan, testAsked, reasons{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, c.want)
		}
	}
}

// A module says in its manifest which version it was written for, and gets what that version had.
func TestDecodeByVersion(t *testing.T) {
	for name, c := range map[string]struct {
		plan  []byte
		since uint32
	}{
		"drop": {one(1, 0), 0}, "replace": {one(5, 0), 0}, "summarise": {one(7, 0), 0},
		"arguments": {one(5, 2), 1}, "keep": {one(8, 0), 1}, "strip": {one(9, 0, 0, 0, 0, 0, 0, 0, 1), 1},
		"compress": {one(2, 1), 0}, "short question": {one(2, 1, 0, 0, 0, 0, 0, 0, 32), 2},
		"ledger": {one(10, 0, 0, 0, 0, 0, 0, 0, 800), 2},
	} {
		for minor := range uint32(4) {
			_, err := decode(c.plan, asked{minor: minor, maxText: testMaxText}, reasons{})
			if (err == nil) != (minor >= c.since) ||
				err != nil && !strings.Contains(err.Error(), fmt.Sprint("manifest's abi is 1.", minor)) {
				t.Errorf("%s with abi 1.%d: %v", name, minor, err)
			}
		}
	}
}

func TestDecodeBoundsTexts(t *testing.T) {
	text := strings.Repeat("x", testMaxText)
	half := opBytes(5, 0, 0, 0, 80, testMaxText/2)
	if _, err := decode(planBytes(text, half, half), testAsked, reasons{}); err != nil {
		t.Errorf("texts that just fit: %v", err)
	}
	_, err := decode(planBytes(text, half, opBytes(5, 0, 0, 0, 80, testMaxText/2+1)), testAsked, reasons{})
	var wrong *planError
	if !errors.As(err, &wrong) || !wrong.quota {
		t.Errorf("one byte more: %v", err)
	}
}

func TestReasonsAreInterned(t *testing.T) {
	known := reasons{}
	ops := make([][]byte, 40)
	for i := range ops {
		ops[i] = opBytes(1, 0, 0, 0, 0, 0, uint32(16+32*len(ops)), 9)
	}
	b := planBytes("code: why", ops...)
	decodeAll := func() {
		if _, err := decode(b, testAsked, known); err != nil {
			t.Fatal(err)
		}
	}
	decodeAll()
	if n := testing.AllocsPerRun(10, decodeAll); n > 1 {
		t.Errorf("%v allocations for 40 ops of one reason, want the slice alone", n)
	}
	for i := range 2 * internEntries {
		known.intern([]byte{byte(i), byte(i >> 8)})
	}
	if len(known) > internEntries {
		t.Errorf("%d reasons are kept", len(known))
	}
}

// Any bytes are refused with an explanation, or decoded to ops that satisfy what the engine relies on.
func FuzzDecode(f *testing.F) {
	f.Add(one(1, 0, 3, 7, 0, 0, 48, 9))
	f.Add(one(5, 0, 5, 5, 57, 4))
	f.Add(planBytes("ab", opBytes(2, 1, 0, 9), opBytes(6, 0, 3, 0, 80, 2, 80, 1), opBytes(7, 0)))
	f.Add(one(5, 2, 5, 5, 57, 4, 0, 0, 3))
	f.Add(planBytes("ab", opBytes(8, 0, 0, 9), opBytes(9, 0, 3, 3, 0, 0, 112, 1, 5), opBytes(8, 0, 1, 9)))
	f.Add(planBytes("ab", opBytes(2, 1, 0, 9, 0, 0, 112, 1, 32), opBytes(1, 0, 10, 11), opBytes(10, 0, 0, 11, 0, 0, 0, 0, 800)))
	f.Add(planBytes(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		ops, err := decode(b, testAsked, reasons{})
		if !bytes.Equal(b, before) {
			t.Fatal("the plan was written to")
		}
		if err != nil {
			if ops != nil || err.Error() == "" {
				t.Fatalf("%d ops beside the error %q", len(ops), err)
			}
			return
		}
		if len(ops) > len(b)/32 {
			t.Fatalf("%d ops from %d bytes", len(ops), len(b))
		}
		texts := 0
		for _, op := range ops {
			texts += len(op.Text)
			if op.Code < plan.OpDrop || op.Code > plan.OpLedger || len(op.Reason) > 200 ||
				!utf8.ValidString(op.Text) || !utf8.ValidString(op.Reason) {
				t.Fatalf("%+v", op)
			}
		}
		if texts > testMaxText {
			t.Fatalf("%d bytes of text", texts)
		}
	})
}
