package prompt_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

const (
	question = `{"role":"user","content":"where is it?"}`
	calls    = `{"role":"assistant","content":[{"type":"thinking","thinking":"t1","signature":"s1"},{"type":"tool_use","id":"c","name":"f","input":{}}]}`
	result   = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"here"}]}`
	answers  = `{"role":"assistant","content":[{"type":"thinking","thinking":"t2","signature":"s2"},{"type":"text","text":"It is here."}]}`
)

// place returns a place that depends on the name.
func place(name string) prefix.Place { return prefix.Start(prefix.Text(name), prefix.Hash{}).Place }

// behind returns the place after some messages that are added at a place.
func behind(t *testing.T, p prefix.Place, messages ...string) prefix.Place {
	t.Helper()
	w := prefix.From(p)
	for _, m := range read(t, messages) {
		fr := chat.Render(chat.AnthropicMessages, &m.Message, chat.Options{})
		for i := range fr.Parts {
			w.Add(&fr.Parts[i].Part)
		}
	}
	return w.Place
}

func raw(messages []string) (out []json.RawMessage) {
	for _, m := range messages {
		out = append(out, json.RawMessage(m))
	}
	return out
}

func read(t *testing.T, messages []string) []chat.Parsed {
	t.Helper()
	parsed, _, bad := chat.Parse(chat.AnthropicMessages, raw(messages))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	return parsed
}

// named adds a decision to a message.
func named(message, decision string) string {
	return `{"decision_id":"` + decision + `",` + strings.TrimPrefix(message, "{")
}

func TestTrace(t *testing.T) {
	t.Parallel()
	one, two := place("one"), place("two")
	first := prompt.Kept{Format: chat.AnthropicMessages, Pending: raw([]string{question}), End: one}
	second := prompt.Kept{Format: chat.AnthropicMessages, Pending: raw([]string{question, calls, result}), End: two,
		Made: map[int]prefix.Place{1: one}}
	spaced := first
	spaced.Pending = raw([]string{` { "content" : [ {"text":"where is it?","type":"text"} ], "role":"user" }`})
	kept := map[string]*prompt.Kept{"first": &first, "second": &second, "spaced": &spaced}
	whole := []string{question, calls, result, answers}
	nowhere := prefix.Place{}
	for _, tt := range []struct {
		name   string
		turn   string
		posted []string
		want   []prefix.Place // of the replies
	}{
		{"nothing is named", "", whole, []prefix.Place{nowhere, nowhere}},
		{"the first, to which the rest was added", "first", whole, []prefix.Place{one, behind(t, one, calls, result)}},
		{"the last", "second", whole, []prefix.Place{one, two}},
		{"each its own", "", []string{question, named(calls, "first"), result, named(answers, "second")},
			[]prefix.Place{one, two}},
		{"its own before the turn's", "first", []string{question, calls, result, named(answers, "second")},
			[]prefix.Place{one, two}},
		{"the first alone", "", []string{question, named(calls, "first"), result, answers},
			[]prefix.Place{one, behind(t, one, calls, result)}},
		{"the question was posted before", "first", []string{calls, result, answers}, []prefix.Place{one, nowhere}},
		{"another question", "second", []string{strings.Replace(question, "it", "she", 1), calls, result, answers},
			[]prefix.Place{two, nowhere}},
		{"a decision that is gone", "gone", whole, []prefix.Place{nowhere, nowhere}},
		{"Mneme's own fields do not count", "first", []string{`{"tags":["x"],` + question[1:], calls, result, answers},
			[]prefix.Place{one, behind(t, one, calls, result)}},
	} {
		messages := read(t, tt.posted)
		prompt.Trace(chat.AnthropicMessages, raw(tt.posted), messages, kept[tt.turn],
			func(id string) *prompt.Kept { return kept[id] })
		var got []prefix.Place
		for _, m := range messages {
			if chat.RoleName(m.Role) == "assistant" {
				got = append(got, m.Made)
			} else if m.Made.Known() {
				t.Errorf("%s: a message that no model made was made somewhere", tt.name)
			}
		}
		for i := range tt.want {
			if got[i] != tt.want[i] {
				t.Errorf("%s: reply %d was made at %v, want %v", tt.name, i, got[i], tt.want[i])
			}
		}
	}
	// A window in another format says nothing about thinking that was posted in this one.
	messages := read(t, whole)
	other := first
	other.Format = chat.OpenAIChat
	prompt.Trace(chat.AnthropicMessages, raw(whole), messages, &other, nil)
	if messages[1].Made.Known() {
		t.Error("a window in another format was believed")
	}
}

// TestSheet compares sheets with windows that were built by hand: thinking is left out if its prompt differs, also if
// leaving it out makes the format insert a placeholder.
func TestSheet(t *testing.T) {
	t.Parallel()
	const thinks = `{"role":"assistant","content":[{"type":"thinking","thinking":"alone","signature":"s"}]}`
	var lastTrace prefix.Trace
	build := func(system string, made []prefix.Place, before *prefix.Trace, messages ...string) (*prompt.Sheet, string) {
		parsed := read(t, messages)
		var sheet prompt.Sheet
		var b chat.Builder
		sheet.Begin(prompt.Input{Format: chat.AnthropicMessages, Control: prompt.Keep, Before: before,
			Entry: func(item int32) prompt.Entry {
				e := prompt.Entry{Tokens: 10, Pending: -1, Reply: chat.RoleName(parsed[item].Role) == "assistant"}
				if made == nil {
					e.Pending = int(item)
				} else if int(item) < len(made) {
					e.Made = made[item]
				}
				return e
			}})
		var w chat.Window
		for again := true; again; again = sheet.Amend(&b, &w) {
			b.Reset(chat.AnthropicMessages, nil, render.SystemText(system))
			for i := range parsed {
				fr := chat.Render(chat.AnthropicMessages, &parsed[i].Message, chat.Options{})
				b.Add(&fr, uint64(i+1))
			}
			w = b.Finish()
		}
		lastTrace = sheet.Trace(&b, &w, 0)
		return &sheet, string(w.Messages)
	}
	start := prefix.Start(prefix.Text("You help."), prefix.Hash{}).Place
	q := behind(t, start, question)
	made := []prefix.Place{{}, q, {}, behind(t, q, calls, result)}
	whole := []string{question, calls, result, answers}
	if s, got := build("You help.", made, nil, whole...); len(s.Stripped) != 0 || strings.Count(got, `"thinking":`) != 2 {
		t.Errorf("behind its own prompt: %v are left out of %s", s.Stripped, got)
	}
	if s, got := build("You hinder.", made, nil, whole...); len(s.Stripped) != 2 || strings.Contains(got, "thinking") {
		t.Errorf("behind another system prompt: %v are left out of %s", s.Stripped, got)
	}
	// The last was made after what is there now, the first was not.
	made[3] = behind(t, behind(t, start, question, strings.Replace(calls, `{"type":"thinking","thinking":"t1","signature":"s1"},`, "", 1)), result)
	made[1] = place("elsewhere")
	if s, got := build("You help.", made, nil, whole...); len(s.Stripped) != 1 || !strings.Contains(got, "t2") {
		t.Errorf("after a cut: %v are left out of %s", s.Stripped, got)
	}
	// A message that consists of thinking gets a placeholder if that is left out. What was made after it without the
	// placeholder was then made after another prompt.
	alone := []string{question, thinks, question, answers}
	made = []prefix.Place{{}, place("elsewhere"), {}, behind(t, q, thinks, question)}
	if s, got := build("You help.", made, nil, alone...); len(s.Stripped) != 2 || strings.Contains(got, "thinking") {
		t.Errorf("behind a placeholder: %v are left out of %s", s.Stripped, got)
	}
	// It is not known where pending replies were made, but the previous window ended there.
	before := &prefix.Trace{End: q}
	s, got := build("You help.", nil, before, question, calls, result)
	if len(s.Stripped) != 0 || s.Made[1] != q {
		t.Errorf("pending: %v are left out of %s, and %v is known", s.Stripped, got, s.Made)
	}
	if s, _ := build("You hinder.", nil, before, question, calls, result); len(s.Stripped) != 1 {
		t.Errorf("pending, behind another system prompt: %v are left out", s.Stripped)
	}

	// A cut inside a turn can put a new reply where an older one stood. It was not made there.
	traced := func(before *prefix.Trace, shown ...string) (*prompt.Sheet, string, prefix.Trace) {
		s, got := build("You help.", nil, before, shown...)
		return s, got, lastTrace
	}
	_, _, one := traced(nil, question)
	_, _, two := traced(&one, question, calls, result)
	further := strings.NewReplacer("t1", "t3", `"c"`, `"d"`).Replace(calls)
	answered := strings.Replace(result, `"c"`, `"d"`, 1)
	s, got, three := traced(&two, question, further, answered)
	if len(s.Stripped) != 1 || strings.Contains(got, "thinking") {
		t.Errorf("a new reply in the place of an older one: %v are left out of %s", s.Stripped, got)
	}
	// The window after it still knows where that reply was made.
	if s, got, _ := traced(&three, question, further, answered); len(s.Stripped) != 1 {
		t.Errorf("a reply whose thinking went: %v are left out of %s", s.Stripped, got)
	}
	// Where nothing is cut, each reply keeps its thinking.
	if s, got, _ := traced(&two, question, calls, result, further, answered); len(s.Stripped) != 0 {
		t.Errorf("a reply behind the window before: %v are left out of %s", s.Stripped, got)
	}
}
