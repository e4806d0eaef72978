package rank

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func randomPostings(r *rand.Rand, n int) []Posting {
	seen := map[Place]bool{}
	var out []Posting
	for len(out) < n {
		at := Place{Namespace: []uint64{0, 0, r.Uint64()}[r.IntN(3)], Stream: []uint64{0, 7, 1 << 63, r.Uint64()}[r.IntN(4)], Pos: r.Uint64N(1 << (1 + r.IntN(62)))}
		p := Posting{Place: at, Count: 1 + r.Uint32N(1<<r.IntN(31)), Len: r.Uint32(), Day: uint16(r.Uint32()),
			Attrs: Attrs(r.Uint32N(1<<22) * r.Uint32N(2))}
		if !seen[p.Place] {
			seen[p.Place] = true
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Posting) int { return a.Compare(b.Place) })
	return out
}

// Decoding returns what was encoded.
func TestBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 300 {
		want := randomPostings(r, n)
		var begin Place
		if n > 0 && r.IntN(2) == 0 {
			begin = want[0].Place
		}
		got, err := ReadBlock(nil, begin, AppendBlock(nil, begin, want))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d postings: %v, %v", n, len(got), err)
		}
	}
}

// Bytes that are not a block are rejected, or read as one, without a panic.
func FuzzReadBlock(f *testing.F) {
	some := randomPostings(rand.New(rand.NewPCG(1, 2)), 9)
	f.Add(AppendBlock(nil, Place{}, some))
	f.Add(AppendBlock(nil, Place{}, []Posting{some[0], some[0], some[1]})) // a place twice
	f.Fuzz(func(t *testing.T, b []byte) {
		if ps, err := ReadBlock(nil, Place{}, b); err == nil {
			again, err := ReadBlock(nil, Place{}, AppendBlock(nil, Place{}, ps))
			if err != nil || !slices.Equal(again, ps) {
				t.Fatalf("%v are %v when packed again: %v", ps, again, err)
			}
		}
	})
}

// Numbers are read as by binary.Uvarint.
func TestNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for range 20_000 {
		b := make([]byte, r.IntN(12))
		for i := range b {
			b[i] = byte(r.Uint32()) | byte(r.IntN(4)/3^1)<<7 // mostly long numbers
		}
		want, n := binary.Uvarint(b)
		in := reader{b: b}
		got := in.uvarint()
		if n <= 0 && (!in.bad || got != 0) || n > 0 && (in.bad || got != want || in.at != n) {
			t.Fatalf("%x is %d, bad %v, and %d of %d bytes by binary", b, got, in.bad, want, n)
		}
	}
}

// Postings of several terms are merged as if each document had had all its occurrences in one.
func TestUnite(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	var buffer Buffer
	for range 2000 {
		counts := map[Place]uint32{}
		var list []Posting
		for range r.IntN(4) {
			before := len(list)
			for _, p := range randomPostings(r, r.IntN(20)) {
				p.Stream, p.Pos, p.Count = p.Stream%2, p.Pos%64, p.Count%8
				list = append(list, p)
			}
			slices.SortFunc(list[before:], func(a, b Posting) int { return a.Compare(b.Place) })
			single := slices.CompactFunc(list[before:], func(a, b Posting) bool { return a.Place == b.Place })
			list = list[:before+len(single)]
			for _, p := range list[before:] {
				counts[p.Place] += p.Count
			}
			list = buffer.Unite(list, before)
		}
		if !slices.IsSortedFunc(list, func(a, b Posting) int { return a.Compare(b.Place) }) || len(list) != len(counts) {
			t.Fatalf("%d postings of %d documents: %v", len(list), len(counts), list)
		}
		for _, p := range list {
			if p.Count != counts[p.Place] {
				t.Fatalf("%v has %d occurrences, want %d", p.Place, p.Count, counts[p.Place])
			}
		}
	}
}

