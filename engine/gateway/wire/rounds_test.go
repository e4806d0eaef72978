package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

const heldTool = "memory_recall"

// randomRounds returns random rounds of a model. All but the last call the held tool, and the last one may.
func randomRounds(random *rand.Rand) (out []providers.Reply) {
	rounds := 1 + random.IntN(3)
	for i := range rounds {
		var r providers.Reply
		add := func(p providers.Part) { r.Parts = append(r.Parts, p) }
		if random.IntN(2) == 0 {
			add(providers.Part{Thinking: fmt.Sprintf("thought %d, long enough for several pieces", i)})
		}
		last := i == rounds-1
		if random.IntN(2) == 0 || last {
			add(providers.Part{Text: fmt.Sprintf("Text %d: äöü 😀 \"<b>\" \\n.", i)})
		}
		calls := random.IntN(3)
		for n := range calls {
			if !last && n == 0 || random.IntN(2) == 0 {
				add(providers.Part{Call: &providers.Call{Name: heldTool, Arguments: `{"query":"a \"secret\" thing"}`}})
			} else if last {
				add(providers.Part{Call: &providers.Call{Name: "lookup", Arguments: `{"n":1.50}`}})
			}
		}
		if !last && calls == 0 {
			add(providers.Part{Call: &providers.Call{Name: heldTool, Arguments: `{}`}})
		}
		out = append(out, r)
	}
	return out
}

// visible returns an answer without thinking, which is not used to recognise clients' messages.
func visible(t testing.TB, f chat.Format, messages []json.RawMessage) (out []string) {
	t.Helper()
	parsed, _, bad := chat.Parse(f, messages)
	if len(bad) > 0 {
		t.Fatalf("%v: %s", bad, messages)
	}
	for _, m := range parsed {
		out = append(out, fmt.Sprintf("%v %q %v", m.Role, m.Text, m.Calls))
	}
	return out
}

// woven joins several streams into one, fed in pieces.
func woven(t testing.TB, r *wire.Rounds, streams [][]byte, hideUsage bool, cut func(left int) int) (stream []byte) {
	t.Helper()
	w := wire.NewWeave(r)
	w.HideUsage = hideUsage
	for i, round := range streams {
		if i > 0 {
			w.Round()
		}
		var split wire.Splitter
		folder := wire.New(r.Format)
		for len(round) > 0 {
			n := cut(len(round))
			events, err := split.Feed(round[:n])
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				folder.Add(e)
				stream = append(stream, w.Add(e)...)
			}
			round = round[n:]
		}
		whole, err := folder.Reply()
		if err != nil {
			t.Fatal(err)
		}
		held, _ := r.Add(whole)
		var results []wire.Result
		for _, call := range held {
			results = append(results, wire.Result{Held: call, Content: "found", IsError: i == 1})
		}
		if len(held) > 0 {
			r.Answer(results)
		}
	}
	return append(stream, w.End()...)
}

