package e2e

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// matches returns how many of a message's expected elements one element of the window shows, because formats may join
// texts.
func (r *reading) matches(m *hard.Message, action string, want []element, e element, calls map[string]string) int {
	w := want[0]
	if e.kind != w.kind || e.role != w.role {
		return 0
	}
	edited := action != "keep"
	yes := false
	switch w.kind {
	case "image":
		yes = strings.Contains(e.text, w.text)
	case "call":
		yes = e.name == w.name && r.sameID(w.id, e.id) && r.sameArguments(w.text, e.text)
	case "result":
		yes = calls[w.id] == e.id && (edited || slices.Contains(joins(texts(m)), e.text) ||
			blank(w.text) && (blank(e.text) || e.text == placeholder))
	case "text":
		names := m.A2A() && strings.Contains(e.text, m.From) && strings.Contains(e.text, m.To)
		if edited { // one text may replace all others
			n := 1
			for n < len(want) && want[n].kind == "text" {
				n++
			}
			return n
		}
		if names && strings.Contains(e.text, w.text) || e.text == w.text && r.moreTexts() {
			return 1
		}
		var run []string
		longest := 0 // an empty text must not be left to match the next message
		for n := 0; n < len(want) && want[n].kind == "text"; n++ {
			if run = append(run, want[n].text); slices.Contains(joins(run), e.text) {
				longest = n + 1
			}
		}
		return longest
	}
	if yes {
		return 1
	}
	return 0
}

// moreTexts reports whether the window's message has texts after the current one, so that its parts are separate. In
// Anthropic's format the next text may belong to another message.
func (r *reading) moreTexts() bool {
	if r.pos+1 >= len(r.list) || r.ask.target() == hard.Anthropic {
		return false
	}
	e, next := r.list[r.pos], r.list[r.pos+1]
	return next.kind == "text" && next.at == e.at
}

// joins returns the ways in which a format may join several texts, with or without empty ones.
func joins(run []string) []string {
	loud := slices.DeleteFunc(slices.Clone(run), blank)
	some := slices.DeleteFunc(slices.Clone(run), func(text string) bool { return text == "" })
	return []string{strings.Join(run, ""), strings.Join(run, "\n"), strings.Join(loud, "\n"), strings.Join(some, "\n")}
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// texts returns the texts among a message's parts.
func texts(m *hard.Message) (out []string) {
	for _, p := range m.Parts {
		if p.Image == "" {
			out = append(out, p.Text)
		}
	}
	return out
}

// sameID compares ids. In formats with unique ids, a repeated id may have a suffix.
func (r *reading) sameID(posted, shown string) bool {
	return posted == shown || r.ask.target() != hard.Chat && strings.HasPrefix(shown, posted)
}

// sameArguments compares arguments. In Anthropic's format, arguments that are not an object are wrapped in one.
func (r *reading) sameArguments(posted, shown string) bool {
	if posted == shown {
		return true
	}
	if r.ask.target() != hard.Anthropic {
		return r.history.pieces == hard.Anthropic && sameJSON([]byte(posted), []byte(shown))
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(posted), &object) == nil && object != nil {
		return sameJSON([]byte(posted), []byte(shown))
	}
	if json.Unmarshal([]byte(shown), &object) != nil || len(object) > 1 {
		return false
	}
	for _, value := range object {
		var text string
		return json.Unmarshal(value, &text) == nil && text == posted || sameJSON(value, []byte(posted))
	}
	return blank(posted)
}

// checkAsPosted checks that a kept message has its posted bytes if the window has the message's own format.
func (r *reading) checkAsPosted(m *hard.Message, shown []element) {
	switch {
	case m.Posted != nil && r.ask.target() == hard.Chat:
		want, got := stripped(m.Posted, m.A2A()), shown[0].raw
		mended := bytes.ReplaceAll(want, []byte(`"content":null`), []byte(`"content":""`)) // OpenAI refuses null here
		if !bytes.Equal(want, got) && (len(m.Calls) > 0 || !bytes.Equal(mended, got)) {
			r.fault("bytes of message %d changed:\n    posted %s\n    shown  %s", m.Seq,
				clip(string(want), 600), clip(string(got), 600))
		}
	case m.Role == "tool" && slices.ContainsFunc(texts(m), blank):
		// A format may have to leave out empty content, or replace it.
	case m.Pieces != nil && r.history.pieces == r.ask.target():
		var pieces []json.RawMessage
		for _, p := range m.Pieces {
			if !blankText(p) && !isReasoning(p) {
				pieces = append(pieces, p)
			}
		}
		n := 0
		for _, e := range shown {
			if e.raw == nil || blankText(e.raw) || e.text == placeholder {
				continue
			}
			if n >= len(pieces) || !sameJSON(withoutIDs(pieces[n]), withoutIDs(e.raw)) &&
				!sameJSON(withoutIDs(withoutMarks(pieces[n])), withoutIDs(e.raw)) {
				r.fault("piece %d of message %d changed: %s", n, m.Seq, clip(string(e.raw), 600))
				return
			}
			n++
		}
		if n < len(pieces) {
			r.fault("piece %d of message %d is missing: %s", n, m.Seq, clip(string(pieces[n]), 600))
		}
	}
}

func isReasoning(raw json.RawMessage) bool {
	var item responseItem
	return json.Unmarshal(raw, &item) == nil && item.Type == "reasoning"
}

// blankText reports whether a text block is blank; formats may leave such blocks out.
func blankText(raw json.RawMessage) bool {
	var p contentPart
	return json.Unmarshal(raw, &p) == nil && p.Type == "text" && blank(p.Text)
}

// withoutIDs removes the ids of a block or an item, which matches has compared.
func withoutIDs(raw json.RawMessage) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return raw
	}
	delete(object, "tool_use_id")
	delete(object, "call_id")
	if string(object["type"]) == `"tool_use"` {
		delete(object, "id")
	}
	out, _ := json.Marshal(object)
	return out
}

