package mneme_test

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// table returns a table of n user messages, one per turn.
func table(n int) *mnemetest.Table {
	t := new(mnemetest.Table)
	for i := range n {
		t.Records = append(t.Records, mnemetest.Record{
			Turn: uint32(i + 1), Seq: uint64(i + 1), Role: mneme.User, Atom: uint32(i), Text: "text " + strconv.Itoa(i),
		})
	}
	return t
}

func TestPlanWritesEveryOp(t *testing.T) {
	in := table(9)
	in.Records[3].Role = mneme.Tool
	result, err := mnemetest.Run(func(req *mneme.Request, plan *mneme.Plan) error {
		why := plan.Text("why: it is so")
		plan.Drop(0, 0, why)
		plan.Drop(1, 1, why)
		plan.Compress(2, 2, why)
		plan.Stub(3, 3, why)
		plan.Truncate(4, 5, 40, plan.Text("long"))
		plan.Replace(6, plan.Text("number ").Uint(0).Str(" of ").Uint(18446744073709551615), mneme.Text{})
		plan.Insert(9, plan.Text("the end"), why)
		plan.Summarise(7, 8, why)
		return nil
	}, in)
	if err != nil {
		t.Fatal(err)
	}
	want := []mnemetest.Op{
		{Code: mneme.OpDrop, First: 0, Last: 1, Reason: "why: it is so"},
		{Code: mneme.OpCompress, Template: 1, First: 2, Last: 2, Reason: "why: it is so"},
		{Code: mneme.OpStub, Template: 1, First: 3, Last: 3, Reason: "why: it is so"},
		{Code: mneme.OpTruncate, First: 4, Last: 5, Argument: 40, Reason: "long"},
		{Code: mneme.OpReplace, First: 6, Last: 6, Text: "number 0 of 18446744073709551615"},
		{Code: mneme.OpInsert, First: 9, Last: 9, Text: "the end", Reason: "why: it is so"},
		{Code: mneme.OpSummarise, First: 7, Last: 8, Reason: "why: it is so"},
	}
	if !slices.Equal(result.Ops, want) {
		t.Errorf("ops are\n%v, want\n%v", result.Ops, want)
	}
}

// A policy sees what the stored summary covers, and shows it without asking to extend it.
func TestShowSummary(t *testing.T) {
	in := table(4)
	in.SummaryCovers, in.SummaryTokens = 3, 40
	result, err := mnemetest.Run(func(req *mneme.Request, plan *mneme.Plan) error {
		last := 0
		for i := range req.Len() {
			if req.Record(i).Seq <= req.SummaryCovers {
				last = i
			}
		}
		plan.ShowSummary(0, last, plan.Text("told: in ").Uint(uint64(req.SummaryTokens)).Str(" tokens"))
		return nil
	}, in)
	want := mnemetest.Op{Code: mneme.OpSummarise, First: 0, Last: 2, Argument: mneme.StoredOnly,
		Reason: "told: in 40 tokens"}
	if err != nil || len(result.Ops) != 1 || result.Ops[0] != want {
		t.Errorf("ops are %v, want %v: %v", result.Ops, want, err)
	}
}

func TestDropJoinsOnlyWhatContinuesForTheSameReason(t *testing.T) {
	result, err := mnemetest.Run(func(req *mneme.Request, plan *mneme.Plan) error {
		one := plan.Text("one")
		plan.Drop(0, 1, one)
		plan.Drop(2, 2, one)
		plan.Drop(3, 3, plan.Text("two"))
		plan.Drop(5, 5, plan.Text("two"))
		return nil
	}, table(6))
	if err != nil {
		t.Fatal(err)
	}
	want := []mnemetest.Op{
		{Code: mneme.OpDrop, First: 0, Last: 2, Reason: "one"},
		{Code: mneme.OpDrop, First: 3, Last: 3, Reason: "two"},
		{Code: mneme.OpDrop, First: 5, Last: 5, Reason: "two"},
	}
	if !slices.Equal(result.Ops, want) {
		t.Errorf("ops are %v, want %v", result.Ops, want)
	}
}

func TestPlanWithoutOpsIsEmpty(t *testing.T) {
	result, err := mnemetest.Run(func(req *mneme.Request, plan *mneme.Plan) error {
		plan.Text("unused")
		return nil
	}, table(1))
	if err != nil || len(result.Plan) != 0 {
		t.Errorf("plan of %d bytes, %v", len(result.Plan), err)
	}
}

// Whatever is written into a buffer of any size, the result is a complete plan or an error, and no byte depends on the
// buffer's previous contents.
func FuzzPlanFillsItsBuffer(f *testing.F) {
	f.Add(uint16(0), uint8(1), "a reason")
	f.Add(uint16(6), uint8(1), "")
	f.Add(uint16(9), uint8(1), "x")
	f.Add(uint16(64), uint8(9), "seven b")
	f.Fuzz(func(t *testing.T, words uint16, ops uint8, text string) {
		policy := func(req *mneme.Request, plan *mneme.Plan) error {
			for i := range int(ops) {
				plan.Replace(i, plan.Text(text), mneme.Text{})
			}
			return nil
		}
		clean, dirty := mnemetest.Buffer(int(words)*8), mnemetest.Buffer(int(words)*8)
		for i := range dirty {
			dirty[i] = 0xff
		}
		request := table(int(ops)).Encode()
		n, err := mneme.Run(policy, request, clean, nil)
		m, errDirty := mneme.Run(policy, request, dirty, nil)
		if n != m || (err == nil) != (errDirty == nil) || !bytes.Equal(clean[:n], dirty[:m]) {
			t.Fatalf("what the buffer held shows: %d bytes, %v; %d bytes, %v", n, err, m, errDirty)
		}
		need := 16 + int(ops)*(32+len(text)) + 7
		if err != nil {
			if len(clean) >= need {
				t.Fatalf("%d bytes do not fit %d: %v", need, len(clean), err)
			}
			return
		}
		decoded, err := mnemetest.Decode(clean[:n])
		if err != nil || len(decoded) != int(ops) {
			t.Fatalf("%d ops decoded of %d: %v", len(decoded), ops, err)
		}
		for i, op := range decoded {
			if op.First != i || op.Text != text {
				t.Fatalf("op %d is %v", i, op)
			}
		}
	})
}

func TestPlanRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		policy mneme.Policy
		want   string
	}{
		"the author's error": {func(*mneme.Request, *mneme.Plan) error { return mneme.Error("no tags") }, "no tags"},
		"too many ops": {func(req *mneme.Request, plan *mneme.Plan) error {
			for range 1024 {
				plan.Truncate(0, 0, 1, mneme.Text{})
			}
			return nil
		}, "larger than its buffer"},
		"too much text": {func(req *mneme.Request, plan *mneme.Plan) error {
			plan.Insert(0, plan.Text(strings.Repeat("a", 32<<10)), mneme.Text{})
			return nil
		}, "larger than its buffer"},
		"a text continued behind another": {func(req *mneme.Request, plan *mneme.Plan) error {
			first := plan.Text("first")
			plan.Text("second")
			first.Str("again")
			return nil
		}, "only the newest text"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := mnemetest.Run(c.policy, table(1)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
