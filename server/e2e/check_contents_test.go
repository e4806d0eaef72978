package e2e

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

func errorf(format string, args ...any) error { return errors.New(sprintf(format, args...)) }

// placeholder is used in Anthropic windows in place of an empty message, and before a first message that is not a
// user's.
const placeholder = "…"

// reading compares a window's elements, one after another, with what the report says.
type reading struct {
	*scene
	list    []element
	pos     int
	notices int // system-class messages so far, without the marker
	markers int // occurrences of the marker so far
	madeUp  int // added results so far
	count   int // messages that count against max_messages
	// questions is the number of earlier questions so far, which count against max_tokens only.
	questions int
	lost      bool
}

// checkContents checks that the window contains exactly what the rows say, in order and as posted.
func (s *scene) checkContents() {
	list, fault := flatten(s.ask.target(), s.win.Messages)
	if fault != "" {
		s.fault("%s", fault)
		return
	}
	r := &reading{scene: s, list: list}
	r.checkSystem()
	atoms := s.atoms()
	if s.opensWithPlaceholder() {
		r.pos++
	}
	_, _, last := s.mandatory()
	var asked []*hard.Message // the current run of compressed questions
	for i, atom := range atoms {
		head := atom[0]
		action := s.rows[head].Action
		if len(asked) > 0 && (stays(action) && s.visible(head) || head.Turn != asked[0].Turn) {
			r.question(asked)
			asked = nil
		}
		switch {
		case action == "compress":
			asked = append(asked, head)
		case stays(action):
			r.atom(atom, slices.Equal(atom, last))
		}
		if i == len(atoms)-1 && len(asked) > 0 {
			r.question(asked)
		}
	}
	r.skipNotices()
	if !r.lost && r.pos < len(list) {
		s.fault("%s", r.stranger("the end of the window"))
	}
	r.checkCounts()
}

// checkSystem checks that the request's system text comes first, and that only notices accompany it.
func (r *reading) checkSystem() {
	if r.ask.target() == hard.Anthropic {
		rest, ok := strings.CutPrefix(r.win.System, r.ask.system)
		if !ok {
			r.fault("system %q does not begin with the request's %q", r.win.System, r.ask.system)
		}
		if strings.TrimSpace(rest) != "" {
			r.notices++
		}
		return
	}
	if r.win.System != "" {
		r.fault("system %q in a format that has no such member", r.win.System)
	}
	if r.ask.system == "" {
		return
	}
	if first := r.peek(); first == nil || first.role != "system" && first.role != "developer" ||
		first.text != r.ask.system {
		r.fault("the request's system text is not in front")
		return
	}
	r.pos++
}

func (r *reading) peek() *element {
	if r.pos < len(r.list) {
		return &r.list[r.pos]
	}
	return nil
}

func (r *reading) skipNotices() {
	for e := r.peek(); e != nil && (e.role == "system" || e.role == "developer" || r.isMarker(e)); e = r.peek() {
		if r.isMarker(e) {
			r.markers++
		} else {
			r.notices++
		}
		r.pos++
	}
}

// marker is shown where messages were left out; a ledger continues it with the literals in them.
const marker = "[earlier messages left out]"

// isMarker reports whether an element is the marker, which is a user message in Anthropic's format, or a ledger, which
// is one in each.
func (r *reading) isMarker(e *element) bool {
	if strings.HasPrefix(e.text, marker+" They named ") {
		return e.role == "user"
	}
	return e.text == marker && (e.role == "user") == (r.ask.target() == hard.Anthropic)
}

// atom reads one atom: its message, then results in order, including added results for unanswered calls.
func (r *reading) atom(atom []*hard.Message, last bool) {
	ids := r.message(atom[0], nil)
	results, missing := atom[1:], unanswered(atom)
	if last {
		missing = nil
	}
	for len(results)+len(missing) > 0 && !r.lost {
		e := r.peek()
		at := -1
		if e != nil && e.kind == "result" {
			at = slices.IndexFunc(missing, func(c hard.Call) bool { return ids[c.ID] == e.id })
		}
		if at >= 0 {
			missing = slices.Delete(slices.Clone(missing), at, at+1)
			r.pos, r.madeUp, r.count = r.pos+1, r.madeUp+1, r.count+1
			if blank(e.text) {
				r.fault("the result made up for call %q says nothing", e.id)
			}
			continue
		}
		if len(results) == 0 {
			r.lose("missing: no result for the unanswered call %q of message %d: %s", missing[0].ID, atom[0].Seq,
				r.stranger("it"))
			return
		}
		r.message(results[0], ids)
		results = results[1:]
	}
}

