package prefix_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, a, b string
		equal      bool
	}{
		{"white space and order", `{"type":"text","text":"a b"}`, "{ \"text\" : \"a b\",\n\"type\":\"text\" }", true},
		{"escapes", `{"t":"é\u0041\n"}`, `{"t":"\u00e9A\u000a"}`, true},
		{"a breakpoint", `{"t":"a","cache_control":{"type":"ephemeral"}}`, `{"t":"a"}`, true},
		{"a breakpoint inside", `{"content":[{"t":"a","cache_control":{"x":[1]}},2]}`, `{"content":[{"t":"a"},2]}`,
			true},
		{"a breakpoint among arguments", `{"input":{"cache_control":1}}`, `{"input":{}}`, false},
		{"order of arguments", `{"input":{"a":1,"b":2}}`, `{"input":{"b":2,"a":1}}`, false},
		{"white space among arguments", `{"input":{"a":1,"b":2}}`, `{"input": {"a": 1, "b":2}}`, true},
		{"another text", `{"t":"a"}`, `{"t":"b"}`, false},
		{"a text and a number", `["1"]`, `[1]`, false},
		{"where an array ends", `[["a"],"b"]`, `[["a","b"]]`, false},
		{"where an object ends", `{"a":{"b":1},"c":2}`, `{"a":{"b":1,"c":2}}`, false},
		{"an escaped name", `{"cache\u005fcontrol":1}`, `{"cache_control":1}`, true},
		{"numbers as written", `[1.0]`, `[1]`, false},
	} {
		if got := prefix.Digest([]byte(tt.a)) == prefix.Digest([]byte(tt.b)); got != tt.equal {
			t.Errorf("%s: %s and %s: equal %t, want %t", tt.name, tt.a, tt.b, got, tt.equal)
		}
	}
	if prefix.Text("a\n\"é") != prefix.Digest([]byte(`{"type":"text","text":"a\n\"\u00e9"}`)) {
		t.Error("Text and Digest differ")
	}
}

// FuzzDigest checks that a value has the same digest after encoding/json has encoded it again, with sorted members and
// without white space.
func FuzzDigest(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"\u00e9","cache_control":1}],"c":null}`, `[]`, `"\"\\"`, `{"input":{"z":1,"a":2}}`,
		`{"a":{"a":{"a":{}}},"":[[],{}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var v any
		if !json.Valid(raw) || d.Decode(&v) != nil || twice(raw) || bytes.Contains(raw, []byte("input")) ||
			bytes.Contains(raw, []byte("inp\\u")) {
			return
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if prefix.Digest(raw) != prefix.Digest(again) {
			t.Errorf("%s\n%s", raw, again)
		}
	})
}

// twice reports whether a name appears twice in one object. encoding/json keeps only one of them.
func twice(raw []byte) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	var names []map[string]bool
	name := []bool{}
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		top := len(names) - 1
		switch v := tok.(type) {
		case json.Delim:
			switch v {
			case '{':
				names, name = append(names, map[string]bool{}), append(name, true)
				continue
			case '[':
				names, name = append(names, nil), append(name, false)
				continue
			}
			names, name = names[:top], name[:top]
			top--
		case string:
			if top >= 0 && names[top] != nil && name[top] {
				if names[top][v] {
					return true
				}
				names[top][v] = true
				name[top] = false
				continue
			}
		}
		if top >= 0 && names[top] != nil {
			name[top] = true
		}
	}
}

func TestPlaceIsStored(t *testing.T) {
	t.Parallel()
	w := prefix.Start(prefix.Text("s"), prefix.Text("tools"))
	w.Add(&prefix.Part{Digest: prefix.Text("a")})
	w.Add(&prefix.Part{Digest: prefix.Text("b"), Kind: prefix.Thinking})
	if got := prefix.Parse(w.Append(nil)); got != w.Place {
		t.Errorf("%v, want %v", got, w.Place)
	}
	text, err := json.Marshal(w.Place)
	var got prefix.Place
	if err != nil || json.Unmarshal(text, &got) != nil || got != w.Place {
		t.Errorf("%s: %v", text, err)
	}
	if json.Unmarshal([]byte(`"abc"`), &got) == nil {
		t.Error("a short text was read")
	}
}

// provider applies the documented rule for thinking: a block refers to all messages before it, and to the chain of
// thinking before it, whose beginning may be missing. It stores the messages themselves instead of a hash.
type provider struct {
	messages []string
	chain    []int // the thinking blocks before, by number
}

type call struct {
	made  provider
	place prefix.Place
	known bool // it is known how it was made
}

