package chat_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// A message with other texts of documents has these texts, and nothing else changes but the citations of the changed
// documents. With its own texts it is itself, byte for byte. Without its documents it has none.
func TestDocuments(t *testing.T) {
	seen := map[plan.Parts]int{}
	for seed := range uint64(500) {
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		f := messageFormats[1+g.IntN(2)]
		posted := `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[` + g.some(4, g.block) + `]}]}`
		if f == chat.OpenAIResponses {
			posted = `{"type":"function_call_output","call_id":"c","output":[` + g.some(4, g.itemPart("input_text")) + `]}`
		}
		msgs, ok := parseAll(f, "["+posted+"]")
		if !ok {
			t.Fatal(posted)
		}
		for i := range msgs {
			m := &msgs[i]
			documents, others := m.Documents()
			var own, cut []string
			for _, d := range documents {
				seen[d.Part]++
				own, cut = append(own, d.Text), append(cut, "cut 日")
			}
			if m.Role != plan.RoleTool && documents != nil {
				t.Fatalf("documents of role %d", m.Role)
			}
			if same := m.WithDocuments(own); string(same.Raw) != string(m.Raw) {
				t.Fatalf("with its own texts\n%s\nbecame\n%s", m.Raw, same.Raw)
			}
			changed, stub := m.WithDocuments(cut), m.WithoutDocuments()
			got, stay := changed.Documents()
			for j := range got {
				if got[j].Text != cut[j] {
					t.Fatalf("%q of\n%s", got[j].Text, changed.Raw)
				}
			}
			if left, rest := stub.Documents(); len(got) != len(cut) || left != nil || stay != others || rest != others {
				t.Fatalf("%d documents, then %d, then %d, of\n%s", len(own), len(got), len(left), m.Raw)
			}
			back := changed.WithDocuments(own)
			if uncited(t, back.Raw) != uncited(t, m.Raw) {
				t.Fatalf("%s\nbecame\n%s", m.Raw, back.Raw)
			}
			raw := "[" + string(changed.Raw) + "]"
			if f == chat.OpenAIResponses {
				raw = string(changed.Raw)
			}
			if again, ok := parseAll(f, raw); !ok || len(again) != 1 || again[0].Text != m.Text || again[0].Parts != m.Parts {
				t.Fatalf("%s\nis no message", raw)
			}
		}
	}
	if seen[0] < 20 || seen[plan.PartDocument] < 100 {
		t.Errorf("documents: %v", seen)
	}
}

// uncited is a message in a canonical form, without citations.
func uncited(t *testing.T, raw []byte) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`"citations":{"enabled":true},?`).ReplaceAllString(string(out), "")
}
