package recall_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// The evidence of questions is found, with default settings: in LoCoMo's conversations between two people, with and
// without their names, and in BEAM's talks with an assistant. Each turn is a message of a session, or a memory that
// names its session. Plain BM25 over the same words finds 58 and 39 of a hundred among the first ten.
func TestRecallGate(t *testing.T) {
	locomo, beam := benchtest.ReadLocomo(t), benchtest.ReadBeam(t)
	silent := make([]benchtest.Talk, len(locomo))
	for i := range silent {
		silent[i] = benchtest.Talk{Turns: slices.Clone(locomo[i].Turns), Questions: locomo[i].Questions}
		for n := range silent[i].Turns {
			silent[i].Turns[n].Speaker = ""
		}
	}
	for _, way := range []struct {
		name  string
		talks []benchtest.Talk
		ask   asker
		want  map[string]float64 // nil: only a long run measures it
	}{
		{"LoCoMo, plain BM25", silent, plainBM25, nil},
		{"LoCoMo, messages without names", silent, askTranscript, map[string]float64{"all": 75}},
		{"LoCoMo, messages", locomo, askTranscript, map[string]float64{"all": 78, "multi-hop": 46, "adversarial": 89}},
		{"LoCoMo, messages with vectors", locomo, withVectors(askTranscript),
			map[string]float64{"all": 76, "adversarial": 88}},
		{"LoCoMo, messages with vectors" + ofTrained, locomo, withVectors(askTranscript),
			map[string]float64{"all": 80, "multi-hop": 46, "adversarial": 89}},
		{"LoCoMo, memories", locomo, askMemories, nil},
		{"BEAM, plain BM25", beam, plainBM25, nil},
		{"BEAM, messages", beam, askTranscript, map[string]float64{"all": 48}},
		{"BEAM, messages with vectors", beam, withVectors(askTranscript), map[string]float64{"all": 48}},
		{"BEAM, messages with vectors" + ofTrained, beam, withVectors(askTranscript), map[string]float64{"all": 54}},
	} {
		t.Run(way.name, func(t *testing.T) {
			if way.want == nil && !campaign.Long() {
				t.Skip("it is measured in a long run")
			}
			k, _ := embedding(t, memstore.New())
			if strings.HasSuffix(way.name, ofTrained) {
				k = withTrainedModel(t)
			}
			by := map[string]*benchtest.Measured{}
			for i := range way.talks {
				ask := way.ask(k, &way.talks[i], fmt.Sprint("p", i))
				for _, q := range way.talks[i].Questions {
					addMeasured(by, &q, ask(q.Text))
				}
			}
			for _, kind := range slices.Sorted(maps.Keys(by)) {
				t.Logf("%-24s %v", kind, by[kind])
			}
			for kind, want := range way.want {
				if got := by[kind].At10(); got < want {
					t.Errorf("R@10 of %s is %.1f, want at least %.0f", kind, got, want)
				}
			}
		})
	}
}

// addMeasured counts one ranking with those of its kind, and with all, among which adversarial ones do not count.
func addMeasured(by map[string]*benchtest.Measured, q *benchtest.Question, ranked []string) {
	kinds := []string{q.Kind, "all"}
	if q.Kind == benchtest.Adversarial {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		if by[kind] == nil {
			by[kind] = &benchtest.Measured{}
		}
		by[kind].Add(q.Gold, ranked)
	}
}

// asker asks questions of a talk that it stored in a project.
type asker = func(k *enginetest.Kit, c *benchtest.Talk, project string) func(question string) []string

const ofTrained = " of a trained model"

// withTrainedModel is an engine whose provider of embeddings is the one at MNEME_EMBEDDINGS.
func withTrainedModel(t *testing.T) *enginetest.Kit {
	url := os.Getenv("MNEME_EMBEDDINGS")
	if url == "" {
		t.Skip("there is no provider of embeddings: scripts/recall-vectors installs one and runs this")
	}
	return embeddingBy(t, memstore.New(), url)
}

// settled waits until a provider that works off one request after the other is done with those that Mneme gave up.
func settled(t testing.TB) {
	url := os.Getenv("MNEME_EMBEDDINGS")
	if url == "" {
		return
	}
	res, err := http.Post(url+"/embeddings", "application/json", strings.NewReader(`{"model":"any","input":"done?"}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}

// withVectors has everything embedded before the first question. A trained model can take longer for a call of long
// texts than Mneme waits, so the job gets time to try again with fewer.
func withVectors(ask asker) asker {
	return func(k *enginetest.Kit, c *benchtest.Talk, projectID string) func(string) []string {
		if _, _, err := k.Projects.Put(k.Context(), k.Admin, projectID, project.Spec{}); err != nil {
			k.Fatal(err)
		}
		k.SetIn(projectID, model)
		had := vectors(k)
		asked := ask(k, c, projectID)
		asked("the first question has a transcript indexed")
		for range c.Turns {
			k.Advance(time.Hour)
			k.Drain()
			if vectors(k)-had >= 2*len(c.Turns) {
				return asked
			}
			k.Remember(memory.Spec{Key: "wakes", Content: "the job"})
			settled(k)
		}
		k.Fatalf("%d records of vectors for %d turns", vectors(k)-had, len(c.Turns))
		return asked
	}
}

func askTranscript(k *enginetest.Kit, c *benchtest.Talk, projectID string) func(string) []string {
	if _, _, err := k.Projects.Put(k.Context(), k.Admin, projectID, project.Spec{}); err != nil {
		k.Fatal(err)
	}
	ids := map[string]string{}
	for _, turn := range c.Turns {
		m, _ := json.Marshal(struct {
			Role    string    `json:"role"`
			Content string    `json:"content"`
			Name    string    `json:"name,omitempty"`
			At      time.Time `json:"created_at"`
		}{turn.Role, turn.Text, turn.Speaker, turn.At})
		r, err := k.Sessions.AppendTurn(k.Context(), k.Admin, ident.Once{}, projectID,
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

func askMemories(k *enginetest.Kit, c *benchtest.Talk, projectID string) func(string) []string {
	if _, _, err := k.Projects.Put(k.Context(), k.Admin, projectID, project.Spec{}); err != nil {
		k.Fatal(err)
	}
	for _, turn := range c.Turns {
		k.Mu.Lock()
		k.Now = turn.At
		k.Mu.Unlock()
		if _, _, err := k.Memories.Store(k.Context(), k.Admin, ident.Once{}, projectID, memory.Spec{Key: turn.ID,
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
func plainBM25(_ *enginetest.Kit, c *benchtest.Talk, _ string) func(string) []string {
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
		for _, i := range order[:min(len(order), 20)] {
			out = append(out, c.Turns[i].ID)
		}
		return out
	}
}