// Blocks to which postings are added, and from which some are removed, contain the same as a sorted list, in order and
// in blocks that are not too large.
func TestMergeEqualsSortedList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	var blocks [][]Posting
	var model []Posting
	all := randomPostings(r, 6000)
	byPlace := func(a, b Posting) int { return a.Compare(b.Place) }
	for len(all) > 0 {
		n := min(1+r.IntN(400), len(all))
		if r.IntN(2) == 0 { // otherwise they come from where the last ones were
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		added := slices.Clone(all[:n])
		slices.SortFunc(added, byPlace)
		all = all[n:]
		model = append(model, added...)
		slices.SortFunc(model, byPlace)
		if len(blocks) == 0 {
			blocks = Merge(nil, added)
		} else {
			var next [][]Posting
			for i, block := range blocks {
				upTo := len(added)
				if i+1 < len(blocks) {
					upTo, _ = slices.BinarySearchFunc(added, blocks[i+1][0].Place, Posting.Compare)
				}
				next = append(next, Merge(block, added[:upTo])...)
				added = added[upTo:]
			}
			blocks = next
		}
		gone := model[r.IntN(len(model))]
		without := func(list []Posting) []Posting {
			return slices.DeleteFunc(list, func(p Posting) bool { return p.Place == gone.Place })
		}
		model = without(model)
		for i := range blocks {
			blocks[i] = without(blocks[i])
			if len(blocks[i]) > BlockSize {
				t.Fatalf("a block of %d", len(blocks[i]))
			}
		}
		blocks = slices.DeleteFunc(blocks, func(b []Posting) bool { return len(b) == 0 })
		if got := slices.Concat(blocks...); !slices.Equal(got, model) {
			t.Fatalf("%d postings in blocks, %d in the list, or in another order", len(got), len(model))
		}
	}
}

func TestDocuments(t *testing.T) {
	want := &Document{Place: Place{3, 1, 2}, ID: "key", Number: 9, Category: Daily, Session: "s", Group: "chat", Speaker: "Ann",
		Assistant: true, Style: Style{Asks: true, Said: 1 << 63},
		Tags: []string{"a", "b"}, Importance: 1, Created: time.UnixMilli(1234567).UTC(), Expires: time.UnixMilli(99).UTC(), Len: 3,
		Terms: []TermCount{{"a", 1}, {"b", 2}}, Order: []uint16{1, 0, 1}}
	b := want.Append(nil)
	got, err := ReadDocument(want.Place, b, true)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range len(b) - len(want.Order) {
		if _, err := ReadDocument(want.Place, b[:n], true); err == nil {
			t.Errorf("the first %d of %d bytes are read as a document", n, len(b))
		}
	}
	if again := got.Append(nil); !bytes.Equal(again, b) {
		t.Error("packed again it is another")
	}
}

// Terms are encoded by what they share with the previous one, whatever they and their counts are.
func TestTermsOfDocuments(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	for n := range 200 {
		counts := map[string]uint32{}
		for range n {
			counts[randomTerm(r)] = 1 + r.Uint32N(2)*r.Uint32N(1<<r.IntN(31))
		}
		want := &Document{Created: time.UnixMilli(0).UTC(), Terms: []TermCount{}, Order: []uint16{}}
		for _, term := range slices.Sorted(maps.Keys(counts)) {
			want.Terms = append(want.Terms, TermCount{term, counts[term]})
		}
		got, err := ReadDocument(Place{}, want.Append(nil), true)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%d terms: %+v, %v", n, got, err)
		}
	}
}

// randomTerm is often similar to others, and sometimes long.
func randomTerm(r *rand.Rand) string {
	term := make([]byte, r.IntN(1+r.IntN(40)))
	for i := range term {
		term[i] = "ab\x00\xff"[r.IntN(1+r.IntN(4))]
	}
	return string(term)
}

// Bytes that are not a document are rejected, or read as one, without a panic.
func FuzzReadDocument(f *testing.F) {
	doc := &Document{ID: "key", Tags: []string{"a"}, Terms: []TermCount{{"apple", 1}, {"apples", 2}}}
	f.Add(doc.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := ReadDocument(Place{}, b, true); err == nil {
			again, err := ReadDocument(Place{}, d.Append(nil), true)
			if err != nil || len(again.Terms) != len(d.Terms) || again.ID != d.ID {
				t.Fatalf("%+v is %+v when packed again: %v", d, again, err)
			}
		}
	})
}

func TestDates(t *testing.T) {
	for query, want := range map[string][]Date{
		"what happened in May 2023?":     {{2023, time.May, 0}},
		"on 7 May 2023":                  {{2023, time.May, 7}},
		"on May 7th, 2023":               {{2023, time.May, 7}},
		"the 7th of May 2023":            {{2023, time.May, 7}},
		"the 7th of May":                 {{0, time.May, 7}},
		"el 7 de mayo de 2023":           {{2023, time.May, 7}},
		"in May of 2023":                 {{2023, time.May, 0}},
		"2023年5月7日に、2024年12月":            {{2023, time.May, 7}, {2024, time.December, 0}},
		"2023年13月7日":                     nil,
		"2 of us may leave":              nil,
		"2023-05-07":                     {{2023, time.May, 7}},
		"notes of 2023-05":               {{2023, time.May, 0}},
		"the trip of 2022":               {{2022, 0, 0}},
		"in March":                       {{0, time.March, 0}},
		"may I march there":              nil,
		"am 3. Oktober":                  {{0, time.October, 3}},
		"room 2023b, 31 things":          nil,
		"between June 1 and August 2021": {{0, time.June, 1}, {2021, time.August, 0}},
	} {
		if got := Dates(query); !slices.Equal(got, want) {
			t.Errorf("%q names %v, want %v", query, got, want)
		}
	}
}

