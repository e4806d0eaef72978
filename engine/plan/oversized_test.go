package plan_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// long is a source whose rows have texts of given lengths. A message costs ten tokens and one for each byte.
type long struct {
	source
	sizes []int
}

func (l long) RowText(row int32) (string, error) { return strings.Repeat("x", l.sizes[row]), nil }
func (l long) Truncated(it *plan.Item, n int, note string) (plan.Cut, error) {
	text, err := plan.TextOf(it, l)
	text = text[:n] + note
	return plan.Cut{Text: text, Tokens: 10 + uint32(len(text))}, err
}
func (l long) Bare(*plan.Item) (uint32, error) { return 10, nil }
func (l long) TokensWith(_ *plan.Item, text string) (uint32, error) {
	return 10 + uint32(len(text)), nil
}

// tableOf returns a window of mandatory messages with texts of these lengths.
func (l long) tableOf(letters string) []plan.Item {
	items := window(letters)
	for i := range items {
		items[i].Flags |= plan.FlagMandatory
		items[i].Tokens = 10 + uint32(l.sizes[i])
		items[i].TextBytes = uint32(l.sizes[i])
	}
	return items
}

func shownSizes(items []plan.Item, src plan.Source) (sizes []int) {
	for i := range items {
		text, _ := plan.TextOf(&items[i], src)
		sizes = append(sizes, len(text))
	}
	return sizes
}

// Results are cut before the texts of assistants, largest first, to powers of two times 256. If possible, they take at
// most three quarters of the budget.
func TestShorten(t *testing.T) {
	for _, c := range []struct {
		name    string
		letters string
		sizes   []int
		budget  uint32
		want    []int // nil if it cannot fit
	}{
		{"one result", "ucr", []int{10, 0, 9000}, 8000, []int{10, 0, 4096}},
		{"the largest first", "ucrrr", []int{10, 0, 9000, 300, 5000}, 8000, []int{10, 0, 2048, 300, 2048}},
		{"equal ones, the older first", "ucrr", []int{10, 0, 5000, 5000}, 8000, []int{10, 0, 2048, 2048}},
		{"one of them is enough", "ucrr", []int{10, 0, 3500, 3400}, 8000, []int{10, 0, 2048, 3400}},
		{"an assistant's text", "ua", []int{10, 20000}, 8000, []int{10, 4096}},
		{"a text after the results", "ucr", []int{10, 20000, 9000}, 8000, []int{10, 4096, 256}},
		{"a text that fits beside cut results", "ucr", []int{10, 1000, 9000}, 8000, []int{10, 1000, 4096}},
		{"a long question leaves no quarter", "ucr", []int{7000, 0, 9000}, 8000, []int{7000, 0, 512}},
		{"a budget below one length", "ucrr", []int{10, 0, 9000, 9000}, 200, []int{10, 0, 64, 64}},
		{"hardly any room", "ucr", []int{10, 0, 9000}, 45, []int{10, 0, 4}},
		{"a question that does not fit", "ucr", []int{7990, 0, 9000}, 8000, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := long{sizes: c.sizes}
			items := src.tableOf(c.letters)
			before := slices.Clone(items)
			fates, fits, err := plan.Shorten(items, plan.Law{BudgetTokens: c.budget}, src)
			if err != nil || fits != (c.want != nil) {
				t.Fatalf("fits %t, %v", fits, err)
			}
			if !fits {
				return
			}
			if got := shownSizes(items, src); !slices.Equal(got, c.want) {
				t.Errorf("texts of %v became %v, want %v", c.sizes, got, c.want)
			}
			if v := (&plan.Law{BudgetTokens: c.budget}).Check(before, items); v != nil {
				t.Error(v)
			}
			for _, f := range fates {
				if f.Action != plan.Truncate || !strings.HasPrefix(f.Reason, "oversized: ") || f.Step != -1 {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// Afterwards the mandatory messages fit, unless user messages and the fixed costs alone are too much. No user text
// changes, no text grows, and each is cut to a length that the next window computes, too.
func TestShortenHoldsForAll(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	cut, failed := 0, 0
	for range 20_000 {
		letters := []byte("uc")
		for range r.IntN(9) {
			letters = append(letters, 'r')
		}
		if r.IntN(3) == 0 {
			letters = append(letters, 'a')
		}
		src := long{}
		for _, l := range letters {
			size := 1 + r.IntN(1<<r.IntN(18))
			if l == 'u' {
				size = 1 + r.IntN(1<<r.IntN(12))
			}
			src.sizes = append(src.sizes, size)
		}
		budget := uint32(1 + r.IntN(1<<(4+r.IntN(14))))
		items := src.tableOf(string(letters))
		_, fits, err := plan.Shorten(items, plan.Law{BudgetTokens: budget}, src)
		if err != nil {
			t.Fatal(err)
		}
		if _, tokens := (&plan.Law{}).Cost(items, plan.FlagMandatory); fits && tokens > uint64(budget) {
			t.Fatalf("%s of %v takes %d of %d", letters, src.sizes, tokens, budget)
		}
		shown := shownSizes(items, src)
		least := 10*len(letters) + src.sizes[0] + len(letters) - 1
		if !fits {
			failed++
			if least <= int(budget) {
				t.Fatalf("%s of %v: %d are needed at least, %d allowed", letters, src.sizes, least, budget)
			}
			continue
		}
		results, texts := 0, 0
		where := fmt.Sprintf("%s of %v in %d became %v", letters, src.sizes, budget, shown)
		for i, n := range shown {
			if n == src.sizes[i] {
				continue
			}
			cut++
			if letters[i] == 'u' || n > src.sizes[i] || bits.OnesCount(uint(n)) != 1 {
				t.Fatal(where)
			}
			if letters[i] == 'r' {
				results = max(results, n)
			} else {
				texts++
			}
		}
		for i, n := range shown {
			if letters[i] == 'r' && n == src.sizes[i] && n > 2*results && results > 0 {
				t.Fatal(where + ": a larger one was spared")
			}
		}
		if results > plan.ShortLength && texts > 0 {
			t.Fatal(where + ": texts were cut before results")
		}
	}
	if cut < 10_000 || failed < 100 {
		t.Errorf("%d texts were cut, %d tables did not fit", cut, failed)
	}
}
