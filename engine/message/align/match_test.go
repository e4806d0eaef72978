package align_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/align"
)

// said is a message in a test conversation: role, text, and call id.
type said [3]string

func (m said) hash() align.Hash {
	h := align.Hash{}
	for _, part := range m {
		for _, c := range []byte(part) {
			h = align.Roll(h, align.Hash{c, 1})
		}
		h = align.Roll(h, align.Hash{})
	}
	return h
}

// list implements align.Side.
type list struct {
	said   []said
	hashes []align.Hash
}

func listOf(said []said) list {
	l := list{said: said, hashes: make([]align.Hash, len(said))}
	for i, m := range said {
		l.hashes[i] = m.hash()
	}
	return l
}

func (l list) Hashes() []align.Hash  { return l.hashes }
func (l list) Role(i int) align.Role { return align.Role(l.said[i][0][0]) }
func (l list) Content(i int) (c align.Content) {
	return align.Content{Role: l.Role(i), Text: l.said[i][1], Call: l.said[i][2]}
}

func (l list) Size(i int) int {
	if l.said[i][2] != "" {
		return 64
	}
	return min(len(l.said[i][1]), 200)
}

// line implements align.Line.
type line struct {
	list
	turns []uint32
	dead  []bool
	edits []int
	edge  align.Edge
	same  bool
}

func (l line) Turn(i int) uint32 { return l.turns[i] }
func (l line) Living(i int) bool { return !l.dead[i] }
func (l line) Edits(i int) int   { return l.edits[i] }
func (l line) Edge() align.Edge  { return l.edge }
func (l line) Same() bool        { return l.same }

// recorded is a comparison made by the model of the rule. A stored message is [role, text, call, turn, living, edits].
type recorded struct {
	Seed int
	S    [][6]any
	R    []said
	Edge [3]int
	Same bool
	Out  *struct {
		Case    align.Case
		E, F    int
		Changes [][2]any `json:"ch"`
		Gaps    [][2]int
		Own     int
		Loss    int
		Score   int
	}
}

func (r *recorded) line() line {
	l := line{edge: align.Edge{From: r.Edge[0], To: r.Edge[1], Moves: r.Edge[2]}, same: r.Same}
	var all []said
	for _, m := range r.S {
		all = append(all, said{m[0].(string), m[1].(string), m[2].(string)})
		l.turns = append(l.turns, uint32(m[3].(float64)))
		l.dead = append(l.dead, m[4].(float64) == 0)
		l.edits = append(l.edits, int(m[5].(float64)))
	}
	l.list = listOf(all)
	return l
}

// outcome describes what was found in one line.
func outcome(a *align.Aligned, request []said) string {
	if a == nil {
		return "none"
	}
	out := fmt.Sprint(a.Case, " ", a.Keep, " ", a.New, " own ", len(a.Own), " missing ", a.Missing, " changes")
	for _, p := range a.Changes {
		out += fmt.Sprint(" ", p.Stored, request[p.Request])
	}
	return out
}

func (r *recorded) want() string {
	if r.Out == nil {
		return "none"
	}
	a := &align.Aligned{Case: r.Out.Case, Keep: r.Out.E, New: r.Out.F, Own: make([]int, r.Out.Own)}
	for _, g := range r.Out.Gaps {
		a.Missing = append(a.Missing, align.Run{From: g[0], To: g[1]})
	}
	var request []said
	for i, c := range r.Out.Changes {
		m := c[1].([]any)
		request = append(request, said{m[0].(string), m[1].(string), m[2].(string)})
		a.Changes = append(a.Changes, align.Pair{Stored: int(c[0].(float64)), Request: i})
	}
	return outcome(a, request)
}

// TestHistoriesEqualModel compares requests with stored lines as the model of the rule did. The model's results are from
// random conversations with clients that trim, summarise, edit, delete and decorate. MNEME_COMPARED may name a longer
// recording.
func TestHistoriesEqualModel(t *testing.T) {
	file, err := os.Open(cmp.Or(os.Getenv("MNEME_COMPARED"), "testdata/compared.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(nil, 1<<20)
	compared, wrong := map[align.Case]int{}, 0
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		got := align.Compare(r.line(), listOf(r.R))
		if g, w := outcome(got, r.R), r.want(); g != w {
			if wrong++; wrong <= 3 {
				t.Errorf("seed %d:\n got %s\nwant %s\nline %v edge %v same %t\nrequest %v", r.Seed, g, w, r.S, r.Edge, r.Same, r.R)
			}
			continue
		}
		if got == nil {
			compared[align.None]++
			continue
		}
		compared[got.Case]++
		if got.Loss != r.Out.Loss {
			t.Errorf("seed %d: a loss of %d, wanted %d", r.Seed, got.Loss, r.Out.Loss)
		}
	}
	t.Log(compared, wrong, "wrong")
	for _, c := range []align.Case{align.Extend, align.Rewind, align.Diverge, align.Edit, align.Gap, align.Tail, align.Front, align.None} {
		if compared[c] < 30 {
			t.Errorf("only %d comparisons are %s", compared[c], c)
		}
	}
}

// FuzzAlign checks that pairs are of equal messages, that no two cross, and that they include the common prefix.
func FuzzAlign(f *testing.F) {
	f.Add([]byte("abcdef"), []byte("abxdef"))
	f.Add([]byte("aabbaabb"), []byte("bbaa"))
	f.Add([]byte(""), []byte("a"))
	f.Fuzz(func(t *testing.T, stored, request []byte) {
		hashes := func(b []byte) (out []align.Hash) {
			for _, c := range b {
				out = append(out, align.Hash{c})
			}
			return out
		}
		s, r := hashes(stored), hashes(request)
		pairs := align.Align(s, r)
		last := align.Pair{Stored: -1, Request: -1}
		for _, p := range pairs {
			if p.Stored <= last.Stored || p.Request <= last.Request || s[p.Stored] != r[p.Request] {
				t.Fatalf("%q %q: %v", stored, request, pairs)
			}
			last = p
		}
		for i := 0; i < min(len(s), len(r)) && s[i] == r[i]; i++ {
			if pairs[i] != (align.Pair{Stored: i, Request: i}) {
				t.Fatalf("%q %q: %v", stored, request, pairs)
			}
		}
		if slices.Equal(s, r) && len(pairs) != len(s) {
			t.Fatalf("%q: %v", stored, pairs)
		}
	})
}
