package e2e

import (
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// readReport checks that the report has exactly one row for each considered message, oldest first, one for each
// injected message, and one for the messages beyond the horizon.
func (s *scene) readReport() {
	byID := map[string]*hard.Message{}
	for m, id := range s.ids {
		byID[id] = m
	}
	var order []*hard.Message
	beyond := 0
	for i, r := range s.win.Report {
		m := byID[r.MessageID]
		switch {
		case r.ReasonCode == "beyond_horizon":
			beyond++
			if i != len(s.win.Report)-1 || r.Action != "drop" || r.Count != s.older {
				s.fault("beyond_horizon row %d of %d: %+v, want the last with count %d", i, len(s.win.Report), r,
					s.older)
			}
		case m == nil && r.Action == "inject":
			s.injected = append(s.injected, r)
		case m == nil:
			s.fault("row %d is of no considered message: %+v", i, r)
		default:
			if _, twice := s.rows[m]; twice {
				s.fault("row %d: message %d has a second row: %+v", i, m.Seq, r)
			}
			s.rows[m] = r
			order = append(order, m)
		}
	}
	if want := min(1, s.older); beyond != want {
		s.fault("%d beyond_horizon rows, want %d", beyond, want)
	}
	for _, m := range s.considered {
		if _, ok := s.rows[m]; !ok {
			s.fault("missing row: message %d (turn %d, %s)", m.Seq, m.Turn, s.ids[m])
		}
	}
	bySeq := slices.IsSortedFunc(order, func(a, b *hard.Message) int { return a.Seq - b.Seq })
	if !bySeq && !slices.Equal(order, s.considered) {
		s.fault("rows are out of order")
	}
}

// checkRows checks that each row is possible: known actions with reasons, whole atoms, nothing from outside the scope.
func (s *scene) checkRows() {
	for _, m := range s.considered {
		r := s.rows[m]
		switch r.Action {
		case "keep":
			if r.TokensAfter != r.TokensBefore {
				s.fault("row of message %d: kept, yet %d tokens became %d", m.Seq, r.TokensBefore, r.TokensAfter)
			}
		case "drop", "compress", "truncate", "stub", "replace", "summarise":
			if r.ReasonCode == "" || r.Policy == "" || strings.ContainsAny(r.ReasonCode, " :") {
				s.fault("row of message %d: %s without a reason: %+v", m.Seq, r.Action, r)
			}
		default:
			s.fault("row of message %d: action %q", m.Seq, r.Action)
		}
		if r.Action == "drop" && r.TokensAfter != 0 {
			s.fault("row of message %d: dropped, yet %d tokens remain", m.Seq, r.TokensAfter)
		}
		if r.Turn != m.Turn && r.Turn != s.turnOf(m) {
			s.fault("row of message %d: turn %d, posted in %d", m.Seq, r.Turn, m.Turn)
		}
		if !s.visible(m) && r.Action != "drop" {
			s.fault("delegation: message %d of %q is %sed for a viewer in %q", m.Seq, m.Delegation, r.Action,
				s.ask.viewer)
		}
		if m.Role != "user" && r.Action == "compress" {
			s.fault("row of message %d: a %s message is no earlier question", m.Seq, m.Role)
		}
	}
	for _, atom := range s.atoms() {
		for _, m := range atom[1:] {
			if stays(s.rows[m].Action) != stays(s.rows[atom[0]].Action) {
				s.fault("atom split: message %d is %s, message %d is %s", atom[0].Seq, s.rows[atom[0]].Action,
					m.Seq, s.rows[m].Action)
			}
		}
	}
	for _, r := range s.injected {
		if r.ReasonCode == "" {
			s.fault("injected row without a reason: %+v", r)
		}
	}
}

// checkMandatory checks that the newest user message is unchanged and the newest atom is there. What an agent or a tool
// said may be cut if the budget does not hold it.
func (s *scene) checkMandatory() {
	user, agent, atom := s.mandatory()
	kept := func(m *hard.Message) bool { return m == nil || s.rows[m].Action == "keep" }
	if !kept(user) && !kept(agent) {
		s.fault("mandatory: the newest user message %d is %s", user.Seq, s.rows[user].Action)
	}
	for _, m := range atom {
		if short := s.rows[m].Action == "truncate" && m.Role != "user"; !short && !kept(m) {
			s.fault("mandatory: message %d of the newest atom is %s", m.Seq, s.rows[m].Action)
		}
	}
}

// checkRefusal checks that budget_too_small occurs only if the mandatory messages do not fit.
func checkRefusal(h *history, a ask, p problem) []string {
	s := stage(h, a)
	maxMessages, maxTokens, _ := a.limits()
	if p.Needed == nil || p.Allowed == nil {
		return []string{"a refusal without needed and allowed"}
	}
	if *p.Needed <= *p.Allowed {
		s.fault("refused though %d needed are within %d allowed", *p.Needed, *p.Allowed)
	}
	user, agent, atom := s.mandatory()
	var must []*hard.Message
	for _, m := range append(slices.Clone(atom), user, agent) {
		if m != nil && !slices.Contains(must, m) {
			must = append(must, m)
		}
	}
	count, tokens, known := len(must), 0, true
	for _, m := range must {
		if m.Seq > len(h.tokens) {
			known = false // the server has not told us the tokens of pending messages
		} else {
			tokens += h.tokens[m.Seq-1] + 40 // tokens differ slightly between formats
		}
	}
	small := maxMessages > 0 && count > maxMessages ||
		maxTokens > 0 && tokens > maxTokens || a.window > 0 && tokens+a.reserve+len(a.system) > a.window
	if known && !small {
		s.fault("refused though %d messages and at most %d tokens are mandatory: %+v", count, tokens, p)
	}
	return s.faults
}
