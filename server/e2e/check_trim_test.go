package e2e

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// share is the part of one turn that is in the window, besides mandatory messages.
type share struct {
	full, asked int  // messages in full, and messages shown as an earlier question
	cut, lost   int  // messages left out because of the budget, and those of them that were a user's
	must        bool // one of its messages is mandatory
}

// depthStep is the number of turns by which the default depth moves at a time.
const depthStep = 20

// newestOld returns the newest turn beyond the depth.
func (s *scene) newestOld() int {
	_, _, depth := s.ask.limits()
	if s.ask.depth != 0 {
		return s.newestTurn - depth // an explicit depth applies exactly to each turn
	}
	newest := 0
	for turn := depthStep / 2; turn <= s.newestTurn-depth; turn += depthStep {
		newest = turn
	}
	return newest
}

// checkDefaults checks what the default pipeline promises: of turns beyond the depth only the question, and of the
// others as many in full as the budget holds, without a gap: everything left out is older than everything kept.
func (s *scene) checkDefaults() {
	user, agent, last := s.mandatory()
	old := s.newestOld()
	shares := map[int]*share{}
	for _, atom := range s.atoms() {
		if !s.visible(atom[0]) {
			continue
		}
		turn := atom[0].Turn
		if shares[turn] == nil {
			shares[turn] = &share{}
		}
		for _, m := range atom {
			r := s.rows[m]
			if must := m == user || m == agent || slices.Contains(last, m); must && r.Action == "keep" {
				shares[turn].must = true
				continue
			}
			if turn <= old && stays(r.Action) {
				s.fault("depth: message %d of turn %d is %s, the newest old turn is %d", m.Seq, turn, r.Action, old)
			}
			if turn > old && r.ReasonCode == "beyond_depth" {
				s.fault("depth: message %d of turn %d is %s for its depth, the newest old turn is %d", m.Seq, turn,
					r.Action, old)
			}
			shares[turn].add(m, r)
		}
	}
	s.checkCuts(shares)
}

func (h *share) add(m *hard.Message, r row) {
	switch {
	case r.Action == "summarise": // not because of the budget, and the turn is not shown
	case r.Action == "compress":
		h.asked++
	case r.Action != "drop":
		h.full++
	case r.ReasonCode == "beyond_depth": // and the question is shown, or has no room
	default:
		h.cut++
		if m.Role == "user" {
			h.lost++
		}
	}
}

// checkCuts checks that a window has no gaps: messages left out because of the budget are older than those in full, a
// turn in full is newer than any question, and questions are newer than those left out.
func (s *scene) checkCuts(shares map[int]*share) {
	oldestFull, oldestAsked := s.newestTurn+1, s.newestTurn+1
	for turn, h := range shares {
		if h.full > 0 && !h.must { // a mandatory message keeps its turn, wherever the others are cut
			oldestFull = min(oldestFull, turn)
		}
		if h.asked > 0 {
			oldestAsked = min(oldestAsked, turn)
		}
	}
	for turn, h := range shares {
		if h.cut > 0 && turn > oldestFull {
			s.fault("gap: turn %d was cut, the older turn %d is in full", turn, oldestFull)
		}
		if h.lost > 0 && h.full+h.asked == 0 && !h.must && turn > oldestAsked {
			s.fault("gap: turn %d was left out, the older turn %d stands as a question", turn, oldestAsked)
		}
		for newer, q := range shares {
			if h.full > 0 && !h.must && q.asked > 0 && newer > turn {
				s.fault("gap: turn %d is a question, the older turn %d is in full", newer, turn)
			}
		}
	}
	s.checkNothingGoesThatFits(shares)
}

// slack allows for what the estimates leave out: a marker, placeholders, different counts in another format.
const slack = 60

// checkNothingGoesThatFits checks that turns are cut only if all messages together do not fit.
func (s *scene) checkNothingGoesThatFits(shares map[int]*share) {
	messages, tokens := 0, 0
	for m, r := range s.rows {
		if s.visible(m) && r.Action != "summarise" {
			messages, tokens = messages+1, tokens+r.TokensBefore
		}
	}
	for _, atom := range s.atoms() {
		n := len(unanswered(atom))
		messages, tokens = messages+n, tokens+n*slack
	}
	for _, r := range s.injected {
		tokens += r.TokensAfter
	}
	maxMessages, maxTokens, _ := s.ask.limits()
	if s.ask.window > 0 {
		if room := s.ask.window - s.ask.reserve - s.win.Usage.SystemTokens; maxTokens == 0 || room < maxTokens {
			maxTokens = room
		}
	}
	fits := (maxMessages == 0 || messages <= maxMessages) && (maxTokens == 0 || tokens+slack <= maxTokens)
	for turn, h := range shares {
		if h.cut > 0 && fits {
			s.fault("fits: turn %d was cut though all %d messages and %d tokens fit", turn, messages, tokens)
		}
	}
}