// checkWoven checks the rules for rounds: the client's stream is one well-formed stream, folds into the stored answer,
// reveals nothing of held calls, has the usage of all rounds, and does not depend on how the network splits it.
func checkWoven(t testing.TB, seed uint64, cut func(left int) int) {
	random := rand.New(rand.NewPCG(seed, 1))
	for _, p := range protocols {
		script := randomRounds(random)
		s := providers.Start(t)
		s.Script(script...)
		var streams [][]byte
		var usage wire.Usage
		for range script {
			stream := ask(t, s, p.path, p.body, true)
			folder, _ := fold(t, p.format, stream, func(left int) int { return left })
			u := folder.Usage()
			usage.Input, usage.Output = usage.Input+u.Input, usage.Output+u.Output
			streams = append(streams, stream)
		}
		one := wire.NewRounds(p.format, []string{heldTool})
		stream := woven(t, one, streams, false, func(left int) int { return left })
		again := woven(t, wire.NewRounds(p.format, []string{heldTool}), streams, false, cut)
		if !bytes.Equal(stream, again) {
			t.Fatalf("seed %d, %v: cut otherwise, the stream is\n%s\nnot\n%s", seed, p.format, again, stream)
		}
		if strings.Contains(string(stream), heldTool) || strings.Contains(string(stream), "secret") {
			t.Errorf("seed %d, %v: the client sees a held call:\n%s", seed, p.format, stream)
		}
		folder, state := fold(t, p.format, stream, func(left int) int { return left })
		got, err := folder.Reply()
		if err != nil || state != wire.Ended {
			t.Fatalf("seed %d, %v: %v, %v:\n%s", seed, p.format, state, err, stream)
		}
		want := one.Reply()
		if a, b := visible(t, p.format, got.Messages), visible(t, p.format, want.Messages); !reflect.DeepEqual(a, b) {
			t.Errorf("seed %d, %v: the client has %q, stored is %q:\n%s", seed, p.format, a, b, stream)
		}
		if got.Usage.Input != usage.Input || got.Usage.Output != usage.Output || want.Usage.Input != usage.Input {
			t.Errorf("seed %d, %v: usage %v and %v, all rounds have %v", seed, p.format, got.Usage, want.Usage, usage)
		}
		if got.ID != want.ID || got.Stop != want.Stop {
			t.Errorf("seed %d, %v: %s %s, want %s %s", seed, p.format, got.ID, got.Stop, want.ID, want.Stop)
		}
		wellFormed(t, p.format, stream)
	}
}

// wellFormed checks what client libraries rely on: one start, one end, and indexes and numbers without gaps.
func wellFormed(t testing.TB, f chat.Format, stream []byte) {
	t.Helper()
	var split wire.Splitter
	events, _ := split.Feed(stream)
	starts, ends, next, number, open := 0, 0, 0, 0, -1
	for _, e := range events {
		var o struct {
			Type     string
			Index    int
			Output   *int `json:"output_index"`
			Sequence *int `json:"sequence_number"`
		}
		_ = json.Unmarshal(e.Data, &o)
		if o.Sequence != nil {
			if *o.Sequence != number {
				t.Fatalf("event %s has the number %d, not %d:\n%s", o.Type, *o.Sequence, number, stream)
			}
			number++
		}
		switch o.Type {
		case "message_start", "response.created":
			starts++
		case "message_stop", "response.completed":
			ends++
		case "content_block_start":
			if o.Index != next || open >= 0 {
				t.Fatalf("block %d begins in the place of %d:\n%s", o.Index, next, stream)
			}
			next, open = next+1, o.Index
		case "content_block_delta":
			if o.Index != open {
				t.Fatalf("a delta of block %d within %d:\n%s", o.Index, open, stream)
			}
		case "content_block_stop":
			open = -1
		case "response.output_item.added":
			if *o.Output != next {
				t.Fatalf("item %d begins in the place of %d:\n%s", *o.Output, next, stream)
			}
			next++
		}
		if string(e.Data) == "[DONE]" {
			ends++
		}
	}
	if f == chat.OpenAIChat {
		starts = bytes.Count(stream, []byte(`"role":"assistant"`))
	}
	if starts != 1 || ends != 1 || len(split.Rest()) > 0 {
		t.Fatalf("%v: %d starts, %d ends:\n%s", f, starts, ends, stream)
	}
}

func TestRoundsAreOneStream(t *testing.T) {
	for seed := range uint64(60) {
		checkWoven(t, seed, func(int) int { return 1 })
	}
}

func FuzzRounds(f *testing.F) {
	f.Add(uint64(1), uint64(3))
	f.Fuzz(func(t *testing.T, seed, cuts uint64) {
		random := rand.New(rand.NewPCG(cuts, 2))
		checkWoven(t, seed, func(left int) int { return 1 + random.IntN(left) })
	})
}
