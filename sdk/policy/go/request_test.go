package mneme_test

import (
	"encoding/binary"
	"reflect"
	"slices"
	"strings"
	"testing"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// The policy reads what the table contains.
func TestRequestRoundTrip(t *testing.T) {
	in := &mnemetest.Table{
		Records: []mnemetest.Record{
			{Role: mneme.System, Kind: mneme.Summary, Tokens: 7},
			{Turn: 3, Seq: 1 << 40, Role: mneme.Tool, Kind: mneme.Result, Flags: mneme.ErrorResult | mneme.Mandatory,
				Tokens: 11, CompressedTokens: 12, Text: "héllo", Atom: 13, Delegation: 2, Agent: "main", Tool: "get",
				Tags: []string{"chat", "", "get"}, Created: -5},
			{Turn: 4, Seq: 1<<40 + 1, Role: mneme.User, Atom: 14, Tags: []string{"chat"}},
		},
		BudgetMessages: 50, BudgetTokens: 8000, ViewerDelegation: 2, ViewerAgent: "main", Now: 99, Seed: 1 << 63,
		OlderExist: true, SummaryCovers: 1 << 35, SummaryTokens: 6,
		Config: map[string]any{"i": -3, "f": 0.5, "b": true, "off": false, "s": "word", "none": ""},
	}
	out := &mnemetest.Table{Config: map[string]any{}}
	_, err := mnemetest.Run(func(req *mneme.Request, plan *mneme.Plan) error {
		out.BudgetMessages, out.BudgetTokens = req.BudgetMessages, req.BudgetTokens
		out.ViewerDelegation, out.ViewerAgent = req.ViewerDelegation, strings.Clone(req.String(req.ViewerAgent))
		out.Now, out.Seed, out.OlderExist = req.Now, req.Seed, req.OlderExist()
		out.SummaryCovers, out.SummaryTokens = req.SummaryCovers, req.SummaryTokens
		if req.NewestTurn != 4 {
			t.Errorf("newest turn is %d", req.NewestTurn)
		}
		for i := range req.Len() {
			r := req.Record(i)
			if r.Index != uint32(i) {
				t.Errorf("record %d has index %d", i, r.Index)
			}
			text := make([]byte, r.TextBytes)
			if n := req.Text(i, 0, text); n != len(text) {
				t.Errorf("record %d has a text of %d bytes, header says %d", i, n, len(text))
			}
			var tags []string
			for k := range int(r.TagCount) {
				tags = append(tags, strings.Clone(req.String(req.Tag(r, k))))
			}
			out.Records = append(out.Records, mnemetest.Record{
				Turn: r.Turn, Seq: r.Seq, Role: r.Role, Kind: r.Kind, Flags: r.Flags, Tokens: r.Tokens,
				CompressedTokens: r.CompressedTokens, Text: string(text), Atom: r.Atom, Delegation: r.Delegation,
				Agent: strings.Clone(req.String(r.Agent)), Tool: strings.Clone(req.String(r.Tool)), Tags: tags,
				Created: r.Created,
			})
		}
		if !req.HasTag(req.Record(1), "get") || req.HasTag(req.Record(2), "get") || req.HasTag(req.Record(0), "") {
			t.Error("HasTag is wrong")
		}
		for _, s := range []string{"", "main", "get", "chat"} {
			if id, ok := req.StringID(s); !ok || req.String(id) != s {
				t.Errorf("%q has the id %d, %v", s, id, ok)
			}
		}
		if _, ok := req.StringID("absent"); ok {
			t.Error("a string that the request does not hold has an id")
		}
		out.Config["i"] = int(req.ConfigInt("i", 1))
		out.Config["f"] = req.ConfigFloat("f", 1)
		out.Config["b"] = req.ConfigBool("b", false)
		out.Config["off"] = req.ConfigBool("off", true)
		out.Config["s"] = strings.Clone(req.ConfigString("s", "absent"))
		out.Config["none"] = req.ConfigString("none", "absent")
		return nil
	}, in)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, out) {
		t.Errorf("read\n%+v, want\n%+v", out, in)
	}
}

