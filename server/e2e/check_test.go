package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// window is the answer to an ask.
type window struct {
	DecisionID string            `json:"decision_id"`
	Format     string            `json:"format"`
	Messages   []json.RawMessage `json:"messages"`
	System     string            `json:"system"`
	Text       string            `json:"text"`
	Usage      struct {
		Messages           int `json:"messages"`
		Tokens             int `json:"tokens"`
		HistoryMessages    int `json:"history_messages"`
		CompressedMessages int `json:"compressed_messages"`
		HistoryTokens      int `json:"history_tokens"`
		SystemTokens       int `json:"system_tokens"`
		ConsideredMessages int `json:"considered_messages"`
		ConsideredTokens   int `json:"considered_tokens"`

		Parts usageParts `json:"parts"`
	} `json:"usage"`
	Summary *struct {
		Text        string `json:"text"`
		CoversTurns []int  `json:"covers_turns"`
	} `json:"summary"`
	Memories []remembered `json:"memories"`
	Pipeline []step       `json:"pipeline"`
	Report   []row        `json:"report"`
}

// usageParts is the tokens of each part of a prompt.
type usageParts struct {
	System   int `json:"system"`
	Tools    int `json:"tools"`
	Summary  int `json:"summary"`
	Memories int `json:"memories"`
	Marker   int `json:"marker"`
	History  int `json:"history"`
	Pending  int `json:"pending"`
	Reserved int `json:"reserved"`
	Free     int `json:"free"`
}

// step is the result of one policy of the pipeline.
type step struct {
	Policy  string `json:"policy"`
	Version int    `json:"version"`
	Digest  string `json:"digest"`
	Fuel    int    `json:"fuel"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail"`
}

// row says what happened to one message.
type row struct {
	MessageID    string          `json:"message_id"`
	Turn         int             `json:"turn"`
	Action       string          `json:"action"`
	Policy       string          `json:"policy"`
	ReasonCode   string          `json:"reason_code"`
	Reason       string          `json:"reason"`
	TokensBefore int             `json:"tokens_before"`
	TokensAfter  int             `json:"tokens_after"`
	Count        int             `json:"count"`
	Turns        json.RawMessage `json:"turns"`
}

// scene is one window and everything that it is checked against, derived only from what was posted.
type scene struct {
	history    *history
	ask        ask
	win        *window
	considered []*hard.Message // in window order: an atom has the position of its first message
	older      int             // messages beyond the horizon
	newestTurn int             // the pending turn's number, if there is one
	ids        map[*hard.Message]string
	rows       map[*hard.Message]row
	injected   []row
	faults     []string
}

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func (s *scene) fault(format string, args ...any) {
	s.faults = append(s.faults, sprintf(format, args...))
}

// check checks a window and returns a description of every fault.
func check(h *history, a ask, w *window) []string {
	s := stage(h, a)
	s.win = w
	s.checkPipeline()
	s.readReport()
	if len(s.faults) > 0 {
		return s.faults // without a row for each message nothing else can be checked
	}
	s.checkRows()
	s.checkMandatory()
	s.checkDefaults()
	s.checkUsage()
	s.checkProvider()
	s.checkContents()
	s.checkMemories()
	return s.faults
}

// stage determines the considered messages from the model alone.
func stage(h *history, a ask) *scene {
	s := &scene{history: h, ask: a, newestTurn: h.turns, ids: map[*hard.Message]string{}, rows: map[*hard.Message]row{}}
	maxMessages, _, _ := a.limits()
	limit := max(256, 4*maxMessages, threshold+1)
	if maxMessages == 0 || limit > 4096 {
		limit = 4096
	}
	oldest := h.tableStart(limit)
	for i, m := range h.messages {
		if m.Atom < oldest {
			s.older++
			continue
		}
		s.ids[m] = h.ids[i]
		s.considered = append(s.considered, m)
	}
	if a.pending != nil {
		s.newestTurn++
		for i, m := range a.pending.Messages {
			s.ids[m] = sprintf("pending:%d", i)
			s.considered = append(s.considered, m)
		}
	}
	sort.SliceStable(s.considered, func(i, j int) bool { return s.considered[i].Atom < s.considered[j].Atom })
	return s
}

// tableStart returns the first seq that a table may contain. It moves in steps of a quarter of the horizon, to the
// beginning of a turn, or of an atom if the turn is longer than the shortest table.
func (h *history) tableStart(horizon int) int {
	newest, step := len(h.messages), horizon/4
	if newest <= horizon {
		return 1
	}
	bound := (newest-horizon+step-1)/step*step + 1
	for seq := max(bound, 2); seq <= newest && seq < bound+3*step; seq++ {
		if h.messages[seq-1].Turn != h.messages[seq-2].Turn {
			return seq
		}
	}
	return bound
}

// visible reports whether the viewer may see a message.
func (s *scene) visible(m *hard.Message) bool {
	return s.ask.viewer == "" || m.Delegation == "" || m.Delegation == s.ask.viewer
}

// turnOf returns the turn that a message counts to: that of its atom's first message.
func (s *scene) turnOf(m *hard.Message) int {
	for _, other := range s.considered {
		if other.Seq == m.Atom {
			return other.Turn
		}
	}
	return m.Turn
}

// atoms groups the considered messages.
func (s *scene) atoms() [][]*hard.Message {
	var out [][]*hard.Message
	for i, m := range s.considered {
		if i == 0 || s.considered[i-1].Atom != m.Atom {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], m)
	}
	return out
}

// unanswered returns the calls of an atom without a considered result.
func unanswered(atom []*hard.Message) []hard.Call {
	return slices.DeleteFunc(slices.Clone(atom[0].Calls), func(c hard.Call) bool {
		return slices.ContainsFunc(atom[1:], func(m *hard.Message) bool { return m.CallID == c.ID })
	})
}

// mandatory returns the messages that must stay whatever the budget is: the newest user message that the viewer may
// see, and the newest atom. Because a message between agents may or may not count as a user's, it returns both
// candidates.
func (s *scene) mandatory() (user, userOrAgent *hard.Message, atom []*hard.Message) {
	atoms := s.atoms()
	for _, a := range slices.Backward(atoms) {
		if !s.visible(a[0]) {
			continue
		}
		if atom == nil {
			atom = a
		}
		if a[0].Role == "user" && userOrAgent == nil {
			userOrAgent = a[0]
		}
		if a[0].Role == "user" && !a[0].A2A() {
			user = a[0]
			break
		}
	}
	return user, userOrAgent, atom
}

// checkPipeline checks that every step ran, because built-in policies never fail on valid input.
func (s *scene) checkPipeline() {
	var names []string
	for _, step := range s.win.Pipeline {
		names = append(names, step.Policy)
		if step.Outcome != "ok" || step.Version < 1 || step.Digest == "" || step.Fuel < 1 &&
			step.Policy != "summarise" {
			s.fault("pipeline: step %+v", step)
		}
	}
	want := s.history.pipeline
	if s.ask.depth != 0 {
		want = s.ask.pipeline()
	}
	if !slices.Equal(names, want) {
		s.fault("pipeline: ran %q, want %q", names, want)
	}
	if s.win.Format != string(s.ask.target()) {
		s.fault("format %q, asked for %q", s.win.Format, s.ask.target())
	}
	if s.win.DecisionID == "" {
		s.fault("no decision id")
	}
}

// stays reports whether an action leaves the message itself in the window.
func stays(action string) bool {
	return action == "keep" || action == "truncate" || action == "stub" || action == "replace"
}