// TestKeepAgainstModel plays random conversations. Windows drop and edit messages at random, and thinking is kept by
// the rule of Keep. The provider, which compares the messages themselves, refuses none of it, and if nothing was
// changed, no thinking is left out.
func TestKeepAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var said []call // one reply per turn: a thinking block, and a text
		known, kept, cuts := rnd.IntN(4) > 0, 0, 0
		for turn := range 40 {
			from, edited := 0, -1
			if turn > 5 && rnd.IntN(3) == 0 {
				from = rnd.IntN(turn)
				cuts++
			}
			if turn > 0 && rnd.IntN(8) == 0 {
				edited = rnd.IntN(turn)
				cuts++
			}
			w := prefix.Start(prefix.Text("system"), prefix.Hash{})
			var blocks []prefix.Block
			var texts []string
			var ids []int
			say := func(text string) {
				texts = append(texts, text)
				w.Add(&prefix.Part{Digest: prefix.Text(text)})
			}
			states := make([]int, 0, turn) // number of messages before each block
			for i := from; i < turn; i++ {
				say(fmt.Sprint("question ", i, i == edited))
				part := prefix.Part{Digest: prefix.Text(fmt.Sprint("thinking ", i)), Kind: prefix.Thinking}
				b := prefix.Block{Now: w.Place, ID: part.ID()}
				if said[i].known {
					b.Made = said[i].place
				}
				blocks, ids, states = append(blocks, b), append(ids, i), append(states, len(texts))
				say(fmt.Sprint("answer ", i))
			}
			keep := prefix.Keep(nil, blocks, from == 0 && edited < 0 && cuts == 0)
			var chain []int
			var last uint64
			for i, ok := range keep {
				if !ok {
					continue
				}
				kept++
				made := &said[ids[i]].made
				if !slices.Equal(made.messages, texts[:states[i]]) || len(chain) > 0 &&
					(len(chain) > len(made.chain) || !slices.Equal(chain, made.chain[len(made.chain)-len(chain):])) {
					t.Fatalf("seed %d, turn %d: the provider refuses block %d: behind %v and %v, made behind %v and %v", seed,
						turn, ids[i], texts[:states[i]], chain, made.messages, made.chain)
				}
				chain = append(chain, ids[i])
				last = blocks[i].ID
			}
			if cuts == 0 && len(chain) != turn {
				t.Fatalf("seed %d, turn %d: %d thinking blocks of %d were left out of an unchanged transcript", seed, turn,
					turn-len(chain), turn)
			}
			say(fmt.Sprint("question ", turn, false))
			place := w.Place
			place.Thought = last
			said = append(said, call{provider{texts, chain}, place, known || rnd.IntN(2) == 0})
		}
		if kept == 0 {
			t.Fatalf("seed %d: no thinking was kept", seed)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	raw := []byte(`{"role":"user","content":"` + string(bytes.Repeat([]byte("word "), 80)) + `"}`)
	b.ReportAllocs()
	for b.Loop() {
		prefix.Digest(raw)
	}
}

func BenchmarkWalk(b *testing.B) {
	p := prefix.Part{Digest: prefix.Text("a")}
	w := prefix.Start(p.Digest, p.Digest)
	b.ReportAllocs()
	for b.Loop() {
		w.Add(&p)
	}
}

func TestTraceIsStored(t *testing.T) {
	t.Parallel()
	place := prefix.Start(prefix.Text("s"), prefix.Hash{}).Place
	for _, want := range []prefix.Trace{{Parts: []uint32{}}, {Parts: []uint32{1, 2, 3}, Stored: 2, Tokens: 1 << 40, End: place,
		Replies: []prefix.Reply{{ID: 1, Made: place}, {ID: 2}}}} {
		b := want.Append(nil)
		got, err := prefix.ParseTrace(b)
		if err != nil || fmt.Sprint(*got) != fmt.Sprint(want) {
			t.Errorf("%v: %v", got, err)
		}
		for i := range b {
			if _, err := prefix.ParseTrace(b[:i]); err == nil {
				t.Errorf("%d bytes of %d were read", i, len(b))
			}
		}
	}
	for _, tt := range []struct {
		a, b []uint32
		want int
	}{{nil, nil, 0}, {[]uint32{1, 2}, []uint32{1, 2, 3}, 2}, {[]uint32{1, 2, 3}, []uint32{1, 9, 3}, 1}, {[]uint32{1}, nil, 0}} {
		if got := (&prefix.Trace{Parts: tt.a}).Shared(tt.b); got != tt.want {
			t.Errorf("%v and %v share %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
