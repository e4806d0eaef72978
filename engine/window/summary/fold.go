package summary

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// fold has the messages that one call of the provider adds to the summary.
type fold struct {
	messages []Message
	covers   uint64    // the last message that the summary then covers
	count    uint64    // number of messages that it adds
	turns    [2]uint32 // the first and last turn that it adds
}

// foldEntry is a message that may be added. Its Call is the message with the call that it answers, or itself.
type foldEntry struct {
	transcript.Header
	speaker, text string
	tokens        int
}

const (
	// foldOverhead is the approximate number of tokens that a message takes besides its text.
	foldOverhead = 16
	// maxSpeaker is the maximum length of a speaker's name, in bytes.
	maxSpeaker = 128
)

// gather reads the messages after the summary, as many as fit into one call of the provider. It keeps each tool call
// together with its results, and shortens them if they do not fit.
func (w *work) gather(ctx context.Context, sinc ident.Incarnation) (*fold, error) {
	count := w.svc.sessions.Counter(ctx, 0)
	limit := input >> w.job.Less
	var entries []foldEntry
	behind := map[uint64]bool{} // calls with a result after the entries, among the messages read
	total, at := 0, uint64(0)
	if w.from != nil {
		at = w.from.Covers
	}
	for at < w.job.Through && total <= limit {
		from, end := w.gone.Stretch(at + 1)
		at = from - 1
		bodies, err := w.svc.sessions.ReadBodies(ctx, w.tenant, sinc, from, min(at+64, end, w.job.Through))
		if err != nil {
			return nil, err
		}
		for _, body := range bodies {
			at++
			f := foldable(at, body)
			switch {
			case f == nil:
			case total > limit:
				behind[f.Call] = behind[f.Call] || f.Call != f.Seq
			default:
				f.text = tokens.Middle(f.text, message, count)
				f.tokens = count(f.text) + count(f.speaker) + foldOverhead
				total += f.tokens
				entries = append(entries, *f)
			}
		}
	}
	f := &fold{covers: at}
	if total > limit { // some messages are left for the next call
		end := wholeAtoms(entries, behind)
		f.covers = entries[len(entries)-1].Seq
		if end < len(entries) {
			// The messages in between are superseded, or of delegations, which summaries do not cover.
			f.covers = w.gone.LastMessage(entries[end].Seq - 1)
		}
		entries = entries[:end]
		shorten(entries, limit, count)
	}
	for i := range entries {
		m := &entries[i]
		f.messages = append(f.messages, Message{Turn: m.Turn, Speaker: m.speaker, Text: m.text})
		f.count++
		if f.turns[0] == 0 {
			f.turns[0] = m.Turn
		}
		f.turns[1] = max(f.turns[1], m.Turn)
	}
	return f, nil
}

// wholeAtoms returns how many of the entries to put into one call. It leaves out the last one, which no longer fits,
// and then all entries of tool calls that would be incomplete. If nothing would be left, it returns all of them. behind
// are the calls with a result after the entries.
func wholeAtoms(entries []foldEntry, behind map[uint64]bool) int {
	end := len(entries)
	leave := func(from int) {
		for i := from; i < end; i++ {
			behind[entries[i].Call] = behind[entries[i].Call] || entries[i].Call != entries[i].Seq
		}
		end = from
	}
	leave(end - 1)
	for i := end - 1; i >= 0; i-- {
		if behind[entries[i].Seq] {
			leave(i)
		}
	}
	if end == 0 {
		return len(entries)
	}
	return end
}

// shorten cuts messages until all of them fit into one call.
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
		m.text = tokens.Middle(m.text, max(1, m.tokens*limit/total), count)
	}
}

// foldable returns a stored message in the form for the summariser. It returns nil for messages of delegations, which
// summaries do not cover.
func foldable(seq uint64, body []byte) *foldEntry {
	h, m, err := transcript.ParseBody(body)
	if err != nil || h.Seq != seq {
		return &foldEntry{Header: transcript.Header{Seq: seq, Call: seq}, speaker: "unknown", text: window.Unreadable}
	}
	if h.Delegation != "" {
		return nil
	}
	f := &foldEntry{Header: *h, speaker: chat.RoleName(m.Role), text: m.Text}
	switch {
	case m.Kind == plan.KindA2A:
		f.speaker = m.From + " to " + m.To
	case m.Role == plan.RoleTool:
		f.speaker = strings.TrimSpace("tool " + h.Tool)
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
