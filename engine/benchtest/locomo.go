package benchtest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Conversation is one of LoCoMo's: sessions of turns, and questions with the turns that answer them.
type Conversation struct {
	Turns     []LocomoTurn
	Questions []LocomoQuestion
}

// LocomoTurn is what one speaker said.
type LocomoTurn struct {
	ID, Session, Text string
	At                time.Time
}

// LocomoQuestion names the turns that answer it. Its Category is a number that LocomoCategory names.
type LocomoQuestion struct {
	Text     string
	Gold     []string
	Category int
}

// LocomoCategory names the categories of questions that have an answer in the conversation; "" for any other.
func LocomoCategory(n int) string {
	names := [...]string{1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
	if n < 1 || n >= len(names) {
		return ""
	}
	return names[n]
}

// ReadLocomo reads the conversations from the folder that MNEME_TESTDATA names, and skips the test where it names none.
func ReadLocomo(t testing.TB) []Conversation {
	t.Helper()
	folder := os.Getenv("MNEME_TESTDATA")
	if folder == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("MNEME_TESTDATA must name the folder of locomo5.json")
		}
		t.Skip("MNEME_TESTDATA names no folder with locomo5.json")
	}
	b, err := os.ReadFile(filepath.Join(folder, "locomo5.json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw []struct {
		Conversation map[string]json.RawMessage
		QA           []struct {
			Question string
			Evidence []string
			Category int
		}
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		t.Fatal(err)
	}
	var out []Conversation
	for _, r := range raw {
		c, known := Conversation{}, map[string]bool{}
		for s := 1; r.Conversation[fmt.Sprint("session_", s)] != nil; s++ {
			var turns []struct {
				ID   string `json:"dia_id"`
				Text string `json:"text"`
			}
			var when string
			if err := json.Unmarshal(r.Conversation[fmt.Sprint("session_", s)], &turns); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(r.Conversation[fmt.Sprintf("session_%d_date_time", s)], &when); err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse("3:04 pm on 2 January, 2006", when)
			if err != nil {
				t.Fatal(err)
			}
			for _, turn := range turns {
				c.Turns = append(c.Turns, LocomoTurn{turn.ID, fmt.Sprint("s", s), turn.Text, at})
				known[turn.ID] = true
			}
		}
		for _, q := range r.QA {
			gold := slices.DeleteFunc(q.Evidence, func(id string) bool { return !known[id] })
			if slices.Sort(gold); LocomoCategory(q.Category) != "" && len(gold) > 0 {
				c.Questions = append(c.Questions, LocomoQuestion{q.Question, slices.Compact(gold), q.Category})
			}
		}
		out = append(out, c)
	}
	return out
}

// Measured sums up how well rankings found the gold.
type Measured struct {
	n, at5, at10, at20, ndcg float64
}

// At10 is the share of the gold among the first ten, in per cent.
func (m *Measured) At10() float64 { return 100 * m.at10 / m.n }

// Add takes one ranking of turns up.
func (m *Measured) Add(gold, ranked []string) {
	m.n++
	best, got := 0.0, 0.0
	for i := range min(len(gold), 10) {
		best += 1 / math.Log2(float64(i+2))
	}
	share := 1 / float64(len(gold))
	for i, id := range ranked[:min(len(ranked), 20)] {
		if !slices.Contains(gold, id) {
			continue
		}
		if m.at20 += share; i < 10 {
			m.at10 += share
			got += 1 / math.Log2(float64(i+2))
		}
		if i < 5 {
			m.at5 += share
		}
	}
	m.ndcg += got / best
}

func (m *Measured) String() string {
	return fmt.Sprintf("%4.0f questions  R@5 %.1f  R@10 %.1f  R@20 %.1f  NDCG@10 %.1f", m.n, 100*m.at5/m.n, 100*m.at10/m.n,
		100*m.at20/m.n, 100*m.ndcg/m.n)
}
