package window_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
)

// tableStart is the rule read aloud: the first seq that a table of a session holds, whose turns begin at these seqs and
// whose messages are all atoms of their own.
func tableStart(newest, horizon int, begins []int) int {
	step := horizon / 4
	if newest <= horizon {
		return 1
	}
	bound := 1
	for bound < newest-horizon+1 {
		bound += step
	}
	for _, seq := range begins {
		if seq >= bound && seq < bound+3*step {
			return seq
		}
	}
	return bound // inside a turn longer than the shortest table
}

// The table begins where the rule says, at every turn of a session with short turns and very long ones, and stands
// still in between.
func TestTableBeginsInSteps(t *testing.T) {
	k := enginetest.New(t)
	rng := rand.New(rand.NewPCG(13, 1))
	newest, moves, last := 0, 0, 1
	var begins []int
	for turn := range 120 {
		messages := []string{enginetest.User(fmt.Sprint("question ", turn))}
		n := 1 + rng.IntN(14)
		if turn == 30 || turn == 60 {
			n = 420
		}
		for i := range n {
			messages = append(messages, enginetest.Assistant(fmt.Sprint("step ", i)))
		}
		k.Post("s", messages...)
		begins = append(begins, newest+1)
		newest += len(messages)
		for _, horizon := range []int{256, 512} {
			w := k.Ask(`{"session_id":"s","explain":true,"budget":{"max_messages":%d,"max_tokens":0},
				"pending":[{"role":"user","content":"and?"}]}`, horizon/4)
			want := tableStart(newest, horizon, begins)
			older := 0
			if row := w.Report[len(w.Report)-1]; row.MessageID == "" {
				older = int(row.Count)
			}
			if older != want-1 {
				t.Fatalf("turn %d, %d messages, horizon %d: the table begins at %d, want %d", turn, newest, horizon,
					older+1, want)
			}
			if considered := newest - older; newest > horizon && considered > horizon {
				t.Fatalf("%d messages are considered of at most %d", considered, horizon)
			}
			if horizon == 256 && want != last {
				moves, last = moves+1, want
			}
		}
	}
	if steps := newest / 64; moves < 10 || moves > steps {
		t.Errorf("the table moved %d times over %d messages", moves, newest)
	}
}
