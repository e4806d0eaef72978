package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/openai/openaitest"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// summaryBytes is the length of every summary here, about 600 tokens, however little it covers.
const summaryBytes = 2400

// setup is one way to store the recorded sessions.
type setup struct {
	name            string
	threshold, keep int
	ask             ask
	joined          bool // all of them in one session, one after the other
}

// TestCampaignSummarySavings posts the recorded sessions, in its short form only some of them, with summaries off and
// on. After each turn it asks for a window, which must be valid and must replay. It logs the table of
// docs/BENCHMARKS.md.
func TestCampaignSummarySavings(t *testing.T) {
	t.Parallel()
	all := transcripts(t)
	for _, id := range slices.Sorted(maps.Keys(all))[campaign.Size(16, len(all)):] {
		delete(all, id)
	}
	p := provider(t)
	p.Always(openaitest.Extract(summaryBytes))
	server := summarising(t, t.TempDir(), p)
	whole := ask{maxMessages: new(0), maxTokens: new(0)}
	setups := []setup{
		{"each by itself", 40, 12, whole, false},
		{"each by itself", 20, 8, whole, false},
		{"each by itself", 10, 4, whole, false},
		{"all in one, no budget", 40, 12, whole, true},
		{"all in one, the default budget", 40, 12, ask{}, true},
	}
	var mu sync.Mutex
	off, on := map[string]measured{}, map[setup]measured{}
	t.Run("sessions", func(t *testing.T) {
		for i, u := range setups {
			t.Run(sprintf("on %d", i), func(t *testing.T) {
				t.Parallel()
				m := measure(t, server, p, u, all, true)
				mu.Lock()
				defer mu.Unlock()
				on[u] = m
			})
			if i > 0 && u.name == setups[i-1].name {
				continue // without summaries their threshold changes nothing
			}
			t.Run(sprintf("off %d", i), func(t *testing.T) {
				t.Parallel()
				m := measure(t, server, p, u, all, false)
				mu.Lock()
				defer mu.Unlock()
				off[u.name] = m
			})
		}
	})
	if t.Failed() {
		return
	}
	var table strings.Builder
	table.WriteString("| sessions | threshold, kept | valid windows | tokens a window, off | on | saved | " +
		"messages lost a window, off | on | covered at the end | calls |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, u := range setups {
		on, off := on[u], off[u.name]
		if on.windows != off.windows || on.messages != off.messages || off.covered+off.calls > 0 {
			t.Fatalf("%s: on %+v, off %+v", u.name, on, off)
		}
		if on.covered == 0 || on.tokens >= off.tokens || on.lost > off.lost {
			t.Errorf("%s: summaries save nothing: on %+v, off %+v", u.name, on, off)
		}
		fmt.Fprintf(&table, "| %s | %d, %d | %d of %[4]d | %.0f | %.0f | %.0f %% | %.1f | %.1f | %d of %d | %d |\n",
			u.name,
			u.threshold, u.keep, on.windows, off.each(off.tokens), on.each(on.tokens),
			100-100*on.each(on.tokens)/off.each(off.tokens), off.each(off.lost), on.each(on.lost), on.covered,
			on.messages, on.calls)
	}
	t.Log("\n" + table.String())
}

// measured has sums over all windows of a setup.
type measured struct {
	windows, tokens, lost    int
	messages, covered, calls int // at the end
}

// each returns the mean of a sum over the windows.
func (m measured) each(sum int) float64 { return float64(sum) / float64(m.windows) }

func measure(t *testing.T, server *process, p *openaitest.Server, u setup, all map[string]*hard.Transcript,
	on bool) (out measured) {
	t.Helper()
	s := summarise(t, server, p, object{"summary_enabled": on, "summary_mode": "wait", "summary_wait_ms": 60_000,
		"summary_threshold": u.threshold, "summary_keep_last": u.keep})
	covered := 0
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if !u.joined || len(s.history.messages) == 0 {
			s.conversation = converse(s.client, id)
		}
		base := s.history.turns
		for _, turn := range all[id].Turns {
			s.say(behind(turn, base, len(s.history.messages)))
			w := s.window(u.ask)
			if w == nil {
				t.Fatalf("%s: the newest turn does not fit", id)
			}
			if !u.joined || out.windows%20 == 0 { // replays of long sessions take long
				s.replay(t, w)
			}
			out.windows++
			out.tokens += w.Usage.Tokens
			_, covered = s.state()
			out.lost += s.lost(w, covered)
		}
		if !u.joined {
			out.messages, out.covered = out.messages+len(s.history.messages), out.covered+covered
		}
	}
	if u.joined {
		out.messages, out.covered = len(s.history.messages), covered
	}
	var usage struct{ Summaries struct{ Calls, Failures int } }
	s.get("/api/v1/usage").want(200).into(&usage)
	out.calls = usage.Summaries.Calls
	if usage.Summaries.Failures > 0 {
		t.Errorf("%d calls failed", usage.Summaries.Failures)
	}
	return out
}

// lost counts the messages that are neither in a window nor among the first ones, which the summary covers.
func (s *summarised) lost(w *window, covered int) (n int) {
	actions := map[string]string{}
	for _, r := range w.Report {
		actions[r.MessageID] = r.Action
	}
	for i, id := range s.history.ids {
		action := actions[id]
		if action == "drop" || action == "" && i >= covered {
			n++
		}
	}
	return n
}

// behind returns a recorded turn with indices shifted for the turns and messages before it.
func behind(turn hard.Turn, turns, messages int) hard.Turn {
	out := turn
	out.Number += turns
	out.Messages = nil
	shift := messages + 1 - turn.Messages[0].Seq
	for _, m := range turn.Messages {
		moved := *m
		moved.Seq, moved.Turn, moved.Atom = m.Seq+shift, out.Number, m.Atom+shift
		out.Messages = append(out.Messages, &moved)
	}
	return out
}
