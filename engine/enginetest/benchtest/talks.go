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

// Talk is a conversation of several sessions, and questions with the turns that answer them.
type Talk struct {
	Turns     []Turn
	Questions []Question
}

// Turn is a message of one speaker.
type Turn struct {
	ID, Session, Role, Speaker, Text string
	At                               time.Time
}

// Question names the turns that answer it, and its kind.
type Question struct {
	Text, Kind string
	Gold       []string
}

// Adversarial is the kind of LoCoMo's questions that are put wrongly, about the other speaker. Their turns are to be
// found all the same, but they are not counted among the others.
const Adversarial = "adversarial"

// locomoKinds are LoCoMo's names of its categories.
var locomoKinds = [...]string{1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: Adversarial}

// readData reads a file in the folder that MNEME_TESTDATA names, and skips the test if it is not set.
func readData(t testing.TB, name string, into any) {
	t.Helper()
	folder := os.Getenv("MNEME_TESTDATA")
	if folder == "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("MNEME_TESTDATA must name the folder of %s", name)
		}
		t.Skipf("MNEME_TESTDATA names no folder with %s", name)
	}
	b, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

// ReadBeam reads the long talks with an assistant that BEAM has questions about.
func ReadBeam(t testing.TB) (out []Talk) {
	t.Helper()
	var raw []struct {
		Turns []struct {
			ID                  int
			Session, Role, Text string
			At                  time.Time
		}
		Questions []struct {
			Question, Ability string
			Evidence          []int
		}
	}
	readData(t, "beam10.json", &raw)
	for _, r := range raw {
		var talk Talk
		for _, turn := range r.Turns {
			talk.Turns = append(talk.Turns, Turn{ID: fmt.Sprint(turn.ID), Session: turn.Session, Role: turn.Role,
				Text: turn.Text, At: turn.At})
		}
		for _, q := range r.Questions {
			var gold []string
			for _, id := range q.Evidence {
				gold = append(gold, fmt.Sprint(id))
			}
			talk.Questions = append(talk.Questions, Question{q.Question, q.Ability, gold})
		}
		out = append(out, talk)
	}
	return out
}

// ReadLocomo reads LoCoMo's conversations between two people.
func ReadLocomo(t testing.TB) []Talk {
	t.Helper()
	var raw []struct {
		Conversation map[string]json.RawMessage
		QA           []struct {
			Question string
			Evidence []string
			Category int
		}
	}
	readData(t, "locomo5.json", &raw)
	var out []Talk
	for _, r := range raw {
		c, known := Talk{}, map[string]bool{}
		for s := 1; r.Conversation[fmt.Sprint("session_", s)] != nil; s++ {
			var turns []struct {
				ID            string `json:"dia_id"`
				Speaker, Text string
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
				c.Turns = append(c.Turns, Turn{ID: turn.ID, Session: fmt.Sprint("s", s),
					Role: []string{"user", "assistant"}[len(c.Turns)%2], Speaker: turn.Speaker, Text: turn.Text, At: at})
				known[turn.ID] = true
			}
		}
		for _, q := range r.QA {
			gold := slices.DeleteFunc(q.Evidence, func(id string) bool { return !known[id] })
			slices.Sort(gold)
			if q.Category > 0 && q.Category < len(locomoKinds) && len(gold) > 0 {
				c.Questions = append(c.Questions, Question{q.Question, locomoKinds[q.Category], slices.Compact(gold)})
			}
		}
		out = append(out, c)
	}
	return out
}

// Measured sums up how well rankings found the gold.
type Measured struct {
	n, at5, at10, at20, ndcg, mrr float64
}

// Questions is how many rankings were counted.
func (m *Measured) Questions() int { return int(m.n) }

// MRR is the mean reciprocal rank, in per cent, of the first relevant turn among the first twenty.
func (m *Measured) MRR() float64 { return 100 * m.mrr / m.n }

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
	first := true
	for i, id := range ranked[:min(len(ranked), 20)] {
		if !slices.Contains(gold, id) {
			continue
		}
		if first {
			m.mrr += 1 / float64(i+1)
			first = false
		}
		m.at20 += share
		if i < 10 {
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
