package recall_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// The evidence of LoCoMo's questions is found, with default settings: R@10 of at least 70, where plain BM25 over the
// same words has about 58. Each turn is a message of a session, or a memory that names its session.
func TestLocomo(t *testing.T) {
	conversations := benchtest.ReadLocomo(t)
	ways := []struct {
		name string
		ask  func(k *enginetest.Kit, c *benchtest.Conversation, project string) func(question string) []string
		want float64
	}{
		{"plain BM25", plainBM25, 0},
		{"transcript", locomoTranscript, 70},
		{"memories", locomoMemories, 70},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			k := enginetest.New(t)
			all, by := &benchtest.Measured{}, map[string]*benchtest.Measured{}
			for i := range conversations {
				c := &conversations[i]
				ask := way.ask(k, c, fmt.Sprint("p", i))
				for _, q := range c.Questions {
					ranked, name := ask(q.Text), benchtest.LocomoCategory(q.Category)
					if by[name] == nil {
						by[name] = &benchtest.Measured{}
					}
					all.Add(q.Gold, ranked)
					by[name].Add(q.Gold, ranked)
				}
			}
			t.Logf("%-11s %v", "all", all)
			for _, name := range slices.Sorted(maps.Keys(by)) {
				t.Logf("%-11s %v", name, by[name])
			}
			if got := all.At10(); got < way.want {
				t.Errorf("R@10 is %.1f, want at least %.0f", got, way.want)
			}
		})
	}
}

func locomoTranscript(k *enginetest.Kit, c *benchtest.Conversation, projectID string) func(string) []string {
	if _, _, err := k.Projects.Put(k.Context(), k.Admin, projectID, project.Spec{}); err != nil {
		k.Fatal(err)
	}
	ids := map[string]string{}
	for i, turn := range c.Turns {
		role := []string{"user", "assistant"}[i%2]
		m, _ := json.Marshal(map[string]any{"role": role, "content": turn.Text, "created_at": turn.At})
		r, err := k.Sessions.AppendTurn(k.Context(), k.Admin, access.Once{}, projectID,
			session.TurnRequest{SessionID: turn.Session, Messages: []json.RawMessage{m}})
		if err != nil {
			k.Fatal(err)
		}
		ids[r.Messages[0].ID] = turn.ID
	}
	return func(question string) (out []string) {
		r, err := k.Recall.Recall(k.Context(), k.Admin, projectID,
			recall.Query{Query: question, Scope: "transcript", Limit: 20})
		if err != nil || r.Incomplete {
			k.Fatalf("incomplete %v: %v", r.Incomplete, err)
		}
		k.Drain()
		for _, h := range r.Data {
			out = append(out, ids[h.MessageID])
		}
		return out
	}
}

func locomoMemories(k *enginetest.Kit, c *benchtest.Conversation, projectID string) func(string) []string {
	if _, _, err := k.Projects.Put(k.Context(), k.Admin, projectID, project.Spec{}); err != nil {
		k.Fatal(err)
	}
	for _, turn := range c.Turns {
		k.Mu.Lock()
		k.Now = turn.At
		k.Mu.Unlock()
		if _, _, err := k.Memories.Store(k.Context(), k.Admin, access.Once{}, projectID, memory.Spec{Key: turn.ID,
			Content: turn.Text, Category: "conversation", SessionID: turn.Session}); err != nil {
			k.Fatal(err)
		}
	}
	k.Drain()
	return func(question string) (out []string) {
		r, err := k.Recall.Recall(k.Context(), k.Admin, projectID, recall.Query{Query: question, Limit: 20})
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
func plainBM25(_ *enginetest.Kit, c *benchtest.Conversation, _ string) func(string) []string {
	const k1, b = 1.2, .75
	counts, lens, df, mean := make([]map[string]float64, len(c.Turns)), make([]float64, len(c.Turns)),
		map[string]float64{}, 0.
	for i, turn := range c.Turns {
		counts[i] = map[string]float64{}
		terms, _ := enginetest.Analyser().Document(turn.Text)
		for _, term := range terms {
			if counts[i][term]++; counts[i][term] == 1 {
				df[term]++
			}
		}
		lens[i] = float64(len(terms))
		mean += lens[i] / float64(len(c.Turns))
	}
	return func(question string) (out []string) {
		scores, order := make([]float64, len(c.Turns)), make([]int, len(c.Turns))
		for _, w := range enginetest.Analyser().Query(question, nil) {
			n := df[w.Terms[0]]
			idf := math.Log(1 + (float64(len(c.Turns))-n+.5)/(n+.5))
			for i := range c.Turns {
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
			out = append(out, c.Turns[i].ID)
		}
		return out
	}
}
