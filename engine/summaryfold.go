package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// fold is what one call folds into the summary.
type fold struct {
	messages []SummaryMessage
	covers   uint64 // the last message that is covered then
	count    uint64 // messages added
	turns    [2]uint32
}

// foldEntry is a message that may be folded in, with the atom that it belongs to.
type foldEntry struct {
	header
	speaker, text string
	tokens        int
}

// gather reads the messages behind the summary, as many as one call takes. No atom is split where it can be helped: one
// that is longer than a call takes is shortened.
func (w *summaryWork) gather(ctx context.Context, sinc incarnation) (*fold, error) {
	count := w.e.counter(0)
	var entries []foldEntry
	total, at := 0, uint64(0)
	if w.from != nil {
		at = w.from.Covers
	}
	for at < w.job.Through && total <= summaryInput {
		to := min(at+64, w.job.Through)
		bodies, err := w.e.readBodies(ctx, w.tenant, sinc, at+1, to)
		if err != nil {
			return nil, err
		}
		for _, body := range bodies {
			if total > summaryInput {
				break
			}
			at++
			if f := foldable(at, body); f != nil {
				f.text = chat.Truncate(f.text, summaryMessage, count)
				f.tokens = count(f.text)
				total += f.tokens
				entries = append(entries, *f)
			}
		}
	}
	f := &fold{covers: at}
	if total > summaryInput { // something is left for the next call
		entries = wholeAtoms(entries)
		f.covers = entries[len(entries)-1].seq
		shorten(entries, count)
	}
	for i := range entries {
		m := &entries[i]
		f.messages = append(f.messages, SummaryMessage{Turn: m.turn, Speaker: m.speaker, Text: m.text})
		if f.count++; f.turns[0] == 0 {
			f.turns[0] = m.turn
		}
		f.turns[1] = max(f.turns[1], m.turn)
	}
	return f, nil
}

// wholeAtoms leaves out, from the end, what one call cannot take: the last message, which was too much, and with it the
// atom that it would split. A first atom that is too long by itself stays as it is.
func wholeAtoms(entries []foldEntry) []foldEntry {
	end := len(entries) - 1
	for i := end - 1; i >= 0; i-- {
		if m := &entries[i]; m.calls > 0 && results(entries[:end], m.seq) < int(m.calls) {
			end = i
		}
	}
	if end == 0 {
		return entries
	}
	return entries[:end]
}

// results counts the results of a call among entries.
func results(entries []foldEntry, call uint64) (n int) {
	for i := range entries {
		if entries[i].call == call && entries[i].seq != call {
			n++
		}
	}
	return n
}

// shorten cuts messages until all of them fit one call.
func shorten(entries []foldEntry, count func(string) int) {
	total := 0
	for i := range entries {
		total += entries[i].tokens
	}
	if total <= summaryInput {
		return
	}
	for i := range entries {
		m := &entries[i]
		m.text = chat.Truncate(m.text, max(1, m.tokens*summaryInput/total), count)
	}
}

// foldable reads a stored message as the summariser gets it; nil for a delegation's, which no summary holds.
func foldable(seq uint64, body []byte) *foldEntry {
	h, m, err := parseBody(body)
	if err != nil || h.seq != seq {
		return &foldEntry{header: header{seq: seq, call: seq}, speaker: "unknown", text: unreadable}
	}
	if h.delegation != "" {
		return nil
	}
	f := &foldEntry{header: *h, speaker: chat.RoleName(m.Role), text: m.Text}
	switch {
	case m.Kind == plan.KindA2A:
		f.speaker = m.From + " to " + m.To
	case m.Role == plan.RoleTool:
		f.speaker = strings.TrimSpace("tool " + h.tool)
	}
	var b strings.Builder
	b.WriteString(f.text)
	for _, call := range m.Calls {
		fmt.Fprintf(&b, "\n[calls %s with %s]", call.Name, call.Arguments)
	}
	if m.Images > 0 {
		fmt.Fprintf(&b, "\n[images: %d]", m.Images)
	}
	f.text = strings.TrimPrefix(b.String(), "\n")
	return f
}
