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

const (
	// foldOverhead is what a message costs a call beside its words, in tokens, about.
	foldOverhead = 16
	// maxSpeaker bounds what names a message's speaker, in bytes.
	maxSpeaker = 128
)

// gather reads the messages behind the summary, as many as one call takes. No atom is split where it can be helped: one
// that is longer than a call takes is shortened.
func (w *summaryWork) gather(ctx context.Context, sinc incarnation) (*fold, error) {
	count := w.e.counter(0)
	limit := summaryInput >> w.job.Less
	var entries []foldEntry
	behind := map[uint64]bool{} // calls that have a result behind the entries, as far as was read
	total, at := 0, uint64(0)
	if w.from != nil {
		at = w.from.Covers
	}
	for at < w.job.Through && total <= limit {
		to := min(at+64, w.job.Through)
		bodies, err := w.e.readBodies(ctx, w.tenant, sinc, at+1, to)
		if err != nil {
			return nil, err
		}
		for _, body := range bodies {
			at++
			f := foldable(at, body)
			switch {
			case f == nil:
			case total > limit:
				behind[f.call] = behind[f.call] || f.call != f.seq
			default:
				f.text = chat.Truncate(f.text, summaryMessage, count)
				f.tokens = count(f.text) + count(f.speaker) + foldOverhead
				total += f.tokens
				entries = append(entries, *f)
			}
		}
	}
	f := &fold{covers: at}
	if total > limit { // something is left for the next call
		end := wholeAtoms(entries, behind)
		if f.covers = entries[len(entries)-1].seq; end < len(entries) {
			f.covers = entries[end].seq - 1 // what lies between is nobody's to fold
		}
		entries = entries[:end]
		shorten(entries, limit, count)
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

// wholeAtoms is how many of the entries one call takes: not the last, which was too much, and no atom that would be
// split. A first atom that is too long by itself stays whole. behind are the calls with a result behind the entries.
func wholeAtoms(entries []foldEntry, behind map[uint64]bool) int {
	end := len(entries)
	leave := func(from int) {
		for i := from; i < end; i++ {
			behind[entries[i].call] = behind[entries[i].call] || entries[i].call != entries[i].seq
		}
		end = from
	}
	leave(end - 1)
	for i := end - 1; i >= 0; i-- {
		if behind[entries[i].seq] {
			leave(i)
		}
	}
	if end == 0 {
		return len(entries)
	}
	return end
}

// shorten cuts messages until all of them fit one call.
func shorten(entries []foldEntry, limit int, count func(string) int) {
	total := 0
	for i := range entries {
		total += entries[i].tokens
	}
	if total <= limit {
		return
	}
	for i := range entries {
		m := &entries[i]
		m.text = chat.Truncate(m.text, max(1, m.tokens*limit/total), count)
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
	f.speaker = strings.ToValidUTF8(f.speaker[:min(len(f.speaker), maxSpeaker)], "")
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
