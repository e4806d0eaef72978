package e2e

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// share is what one turn has of the window, beside the messages that must stay anyway.
type share struct {
	shown, lost int // messages in the window, and messages that the budget took
	// messages and tokens are at most what the lost ones would take up.
	messages, tokens int
}

// slack covers what the estimates of a share leave out: a marker, placeholders, another count in another format.
const slack = 60

// checkDefaults wants what the default pipeline promises: depth, whole turns from the newest back, and no turn
// trimmed that fits.
func (s *scene) checkDefaults() {
	_, _, depth := s.ask.limits()
	user, agent, last := s.mandatory()
	shares := map[int]*share{}
	for _, atom := range s.atoms() {
		if !s.visible(atom[0]) {
			continue
		}
		turn, old := atom[0].Turn, atom[0].Turn <= s.newestTurn-depth
		if shares[turn] == nil {
			shares[turn] = &share{}
		}
		for _, m := range atom {
			must := m == user || m == agent || slices.Contains(last, m)
			if !must || s.rows[m].Action != "keep" {
				s.checkDepth(m, turn, old)
				shares[turn].add(m, s.rows[m], old)
			}
		}
		if open := len(unanswered(atom)); !old && s.rows[atom[0]].Action == "drop" {
			shares[turn].messages += open
			shares[turn].tokens += slack * open
		}
	}
	s.checkTrim(shares)
}

// checkDepth wants turns within the depth in full, and older ones as their questions alone.
func (s *scene) checkDepth(m *hard.Message, turn int, old bool) {
	action := s.rows[m].Action
	if old && stays(action) || !old && action == "compress" {
		s.fault("depth: message %d of turn %d is %s, the newest turn is %d", m.Seq, turn, action, s.newestTurn)
	}
}

func (h *share) add(m *hard.Message, r row, old bool) {
	switch {
	case r.Action == "summarise": // the budget had no part in it, and the turn is not shown
	case r.Action != "drop":
		h.shown++
	case !old || m.Role == "user": // of an older turn the depth takes the rest
		h.lost++
		h.messages++
		h.tokens += r.TokensBefore + slack
	}
}

// checkTrim wants the turns that the budget took to be the oldest, whole, and too big for the room that is left.
func (s *scene) checkTrim(shares map[int]*share) {
	oldestShown, newestLost, turnsShown := s.newestTurn+1, 0, 0
	for turn, h := range shares {
		if h.shown > 0 {
			oldestShown = min(oldestShown, turn)
			turnsShown++
		}
		if h.lost > 0 {
			newestLost = max(newestLost, turn)
		}
	}
	if newestLost == 0 {
		return
	}
	if newestLost > oldestShown {
		s.fault("suffix: turn %d was trimmed, the older turn %d was not", newestLost, oldestShown)
	}
	if newestLost == oldestShown && turnsShown > 1 {
		s.fault("suffix: turn %d was trimmed in part though %d turns are shown", newestLost, turnsShown)
	}
	messages, tokens := s.room()
	if h := shares[newestLost]; h.messages <= messages && h.tokens+slack <= tokens {
		s.fault("fits: turn %d was trimmed though its %d messages and at most %d tokens fit in %d and %d",
			newestLost, h.messages, h.tokens, messages, tokens)
	}
}

// room is what the window leaves of its budget.
func (s *scene) room() (messages, tokens int) {
	messages, tokens = 1<<30, 1<<30
	u := s.win.Usage
	maxMessages, maxTokens, _ := s.ask.limits()
	if maxMessages > 0 {
		messages = maxMessages - u.HistoryMessages
	}
	if maxTokens > 0 {
		tokens = maxTokens - (u.Tokens - u.SystemTokens)
	}
	if s.ask.window > 0 {
		tokens = min(tokens, s.ask.window-s.ask.reserve-u.Tokens)
	}
	return messages, tokens
}