// message reads the elements of one message. It returns the ids that the window uses for its calls.
func (r *reading) message(m *hard.Message, calls map[string]string) map[string]string {
	if r.lost {
		return nil
	}
	r.skipNotices()
	r.reasoning(m)
	action, chat := r.rows[m].Action, r.ask.target() == hard.Chat
	ids := map[string]string{}
	from := r.pos
	want := expected(m)
	for i := 0; i < len(want); i++ {
		e, w := r.peek(), want[i]
		n := 0
		if e != nil {
			n = r.matches(m, action, want[i:], *e, calls)
		}
		if n == 0 && w.kind == "text" && blank(w.text) && (!chat || len(want) > 1) {
			if e != nil && e.kind == "text" && e.role == w.role && e.text == placeholder {
				r.pos++
			}
			continue // formats differ in what may be empty
		}
		if n == 0 {
			r.lose("%s", r.stranger(sprintf("message %d (turn %d, %s %s)", m.Seq, m.Turn, m.Role, w.kind)))
			return ids
		}
		if e.kind == "call" {
			ids[w.id] = e.id
		}
		i += n - 1
		r.pos++
	}
	r.count++
	if action == "keep" && !m.A2A() {
		r.checkAsPosted(m, r.list[from:r.pos])
	}
	return ids
}

// reasoning reads the reasoning items that stay with a message: those posted with it, unchanged.
func (r *reading) reasoning(m *hard.Message) {
	var posted []json.RawMessage
	action := r.rows[m].Action
	if r.ask.target() == r.history.pieces && (action == "keep" || action == "truncate") {
		posted = slices.DeleteFunc(slices.Clone(m.Pieces), func(p json.RawMessage) bool { return !isReasoning(p) })
	}
	for e := r.peek(); e != nil && e.kind == "reasoning"; e = r.peek() {
		if len(posted) == 0 || !sameJSON(posted[0], e.raw) {
			r.lose("reasoning: %s stands before message %d, which was not posted with it", e.raw, m.Seq)
			return
		}
		posted = posted[1:]
		r.pos++
	}
	if len(posted) > 0 && action == "keep" { // reasoning may be removed with a text that was cut
		r.fault("reasoning: message %d lost %s", m.Seq, posted[0])
	}
}

// question reads one compressed run: exactly the bracketed text, with the users' texts joined by newlines.
func (r *reading) question(asked []*hard.Message) {
	if r.lost {
		return
	}
	r.skipNotices()
	var joined []string
	exact := true
	for _, m := range asked {
		joined = append(joined, strings.Join(texts(m), "\n"))
		exact = exact && len(m.Parts) < 2 // otherwise empty parts may be left out
	}
	label := sprintf("[earlier question] (turn %d): ", asked[0].Turn)
	want := label + strings.Join(joined, "\n")
	e := r.peek()
	same := e != nil && e.role == "user" && e.kind == "text" && strings.HasPrefix(e.text, label)
	if !same || e.text != want && !shortened(e.text, want) && (exact || squashed(e.text) != squashed(want)) {
		r.lose("question: %s", r.stranger(sprintf("%q", clip(want, 200))))
		return
	}
	r.pos++
	r.questions++
}

// shortened reports whether a question is a long one without its middle.
func shortened(text, whole string) bool {
	whole = squashed(whole)
	parts := strings.Split(text, "…") // the text itself may contain this character
	for n := 1; n < len(parts); n++ {
		head, tail := squashed(strings.Join(parts[:n], "…")), squashed(strings.Join(parts[n:], "…"))
		if len(head)+len(tail) <= len(whole) && strings.HasPrefix(whole, head) && strings.HasSuffix(whole, tail) {
			return true
		}
	}
	return false
}

// squashed returns a text without its white space.
func squashed(text string) string { return strings.Join(strings.Fields(text), "") }

// lose stops the reading, because everything after it would repeat the same fault.
func (r *reading) lose(format string, args ...any) {
	r.fault(format, args...)
	r.lost = true
}

// stranger describes the element found in place of the expected one.
func (r *reading) stranger(where string) string {
	e := r.peek()
	if e == nil {
		return sprintf("missing: the window ends where %s should stand", where)
	}
	here := sprintf("%s %s %q %q", e.role, e.kind, e.id, clip(e.text, 120))
	for _, m := range slices.Backward(r.considered) {
		for _, w := range expected(m) {
			if w.kind != e.kind || w.role != e.role || w.text != e.text || e.id != w.id {
				continue
			}
			switch {
			case !r.visible(m):
				return sprintf("delegation: message %d of %q leaked where %s should stand", m.Seq, m.Delegation, where)
			case !stays(r.rows[m].Action):
				return sprintf("message %d stands where %s should, though its row says %s", m.Seq, where,
					r.rows[m].Action)
			default:
				return sprintf("order: message %d stands where %s should", m.Seq, where)
			}
		}
	}
	return sprintf("invented or changed: %s stands where %s should", here, where)
}