// withoutMarks returns a piece without cache_control at any depth: Anthropic accepts four in a window, so older ones
// are removed.
func withoutMarks(piece []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(piece))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return piece
	}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "cache_control")
			for _, inner := range v {
				strip(inner)
			}
		case []any:
			for _, inner := range v {
				strip(inner)
			}
		}
	}
	strip(v)
	out, err := json.Marshal(v)
	if err != nil {
		return piece
	}
	return out
}

// sameJSON compares JSON values, and numbers by their digits.
func sameJSON(a, b []byte) bool {
	var x, y any
	read := func(data []byte, v *any) error {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		return d.Decode(v)
	}
	return read(a, &x) == nil && read(b, &y) == nil && reflect.DeepEqual(x, y)
}

// checkCounts checks that there is one injected row for each thing that nobody posted, and that the message budget is
// kept.
func (r *reading) checkCounts() {
	if r.lost {
		return
	}
	notices, results, markers := 0, 0, 0
	for _, row := range r.injected {
		switch row.ReasonCode {
		case "call_unanswered":
			results++
		case "messages_left_out", "ledger":
			markers++
		default:
			notices++
		}
	}
	if markers != r.markers {
		r.fault("injected rows: %d markers are reported, %d stand in the window", markers, r.markers)
	}
	if r.ask.target() == hard.Anthropic {
		notices = min(notices, 1) // they are joined to one text
	}
	if results != r.madeUp || notices != r.notices {
		r.fault("injected rows: %d results and %d notices are reported, %d and %d stand in the window",
			results, notices, r.madeUp, r.notices)
	}
	if maxMessages, _, _ := r.ask.limits(); maxMessages > 0 && r.count > maxMessages {
		r.fault("budget: %d messages counted, %d allowed", r.count, maxMessages)
	}
	if r.count != r.win.Usage.HistoryMessages {
		r.fault("usage: history_messages %d, counted %d", r.win.Usage.HistoryMessages, r.count)
	}
	if r.questions != r.win.Usage.CompressedMessages {
		r.fault("usage: compressed_messages %d, counted %d", r.win.Usage.CompressedMessages, r.questions)
	}
}

