package e2e

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
)

// Over HTTP, recall finds the same as in process: the evidence for LoCoMo's questions, in transcripts of sessions.
func TestLocomo(t *testing.T) {
	t.Parallel()
	all := &benchtest.Measured{}
	for _, said := range benchtest.ReadLocomo(t) {
		c, ids := own(t), map[string]string{}
		for _, turn := range said.Turns {
			var stored struct {
				Messages []struct{ ID string }
			}
			c.turn(turn.Session, object{"role": turn.Role, "name": turn.Speaker, "content": turn.Text,
				"created_at": turn.At}).want(201).into(&stored)
			ids[stored.Messages[0].ID] = turn.ID
		}
		for _, q := range said.Questions {
			if q.Kind == benchtest.Adversarial {
				continue
			}
			var found struct {
				Data []struct {
					ID string `json:"message_id"`
				}
				Incomplete bool
			}
			c.post(c.path("/memories/recall"), object{"query": q.Text, "scope": "transcript",
				"limit": 20}).want(200).into(&found)
			if found.Incomplete {
				t.Fatalf("%q is answered from a part of the transcripts", q.Text)
			}
			var ranked []string
			for _, hit := range found.Data {
				ranked = append(ranked, ids[hit.ID])
			}
			all.Add(q.Gold, ranked)
		}
	}
	t.Log(all)
	if got := all.At10(); got < 78 {
		t.Errorf("R@10 is %.1f, want at least 78", got)
	}
}
