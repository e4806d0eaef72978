package chat_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/chat/chattest"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// messageFormats are the formats that have messages.
var messageFormats = []chat.Format{chat.OpenAIChat, chat.AnthropicMessages, chat.OpenAIResponses}

// atom is what may be dropped as a whole: a message, or a call with its results.
type atom struct {
	seq  uint64
	msgs []chat.Message
}

// open returns the atom's calls that have no result.
func (a *atom) open() []chat.Call {
	var open []chat.Call
	for _, c := range a.msgs[0].Calls {
		answered := func(m chat.Message) bool { return m.CallID == c.ID }
		if !slices.ContainsFunc(a.msgs[1:], answered) {
			open = append(open, c)
		}
	}
	return open
}

// atoms groups messages as the engine does: a result joins the newest open call with its id, and one without is
// rejected.
func atoms(msgs []chat.Message) []atom {
	var out []atom
	for i, m := range msgs {
		if m.Role != plan.RoleTool {
			out = append(out, atom{seq: uint64(i + 1), msgs: []chat.Message{m}})
			continue
		}
		for j := len(out) - 1; j >= 0; j-- {
			if slices.ContainsFunc(out[j].open(), func(c chat.Call) bool { return c.ID == m.CallID }) {
				out[j].msgs = append(out[j].msgs, m)
				break
			}
		}
	}
	return out
}

// settle answers the calls that remained open, except those of the last atom.
func settle(as []atom) (openTail bool) {
	for i := range as {
		open := as[i].open()
		if i == len(as)-1 {
			return len(open) > 0
		}
		for _, c := range open {
			as[i].msgs = append(as[i].msgs, as[i].msgs[0].Unanswered(c))
		}
	}
	return false
}

// build makes a window of the atoms, optionally with a notice at the beginning and one in the middle.
func build(f chat.Format, as []atom, system string, notices bool) chat.Window {
	var b chat.Builder
	b.Reset(f, nil, render.SystemText(system))
	for i, a := range as {
		if notices && (i == 0 || i == len(as)/2) {
			b.Notice("notice \"one\"\n")
		}
		for j := range a.msgs {
			fr := chat.Render(f, &a.msgs[j], chat.Options{Turn: uint32(i), Tool: "tool"})
			b.Add(&fr, a.seq)
		}
	}
	return b.Finish()
}

// edit changes messages in every way that policies can, chosen by bits.
func edit(as []atom, bits uint64) {
	count := func(s string) int { return len(s) }
	for i := range as {
		for j := range as[i].msgs {
			m := &as[i].msgs[j]
			switch bits >> (4 * (i + j) % 60) & 15 {
			case 1:
				*m = m.WithText("")
			case 2:
				*m = m.WithText("replaced \"by\"\na policy")
			case 3:
				*m = m.WithText(tokens.Middle(m.Text, 30, count))
			case 4:
				if m.Role == plan.RoleTool {
					*m = m.Markdown(as[i].msgs[0].Calls[0])
				} else if m.Role == plan.RoleUser {
					*m = m.Compressed(7, m.Text)
				}
			case 5:
				*m = m.WithText("[result left out]")
			case 6:
				*m = chat.Unreadable(m.Role, m.Kind, m.Calls, m.CallID)
			case 7, 8, 9:
				*m = m.Edited(&plan.Edit{Strip: plan.Parts(bits >> 60)})
				if m.Hollow() {
					*m = m.WithText(chat.Placeholder)
				}
			case 12:
				*m = m.Edited(&plan.Edit{Strip: plan.Parts(bits >> 60 & 3), Documents: cutDocuments(m)})
			case 13:
				*m = m.Edited(&plan.Edit{Strip: plan.PartText})
				*m = m.WithText("[result left out]")
			case 10, 11:
				if len(m.Calls) > 0 {
					*m = m.Edited(&plan.Edit{Strip: plan.Parts(bits >> 60), Arguments: []plan.Argument{
						{Call: len(m.Calls) - 1, Text: `{"changed":[1, "\u0000"]}`}}})
				}
			}
		}
	}
}

// cutDocuments cuts the documents of a message to ten bytes and a mark.
func cutDocuments(m *chat.Message) (texts []string) {
	documents, _ := m.Documents()
	for i := range documents {
		texts = append(texts, tokens.Middle(documents[i].Text, 40, func(s string) int { return len(s) })+"…")
	}
	return texts
}

// parseAll parses a JSON array of messages. If it is not an array, the fuzz input is skipped and the test does not
// fail.
func parseAll(f chat.Format, posted string) ([]chat.Message, bool) {
	var in []json.RawMessage
	if json.Unmarshal([]byte(posted), &in) != nil {
		return nil, false
	}
	parsed, _, errs := chat.Parse(f, in)
	if len(errs) > 0 {
		return nil, false
	}
	var msgs []chat.Message
	for _, p := range parsed {
		msgs = append(msgs, p.Message)
	}
	return msgs, true
}