// opensWithPlaceholder reports whether a user message was added because Anthropic requires one first.
func (s *scene) opensWithPlaceholder() bool {
	if s.ask.target() != hard.Anthropic || len(s.win.Messages) == 0 {
		return false
	}
	first, err := anthropicElements(s.win.Messages[0])
	return err == nil && first[0].role == "user" && first[0].text == placeholder
}

// checkUsage checks the budgets against the numbers in the answer.
func (s *scene) checkUsage() {
	u := s.win.Usage
	_, maxTokens, _ := s.ask.limits()
	if maxTokens > 0 && u.Tokens-u.SystemTokens > maxTokens {
		s.fault("budget: %d tokens beside the system's %d, %d allowed", u.Tokens-u.SystemTokens, u.SystemTokens,
			maxTokens)
	}
	if s.ask.window > 0 && u.Tokens+s.ask.reserve > s.ask.window {
		s.fault("budget: %d tokens and %d reserved, %d allowed", u.Tokens, s.ask.reserve, s.ask.window)
	}
	if u.Messages != len(s.win.Messages) {
		s.fault("usage: messages %d, the window has %d", u.Messages, len(s.win.Messages))
	}
	if u.ConsideredMessages != len(s.considered) {
		s.fault("usage: considered_messages %d, want %d", u.ConsideredMessages, len(s.considered))
	}
	if (s.ask.system == "") != (u.SystemTokens == 0) {
		s.fault("usage: %d tokens for the system text %q", u.SystemTokens, s.ask.system)
	}
	before, after := 0, 0
	for _, r := range s.rows {
		before, after = before+r.TokensBefore, after+r.TokensAfter
	}
	for _, r := range s.injected {
		after += r.TokensAfter
	}
	if u.ConsideredTokens != before {
		s.fault("usage: considered_tokens %d, the rows' sum is %d", u.ConsideredTokens, before)
	}
	if len(s.win.Messages) > 0 {
		after += primer
	}
	if lead := u.Tokens - u.SystemTokens - after; lead != 0 && !(s.opensWithPlaceholder() && lead > 0 && lead < 10) {
		s.fault("usage: tokens %d of which system %d, the rows' sum is %d", u.Tokens, u.SystemTokens, after)
	}
	s.checkParts(maxTokens)
}

// primer is the number of tokens that begin a model's reply, counted once for each prompt.
const primer = 3

// checkParts checks that the parts of the usage add up to the window's tokens, and together with what is left to its
// limit.
func (s *scene) checkParts(maxTokens int) {
	u, p := s.win.Usage, s.win.Usage.Parts
	shown := p.System + p.Summary + p.Memories + p.Marker + p.History + p.Pending
	if p.System != u.SystemTokens || shown != u.Tokens || min(p.Tools, p.Summary, p.Memories, p.Marker, p.History,
		p.Pending, p.Free) < 0 {
		s.fault("usage: the parts %+v of %d tokens, of which system %d", p, u.Tokens, u.SystemTokens)
	}
	whole := s.ask.window
	if whole == 0 && maxTokens > 0 {
		whole = maxTokens + p.System + p.Tools
	}
	if sum := shown + p.Tools + p.Reserved + p.Free; whole > 0 && sum != whole {
		s.fault("usage: the parts %+v are %d together, want %d", p, sum, whole)
	}
	notices := 0
	for _, r := range s.injected {
		if r.ReasonCode != "call_unanswered" {
			notices += r.TokensAfter
		}
	}
	if got := p.Summary + p.Memories + p.Marker; got != notices {
		s.fault("usage: the parts %+v have %d in notices, the report %d", p, got, notices)
	}
}