// Asking for many tags in turn, present and absent, must not mix them up.
func TestHasTag(t *testing.T) {
	tags := []string{"a", "b", "aa", "", "ä"}
	in := &mnemetest.Table{}
	for i := range 1 << len(tags) {
		r := mnemetest.Record{Turn: 1, Atom: uint32(i)}
		for k, tag := range tags {
			if i>>k&1 != 0 {
				r.Tags = append(r.Tags, tag)
			}
		}
		in.Records = append(in.Records, r)
	}
	_, err := mnemetest.Run(func(req *mneme.Request, plan *mneme.Plan) error {
		for i := range req.Len() {
			for _, tag := range append(tags, "absent", "bb") {
				want := slices.Contains(in.Records[i].Tags, tag)
				if got := req.HasTag(req.Record(i), strings.Clone(tag)); got != want {
					t.Errorf("record %d with %q: HasTag(%q) is %v", i, in.Records[i].Tags, tag, got)
				}
			}
		}
		return nil
	}, in)
	if err != nil {
		t.Fatal(err)
	}
}

// An atom ends where the next begins, the last one with the table.
func TestAtomEnd(t *testing.T) {
	in := &mnemetest.Table{}
	for _, atom := range []uint32{4, 5, 5, 5, 6, 6} {
		in.Records = append(in.Records, mnemetest.Record{Turn: 1, Atom: atom})
	}
	_, err := mnemetest.Run(func(req *mneme.Request, plan *mneme.Plan) error {
		for first, end := range map[int]int{0: 1, 1: 4, 4: 6} {
			if got := req.AtomEnd(first); got != end {
				t.Errorf("the atom at %d ends at %d, want %d", first, got, end)
			}
		}
		return nil
	}, in)
	if err != nil {
		t.Fatal(err)
	}
}

func TestConfigAbsentOrOfAnotherType(t *testing.T) {
	in := &mnemetest.Table{Config: map[string]any{"i": 3, "f": 0.5, "b": true, "s": "x"}}
	_, err := mnemetest.Run(func(req *mneme.Request, plan *mneme.Plan) error {
		if n := req.ConfigFloat("i", 9); n != 3 {
			t.Errorf("an integer read as a number is %v", n)
		}
		for _, key := range []string{"i", "f", "b", "s", "absent", ""} {
			if key != "i" && req.ConfigInt(key, 9) != 9 || key != "b" && !req.ConfigBool(key, true) ||
				key != "s" && req.ConfigString(key, "d") != "d" ||
				key != "i" && key != "f" && req.ConfigFloat(key, 9) != 9 {
				t.Errorf("%q is read as another type", key)
			}
		}
		return nil
	}, in)
	if err != nil {
		t.Fatal(err)
	}
}

func TestHostFunctions(t *testing.T) {
	in := &mnemetest.Table{Records: []mnemetest.Record{{Role: mneme.User, Text: "one two",
		Calls: []mnemetest.CallOf{{Name: "find", Arguments: "{}"}, {Name: "move", Arguments: `{"to":1}`}}}}}
	result, err := mnemetest.Run(func(req *mneme.Request, plan *mneme.Plan) error {
		buf := make([]byte, 3)
		if n := req.Text(0, 4, buf); n != 7 || string(buf) != "two" {
			t.Errorf("Text gave %d, %q", n, buf)
		}
		if req.Text(1, 0, buf) != -1 || req.Text(0, 8, buf) != 7 || req.Text(-1, 0, buf) != -1 {
			t.Error("Text outside the table is not -1, or outside the text not its length")
		}
		if n := req.Args(0, 1, 2, buf); n != 8 || string(buf) != "to\"" {
			t.Errorf("Args gave %d, %q", n, buf)
		}
		if n := req.Name(0, 0, buf); n != 4 || string(buf) != "fin" {
			t.Errorf("Name gave %d, %q", n, buf)
		}
		if req.Args(0, 2, 0, buf) != -1 || req.Args(1, 0, 0, buf) != -1 || req.Name(0, -1, buf) != -1 {
			t.Error("a call that is not there has arguments or a name")
		}
		if req.Score(0, "TWO three") != mneme.MaxScore/2 || req.Score(0, "three") != 0 || req.Score(1, "one") != -1 {
			t.Error("Score is wrong")
		}
		if req.Find(0, "two") != 4 || req.Find(0, "three") != -1 || req.Find(1, "") != -1 {
			t.Error("Find is wrong")
		}
		req.Log(mneme.Warn, "careful")
		if n := req.Tokens("12345"); n != 2 {
			t.Errorf("Tokens gave %d", n)
		}
		return nil
	}, in)
	if err != nil {
		t.Fatal(err)
	}
	if want := []mnemetest.LogLine{{Level: mneme.Warn, Line: "careful"}}; !reflect.DeepEqual(result.Log, want) {
		t.Errorf("log is %v", result.Log)
	}
}

