package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// TestHardSessions checks windows of generated sessions, in every format and for every viewer.
func TestHardSessions(t *testing.T) {
	for _, format := range hard.Formats() {
		for seed := range uint64(6) {
			name := sprintf("%s/%d", format, seed)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				walk(t, hard.Knobs{Seed: seed, Format: format, Messages: 60 + 40*int(seed), Delegations: seed%3 != 2},
					4)
			})
		}
	}
}

// TestLongHardSession checks windows of a session of 5,000 messages, most of which are beyond the horizon.
func TestLongHardSession(t *testing.T) {
	t.Parallel()
	transcript := hard.Generate(hard.Knobs{Seed: 5000, Messages: 5000, Longest: 60_000, Delegations: true})
	c := converse(shared(t), mneme.unique("long"))
	for _, turn := range transcript.Turns {
		c.say(turn)
	}
	none, some, few, plenty := 0, 300, 9, 200_000
	for _, format := range hard.Formats() {
		for _, viewer := range append(transcript.Delegations()[:2], "") {
			for _, a := range []ask{
				{},
				{maxMessages: &none, maxTokens: &none},
				{maxMessages: &some, maxTokens: &plenty, depth: 100},
				{maxMessages: &few, maxTokens: &plenty, depth: 3},
			} {
				a.format, a.viewer = format, viewer
				if w := c.window(a); w != nil {
					c.replay(t, w)
				}
			}
		}
	}
}

// walk posts a generated session turn by turn and asks for windows every few turns and at the end.
func walk(t testing.TB, knobs hard.Knobs, step int) {
	transcript := hard.Generate(knobs)
	c := own(t)
	known := c.knowledge()
	r := rand.New(rand.NewPCG(knobs.Seed, uint64(step)))
	viewers := append(transcript.Delegations(), "", "no_such")
	var earlier []*window
	for i, turn := range transcript.Turns {
		c.say(turn)
		if i%step != 0 && i != len(transcript.Turns)-1 {
			continue
		}
		for range 4 {
			a := randomAsk(r, viewers)
			if r.IntN(3) == 0 {
				a.memories = &remembering{query: known[r.IntN(len(known))].Content, limit: 1 + r.IntN(9), known: known}
			}
			if i+1 < len(transcript.Turns) && a.target() == knobs.Format && a.viewer == "" && r.IntN(2) == 0 {
				a.pending = pending(transcript.Turns[i+1], len(c.history.messages))
			}
			if w := c.window(a); w != nil {
				c.replay(t, w)
				earlier = append(earlier, w)
			}
		}
	}
	for _, w := range earlier {
		c.replay(t, w)
	}
}

// pending returns a turn as pending messages, without system messages. It returns nil if the turn has members that
// pending messages cannot have, or answers a call that may be beyond the horizon.
func pending(turn hard.Turn, stored int) *hard.Turn {
	beyond := func(m *hard.Message) bool { return m.Atom <= stored-256 }
	if turn.Agent != "" || turn.Delegation != "" || slices.ContainsFunc(turn.Messages, beyond) {
		return nil
	}
	out := turn
	out.Input = nil
	for i, raw := range turn.Input {
		if !slices.Contains(turn.Skipped, i) {
			out.Input = append(out.Input, raw)
		}
	}
	return &out
}

func randomAsk(r *rand.Rand, viewers []string) ask {
	a := ask{format: hard.Formats()[r.IntN(3)], viewer: viewers[r.IntN(len(viewers))]}
	pick := func(values ...int) *int {
		v := values[r.IntN(len(values))]
		return &v
	}
	if r.IntN(3) > 0 {
		a.maxMessages = pick(0, 1, 2, 3, 5, 8, 13, 21, 34, 200)
	}
	if r.IntN(3) > 0 {
		a.maxTokens = pick(0, 60, 200, 500, 1000, 3000, 100_000)
	}
	if r.IntN(3) == 0 {
		a.depth = 1 + r.IntN(8)
	}
	if r.IntN(3) == 0 {
		a.system = "You are terse. " + sprintf("%d", r.IntN(100))
	}
	if r.IntN(4) == 0 {
		a.window, a.reserve = 200+r.IntN(4000), r.IntN(100)
	}
	return a
}