// A day matches the best of the dates named, and better the closer it is.
func TestMatchOfDates(t *testing.T) {
	day := dayOf(time.Date(2023, 5, 7, 0, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		date Date
		want float64
	}{{Date{2023, 5, 7}, 2}, {Date{2023, 5, 8}, 1.5}, {Date{2022, 5, 7}, 0}, {Date{0, 5, 7}, 1.5}, {Date{0, 5, 0}, 1},
		{Date{2023, 0, 0}, .5}, {Date{2023, 6, 7}, 0}} {
		if got := matchOf([]Date{{1999, 1, 1}, c.date}, day); got != c.want {
			t.Errorf("%v matches %v, want %v", c.date, got, c.want)
		}
	}
}

// Ranking ends when its context is cancelled.
func TestRankEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	words := []Postings{{Word: "a", List: []Posting{{Place: Place{Pos: 1}, Count: 1, Len: 1}}}}
	corpus := Corpus{Documents: 1, Terms: 1}
	if _, err := Rank(ctx, Request{Words: words, Corpus: corpus, Weights: Default}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := Rank(ctx, Request{Words: words, Corpus: corpus, Weights: Default}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A newer hit comes before each older one that it contradicts, whatever their scores are, even if that one comes before
// a still older one.
func TestNewerHitsComeFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 7))
	for range 2000 {
		hits := make([]Hit, 3)
		for i := range hits {
			terms := []TermCount{{"berlin", 1}, {"lives", 1}, {"user", 1}}
			if i == 1 {
				terms[0].Term = "lisbon"
			}
			if i == 2 { // shares more with the previous one than with the first
				terms = []TermCount{{"lisbon", 1}, {"lives", 1}, {"not", 1}}
			}
			hits[i] = Hit{Doc: &Document{Terms: terms, Len: 3, Created: time.Unix(int64(i), 0)},
				Score: float64(r.IntN(1e8)) / 1e8, Why: Why{Terms: []TermShare{{Word: "lives"}}}}
		}
		before := slices.Clone(hits)
		r.Shuffle(len(hits), func(i, j int) { hits[i], hits[j] = hits[j], hits[i] })
		for range 2 { // once for words, and again with vectors
			RaiseNewer(hits)
			if hits[0].Doc != before[2].Doc || hits[1].Doc != before[1].Doc {
				t.Fatalf("%+v, from %+v", hits, before)
			}
		}
		for _, h := range hits {
			if own := before[h.Doc.Created.Unix()].Score; h.Why.Newer < 0 || h.Score < own || h.Score-own-h.Why.Newer > 1e-9 {
				t.Fatalf("%+v was %v", h, own)
			}
		}
	}
}

// What follows what in a document is the same for its decoded terms and for its encoded ones.
func TestFollowsInEncodedDocuments(t *testing.T) {
	r, both := rand.New(rand.NewPCG(5, 5)), 0
	words := strings.Fields("a ab abc abcd b ba bab c ca é éa ~the " + strings.Repeat("long", 20))
	some := func(n int) (out []string) {
		for range n {
			out = append(out, words[r.IntN(len(words))])
		}
		return out
	}
	for range 5000 {
		p := Passages(some(r.IntN(30)), some(r.IntN(3)), nil)[0]
		d := Document{Terms: p.Terms, Order: p.Order, Len: p.Len}
		light, err := ReadDocument(Place{}, d.Append(nil), false)
		if err != nil {
			t.Fatal(err)
		}
		first, second := some(1+r.IntN(2)), some(1+r.IntN(2))
		want := d.follows(first, second)
		if got := light.follows(first, second); got != want {
			t.Fatalf("%q after %q in %v %v: %v, want %v", second, first, d.Terms, d.Order, got, want)
		}
		if !light.complete() || !slices.Equal(light.Terms, d.Terms) || !slices.Equal(light.Order, d.Order) {
			t.Fatalf("%v %v becomes %v %v", d.Terms, d.Order, light.Terms, light.Order)
		}
		if want {
			both++
		}
	}
	if both < 500 {
		t.Errorf("only %d follow", both)
	}
}
