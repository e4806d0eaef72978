package engine_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
)

// conversation is one of LoCoMo's: sessions of turns, and questions with the turns that answer them.
type conversation struct {
	turns     []locomoTurn
	questions []locomoQuestion
}

type locomoTurn struct {
	id, session, text string
	at                time.Time
}

type locomoQuestion struct {
	text     string
	gold     []string
	category int
}

// locomoCategories are all that have an answer in the conversation.
var locomoCategories = []string{1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}

func readLocomo(t *testing.T) []conversation {
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
	var out []conversation
	for _, r := range raw {
		c, known := conversation{}, map[string]bool{}
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
				c.turns = append(c.turns, locomoTurn{turn.ID, fmt.Sprint("s", s), turn.Text, at})
				known[turn.ID] = true
			}
		}
		for _, q := range r.QA {
			gold := slices.DeleteFunc(q.Evidence, func(id string) bool { return !known[id] })
			if slices.Sort(gold); q.Category < len(locomoCategories) && len(gold) > 0 {
				c.questions = append(c.questions, locomoQuestion{q.Question, slices.Compact(gold), q.Category})
			}
		}
		out = append(out, c)
	}
	return out
}

// measured sums up how well rankings found the gold.
type measured struct {
	n, at5, at10, at20, ndcg float64
}

func (m *measured) add(gold, ranked []string) {
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

func (m *measured) String() string {
	return fmt.Sprintf("%4.0f questions  R@5 %.1f  R@10 %.1f  R@20 %.1f  NDCG@10 %.1f", m.n, 100*m.at5/m.n, 100*m.at10/m.n,
		100*m.at20/m.n, 100*m.ndcg/m.n)
}

// The evidence of LoCoMo's questions is found, with default settings: R@10 of at least 70, where plain BM25 over the
// same words has about 58. Each turn is a message of a session, or a memory that names its session.
func TestLocomo(t *testing.T) {
	conversations := readLocomo(t)
	ways := []struct {
		name string
		ask  func(k *kit, c *conversation, project string) func(question string) []string
		want float64
	}{
		{"plain BM25", plainBM25, 0},
		{"transcript", locomoTranscript, 70},
		{"memories", locomoMemories, 70},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			k := newKit(t)
			all, by := &measured{}, make([]measured, len(locomoCategories))
			for i := range conversations {
				c := &conversations[i]
				ask := way.ask(k, c, fmt.Sprint("p", i))
				for _, q := range c.questions {
					ranked := ask(q.text)
					all.add(q.gold, ranked)
					by[q.category].add(q.gold, ranked)
				}
			}
			t.Logf("%-11s %v", "all", all)
			for i, name := range locomoCategories[1:] {
				t.Logf("%-11s %v", name, &by[i+1])
			}
			if got := 100 * all.at10 / all.n; got < way.want {
				t.Errorf("R@10 is %.1f, want at least %.0f", got, way.want)
			}
		})
	}
}

func locomoTranscript(k *kit, c *conversation, project string) func(string) []string {
	if _, _, err := k.PutProject(k.Context(), k.admin, project, engine.ProjectSpec{}); err != nil {
		k.Fatal(err)
	}
	ids := map[string]string{}
	for i, turn := range c.turns {
		role := []string{"user", "assistant"}[i%2]
		m, _ := json.Marshal(map[string]any{"role": role, "content": turn.text, "created_at": turn.at})
		r, err := k.AppendTurn(k.Context(), k.admin, engine.Once{}, project,
			engine.TurnRequest{SessionID: turn.session, Messages: []json.RawMessage{m}})
		if err != nil {
			k.Fatal(err)
		}
		ids[r.Messages[0].ID] = turn.id
	}
	return func(question string) (out []string) {
		r, err := k.Recall(k.Context(), k.admin, project, engine.RecallQuery{Query: question, Scope: "transcript", Limit: 20})
		if err != nil || r.Incomplete {
			k.Fatalf("incomplete %v: %v", r.Incomplete, err)
		}
		k.drain()
		for _, h := range r.Data {
			out = append(out, ids[h.MessageID])
		}
		return out
	}
}

func locomoMemories(k *kit, c *conversation, project string) func(string) []string {
	if _, _, err := k.PutProject(k.Context(), k.admin, project, engine.ProjectSpec{}); err != nil {
		k.Fatal(err)
	}
	for _, turn := range c.turns {
		k.mu.Lock()
		k.now = turn.at
		k.mu.Unlock()
		if _, _, err := k.StoreMemory(k.Context(), k.admin, engine.Once{}, project, engine.MemorySpec{Key: turn.id,
			Content: turn.text, Category: "conversation", SessionID: turn.session}); err != nil {
			k.Fatal(err)
		}
	}
	k.drain()
	return func(question string) (out []string) {
		r, err := k.Recall(k.Context(), k.admin, project, engine.RecallQuery{Query: question, Limit: 20})
		if err != nil {
			k.Fatal(err)
		}
		for _, h := range r.Data {
			out = append(out, h.Key)
		}
		return out
	}
}

// plainBM25 ranks turns by their own words alone, with the usual parameters.
func plainBM25(_ *kit, c *conversation, _ string) func(string) []string {
	const k1, b = 1.2, .75
	counts, lens, df, mean := make([]map[string]float64, len(c.turns)), make([]float64, len(c.turns)), map[string]float64{}, 0.
	for i, turn := range c.turns {
		counts[i] = map[string]float64{}
		terms, _ := analyser().Document(turn.text)
		for _, term := range terms {
			if counts[i][term]++; counts[i][term] == 1 {
				df[term]++
			}
		}
		lens[i] = float64(len(terms))
		mean += lens[i] / float64(len(c.turns))
	}
	return func(question string) (out []string) {
		scores, order := make([]float64, len(c.turns)), make([]int, len(c.turns))
		for _, w := range analyser().Query(question, nil) {
			n := df[w.Terms[0]]
			idf := math.Log(1 + (float64(len(c.turns))-n+.5)/(n+.5))
			for i := range c.turns {
				tf := counts[i][w.Terms[0]]
				scores[i] += idf * tf * (k1 + 1) / (tf + k1*(1-b+b*lens[i]/mean))
			}
		}
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case scores[a] > scores[b]:
				return -1
			case scores[a] < scores[b]:
				return 1
			}
			return 0
		})
		for _, i := range order[:20] {
			out = append(out, c.turns[i].id)
		}
		return out
	}
}