// FuzzWindow checks the main guarantee of this package: whatever is posted, in any formats, after dropping any atoms
// and changing any texts, the window in every format keeps the provider's rules and says what its messages say.
func FuzzWindow(f *testing.F) {
	at := func(f chat.Format) uint8 { return uint8(slices.Index(messageFormats, f)) }
	for i, first := range transcripts {
		for j, second := range transcripts {
			f.Add(at(first.format), first.posted, at(second.format), second.posted, uint64(i*31+j), uint64(0))
			f.Add(at(first.format), first.posted, at(second.format), second.posted, uint64(0), uint64(i*7919+j*104729))
		}
	}
	f.Fuzz(func(t *testing.T, f1 uint8, first string, f2 uint8, second string, drop, edits uint64) {
		a, ok := parseAll(messageFormats[f1%3], first)
		b, ok2 := parseAll(messageFormats[f2%3], second)
		if !ok || !ok2 {
			t.Skip()
		}
		checkStored(t, messageFormats[f1%3], a)
		checkStored(t, messageFormats[f2%3], b)
		checkLaw(t, append(a, b...), drop, edits)
	})
}

// checkLaw makes windows of a history after the drops and changes that the bits select.
func checkLaw(t *testing.T, history []chat.Message, drop, edits uint64) {
	t.Helper()
	as := atoms(history)
	i := 0
	as = slices.DeleteFunc(as, func(atom) bool {
		i++
		return drop>>(i%64)&1 == 1
	})
	openTail := settle(as)
	edit(as, edits)
	for _, format := range messageFormats {
		w := build(format, as, "", drop&1 == 1)
		var opts []chattest.Option
		if openTail {
			opts = append(opts, chattest.AllowOpenTail)
		}
		if err := chattest.Validate(format, w.Messages, w.System, opts...); err != nil {
			t.Fatalf("%s: %v\n%s", format, err, w.Messages)
		}
		checkCount(t, w)
		checkKept(t, format, as, &w)
	}
	if text := build(chat.Text, as, "", false).Text; len(text) == 0 {
		t.Fatal("the flat text is empty")
	}
}

// checkStored checks that storing Raw is enough: parsed again, it gives the same message.
func checkStored(t *testing.T, f chat.Format, msgs []chat.Message) {
	t.Helper()
	for _, m := range msgs {
		raw := "[" + string(m.Raw) + "]"
		if f == chat.OpenAIResponses {
			raw = string(m.Raw)
		}
		if again, ok := parseAll(f, raw); !ok || len(again) != 1 || !reflect.DeepEqual(again[0], m) {
			t.Fatalf("%s: %s\nis parsed as %+v\nand was       %+v", f, m.Raw, again, m)
		}
	}
}

// checkCount compares the builder's count with the number of elements in the array.
func checkCount(t *testing.T, w chat.Window) {
	t.Helper()
	var list []json.RawMessage
	if err := json.Unmarshal(w.Messages, &list); err != nil || len(list) != w.Rendered {
		t.Fatalf("rendered %d, counted %d (%v)\n%s", len(list), w.Rendered, err, w.Messages)
	}
}

// checkKept parses the window again and compares what it says with what its messages say.
func checkKept(t *testing.T, f chat.Format, as []atom, w *chat.Window) {
	t.Helper()
	again, ok := parseAll(f, string(w.Messages))
	if !ok {
		t.Fatalf("%s: what was rendered cannot be parsed\n%s", f, w.Messages)
	}
	var want, got said
	for _, a := range as {
		for _, m := range a.msgs {
			want.add(m, f)
		}
	}
	for _, m := range again {
		got.add(m, f)
	}
	if !got.holds(&want) || !slices.Equal(want.calls, got.calls) || want.results != got.results {
		t.Fatalf("%s: the window says\n%q %q %d\ninstead of\n%q %q %d\n%s", f, got.lines, got.calls,
			got.results, want.lines, want.calls, want.results, w.Messages)
	}
}

// said is what a list of messages says, apart from how a format divides it.
type said struct {
	lines   []string // the lines of all texts, without white space
	calls   []string
	results int
}

func (s *said) add(m chat.Message, f chat.Format) {
	text := m.Text
	if m.Kind == plan.KindA2A {
		text = "[from " + m.From + " to " + m.To + "] " + text
	}
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), ""); line != "" {
			s.lines = append(s.lines, line)
		}
	}
	for _, c := range m.Calls {
		if f == chat.AnthropicMessages {
			c.Arguments = wrapped(c.Arguments)
		}
		s.calls = append(s.calls, c.Name+" "+c.Arguments)
	}
	if m.Role == plan.RoleTool {
		s.results++
	}
}

// holds reports whether all lines occur, in order, and whether everything else stands for content that a format cannot
// represent: a name in brackets, or the placeholder.
func (s *said) holds(want *said) bool {
	i := 0
	for _, line := range s.lines {
		switch {
		case i < len(want.lines) && line == want.lines[i]:
			i++
		case line != chat.Placeholder && !strings.HasPrefix(line, "["):
			return false
		}
	}
	return i == len(want.lines)
}

// wrapped returns a call's arguments as an object, in a canonical form.
func wrapped(arguments string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()
	if strings.TrimSpace(arguments) == "" {
		v = map[string]any{}
	} else if !json.Valid([]byte(arguments)) || d.Decode(&v) != nil {
		v = arguments
	}
	if _, ok := v.(map[string]any); !ok {
		v = map[string]any{"arguments": v}
	}
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}
