package e2e

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// TestGenerator: the same settings give the same transcript, its model is consistent, and every difficulty occurs.
func TestGenerator(t *testing.T) {
	for _, format := range hard.Formats() {
		seen := map[string]int{}
		for seed := range uint64(8) {
			knobs := hard.Knobs{Seed: seed, Format: format, Messages: 300, Longest: 20_000, Delegations: true}
			one, two := hard.Generate(knobs), hard.Generate(knobs)
			if !reflect.DeepEqual(one, two) {
				t.Fatalf("%+v gives two transcripts", knobs)
			}
			inventory(t, one, seen)
		}
		for _, hardship := range []string{"parallel calls", "results out of order", "late result", "reused id",
			"open for ever",
			"nested delegation", "between agents", "null content", "image", "several parts", "long text",
			"arguments not JSON",
			"turn without a user", "turn in a delegation", "tags", "duplicate text"} {
			if seen[hardship] == 0 && !(hardship == "arguments not JSON" && format == hard.Anthropic) {
				t.Errorf("%s: no %s in 8 transcripts: %v", format, hardship, seen)
			}
		}
	}
}

// inventory counts difficulties and checks that the model is consistent.
func inventory(t *testing.T, transcript *hard.Transcript, seen map[string]int) {
	t.Helper()
	ids, texts := map[string]bool{}, map[string]bool{}
	answered := map[*hard.Message]int{}
	note := func(yes bool, hardship string) {
		if yes {
			seen[hardship]++
		}
	}
	for _, turn := range transcript.Turns {
		users := 0
		for _, raw := range turn.Input {
			if !json.Valid(raw) {
				t.Fatalf("turn %d posts %s", turn.Number, raw)
			}
		}
		for _, m := range turn.Messages {
			head := transcript.Messages[m.Atom-1]
			if m.Role == "tool" {
				if head.Delegation != m.Delegation || len(head.Calls) == 0 {
					t.Fatalf("message %d answers message %d", m.Seq, head.Seq)
				}
				note(m.Turn > head.Turn, "late result")
				note(answered[head] < len(head.Calls) && head.Calls[answered[head]].ID != m.CallID,
					"results out of order")
				answered[head]++
			} else if m.Role == "user" {
				users++
			}
			for _, c := range m.Calls {
				note(ids[c.ID], "reused id")
				note(!json.Valid([]byte(c.Arguments)), "arguments not JSON")
				ids[c.ID] = true
			}
			for _, p := range m.Parts {
				note(p.Image != "", "image")
				note(len(p.Text) > 5000, "long text")
				note(texts[p.Text], "duplicate text")
				texts[p.Text] = true
			}
			note(len(m.Calls) > 1, "parallel calls")
			note(len(m.Delegation) > len("del_1"), "nested delegation")
			note(m.A2A(), "between agents")
			note(m.Parts == nil, "null content")
			note(len(m.Parts) > 1, "several parts")
			note(m.Own.Tags != nil, "tags")
		}
		note(users == 0, "turn without a user")
		note(turn.Delegation != "", "turn in a delegation")
	}
	for _, m := range transcript.Messages {
		note(len(m.Calls) > answered[m], "open for ever")
	}
}