// readAll reads everything that a policy can reach without computing an index itself.
func readAll(req *mneme.Request, plan *mneme.Plan) error {
	for i := range req.Len() {
		r := req.Record(i)
		_ = req.String(r.Agent) + req.String(r.Tool)
	}
	_ = req.String(req.ViewerAgent)
	_, _ = req.StringID("absent")
	_ = req.ConfigInt("depth", 1) + int64(len(req.ConfigString("name", "")))
	return nil
}

func TestRequestRefused(t *testing.T) {
	word := func(at int, value uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], value); return b }
	}
	for name, spoil := range map[string]func([]byte) []byte{
		"empty":             func([]byte) []byte { return nil },
		"cut short":         func(b []byte) []byte { return b[:95] },
		"misaligned":        func(b []byte) []byte { return b[1:] },
		"magic":             word(0, 0),
		"major":             word(4, 2<<16),
		"short preamble":    word(8, 104),
		"short record":      word(12, 64),
		"odd record":        word(12, 73),
		"too many records":  word(16, 1<<31),
		"records elsewhere": word(20, 1<<31),
		"odd records":       word(20, 113),
		"too much config":   word(28, 1<<31),
		"strings elsewhere": word(32, 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			request := spoil(table(2).Encode())
			if _, err := mneme.Run(readAll, request, mnemetest.Buffer(64), nil); err == nil {
				t.Error("the request was taken")
			}
		})
	}
}

// A newer minor version may have longer records and a longer preamble.
func TestRequestStepsByRecordSize(t *testing.T) {
	plain := table(2).Encode()
	longer := mnemetest.Buffer(len(plain) + 16)[:0]
	longer = append(longer, plain[:112+72]...)
	longer = append(longer, make([]byte, 8)...)
	longer = append(longer, plain[112+72:112+144]...)
	longer = append(longer, make([]byte, 8)...)
	longer = append(longer, plain[112+144:]...)
	binary.LittleEndian.PutUint32(longer[4:], mneme.Version+1)
	binary.LittleEndian.PutUint32(longer[12:], 80)
	for _, at := range []int{24, 32} {
		binary.LittleEndian.PutUint32(longer[at:], binary.LittleEndian.Uint32(longer[at:])+16)
	}
	_, err := mneme.Run(func(req *mneme.Request, plan *mneme.Plan) error {
		if req.Len() != 2 || req.Record(0).Turn != 1 || req.Record(1).Turn != 2 {
			t.Error("records are read at the wrong places")
		}
		return nil
	}, longer, mnemetest.Buffer(64), nil)
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever the bytes, reading stays inside the request.
func FuzzRequest(f *testing.F) {
	seed := table(3)
	seed.Config = map[string]any{"depth": 3, "name": "x"}
	seed.Records[0].Agent = "a"
	f.Add(seed.Encode())
	f.Add([]byte("MNM1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		request := mnemetest.Buffer(len(data))
		copy(request, data)
		_, _ = mneme.Run(readAll, request, mnemetest.Buffer(64), nil)
	})
}
