package window

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
)

// Reasons for what a window leaves out or labels because of delegations.
const (
	reasonReported = "delegated: a call of the main agent and its result stand for it"
	reasonInner    = "delegated: the main agent sees the result"
	reasonLabel    = "delegated: the label says whose result it is"
	reasonTopLevel = "top_level: a delegation sees the results of the top level, not its chat"
)

// scoped is what a viewer sees of a message of another agent.
type scoped struct {
	fate plan.Fate
	text string // if the fate is plan.Replace
}

// scope determines, by message number, what the viewer sees of other agents' messages, unless it sees them whole. A
// viewer in a delegation sees results of the top level. The main agent sees the results of delegations.
func (a *assembly) scope() error {
	a.scopes = nil
	switch v := &a.request.Viewer; {
	case v.Whole || v.Alone:
		return nil
	case a.viewerDelegation() != "":
		a.scopeDelegation()
		return nil
	}
	return a.scopeMain()
}

func (a *assembly) setScope(r *cache.Row, s scoped) {
	if a.scopes == nil {
		a.scopes = map[uint64]scoped{}
	}
	s.fate.Step = -1
	a.scopes[r.Seq] = s
}

// scopeDelegation hides what the top level says besides calls with results, and messages between agents.
func (a *assembly) scopeDelegation() {
	answered := answeredCalls(a.rows)
	for _, r := range a.rows {
		if r.Header.Delegation == "" && r.Kind != plan.KindA2A && !answered[r.Call] {
			a.setScope(r, scoped{fate: plan.Fate{Action: plan.Drop, Reason: reasonTopLevel}})
		}
	}
}

// answeredCalls returns the messages with calls that have at least one result.
func answeredCalls(rows []*cache.Row) map[uint64]bool {
	out := map[uint64]bool{}
	for _, r := range rows {
		if r.Role == plan.RoleTool && r.Call != r.Seq {
			out[r.Call] = true
		}
	}
	return out
}

// newestResults returns which rows are the newest results of the top level, with their calls, that take at most so many
// tokens as stored.
func (a *assembly) newestResults(rows []*cache.Row, most int) map[*cache.Row]bool {
	answered, tokens := answeredCalls(rows), map[uint64]int{}
	var calls []uint64
	for _, r := range rows {
		if r.Header.Delegation != "" || r.Lost() || !answered[r.Call] {
			continue
		}
		if _, known := tokens[r.Call]; !known {
			calls = append(calls, r.Call)
		}
		tokens[r.Call] += int(r.Tokens[a.Encoding])
	}
	slices.Sort(calls)
	for len(calls) > 0 && tokens[calls[len(calls)-1]] <= most {
		most -= tokens[calls[len(calls)-1]]
		tokens[calls[len(calls)-1]] = -1 // shown
		calls = calls[:len(calls)-1]
	}
	out := map[*cache.Row]bool{}
	for _, r := range rows {
		if tokens[r.Call] < 0 && r.Header.Delegation == "" {
			out[r] = true
		}
	}
	return out
}

// run is what one delegation said in one turn.
type run struct {
	rows        []*cache.Row
	first, last uint64 // numbers of its messages
}

// runs returns the considered runs, oldest first.
func (a *assembly) runs() []*run {
	type key struct {
		delegation string
		turn       uint32
	}
	var out []*run
	known := map[key]*run{}
	for _, r := range a.rows {
		if r.Header.Delegation == "" {
			continue
		}
		k := key{r.Header.Delegation, r.Turn}
		if call := a.rowOf(r.Call); call != nil {
			k.turn = call.Turn
		}
		at := known[k]
		if at == nil {
			at = &run{first: r.Seq}
			known[k] = at
			out = append(out, at)
		}
		at.rows, at.last = append(at.rows, r), r.Seq
	}
	return out
}

// scopeMain shows the main agent the result of each delegation with a label, and none of its other messages. A run that
// a call of the main agent began is represented by that call and its result.
func (a *assembly) scopeMain() error {
	runs := a.runs()
	if len(runs) == 0 {
		return nil
	}
	var said []*cache.Row
	for _, run := range runs {
		said = appendNew(said, run.answer(), run.task())
	}
	if err := a.load(said); err != nil {
		return err
	}
	spans := a.callSpans()
	for _, run := range runs {
		reported := slices.ContainsFunc(spans, func(s [2]uint64) bool { return s[0] < run.first && run.last < s[1] })
		if !reported {
			var err error
			if reported, err = a.reported(run); err != nil {
				return err
			}
		}
		if reported {
			for _, r := range run.rows {
				a.setScope(r, scoped{fate: plan.Fate{Action: plan.Drop, Reason: reasonReported}})
			}
		} else if err := a.label(run); err != nil {
			return err
		}
	}
	return nil
}

// callSpans returns the numbers of the main agent's calls and of their last results. A call without a result may still
// get one until the next message of the main agent's user.
func (a *assembly) callSpans() (spans [][2]uint64) {
	asked, results, last := uint64(math.MaxUint64), map[uint64]int{}, map[uint64]uint64{}
	for _, r := range slices.Backward(a.rows) {
		switch {
		case r.Header.Delegation != "":
		case r.Role == plan.RoleUser && r.Kind != plan.KindA2A:
			asked = r.Seq
		case r.Role == plan.RoleTool:
			results[r.Call]++
			last[r.Call] = max(last[r.Call], r.Seq)
		case r.Calls > 0:
			end := last[r.Seq]
			if results[r.Seq] < int(r.Calls) {
				end = asked
			}
			spans = append(spans, [2]uint64{r.Seq, end})
		}
	}
	return spans
}

// answer returns the last message of a run if it is a text, and nil while the run has none.
func (run *run) answer() *cache.Row {
	r := run.rows[len(run.rows)-1]
	if r.Role == plan.RoleAssistant && r.Calls == 0 && r.Kind == plan.KindChat && !r.Lost() && !r.Damaged.Load() {
		return r
	}
	return nil
}

// task returns the first user message of a run, or nil.
func (run *run) task() *cache.Row {
	for _, r := range run.rows {
		if r.Role == plan.RoleUser && !r.Lost() && !r.Damaged.Load() {
			return r
		}
	}
	return nil
}

// reported reports whether the main agent's first turn after a run has a call that gave the run its task, or a result
// that quotes the run's answer. The agent posts such a turn after those of its sub-agents.
func (a *assembly) reported(run *run) (bool, error) {
	answer, err := a.opening(run.answer())
	if err != nil {
		return false, err
	}
	task, err := a.opening(run.task())
	if err != nil {
		return false, err
	}
	next := a.turnAfter(run.last)
	if err := a.load(appendNew(nil, next...)); err != nil {
		return false, err
	}
	for _, r := range next {
		m, err := a.body(r)
		if err != nil {
			return false, err
		}
		if r.Role == plan.RoleTool && answer.quotedIn(m.Text) {
			return true, nil
		}
		for _, c := range m.Calls {
			if c.ID == run.rows[0].Header.Delegation || task.quotedIn(c.Arguments) {
				return true, nil
			}
		}
	}
	return false, nil
}

// turnAfter returns the calls and results of the main agent's first turn after a message.
func (a *assembly) turnAfter(seq uint64) (out []*cache.Row) {
	from, _ := slices.BinarySearchFunc(a.rows, seq, func(r *cache.Row, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	turn := uint32(0)
	for _, r := range a.rows[from:] {
		if r.Header.Delegation != "" {
			continue
		}
		if turn == 0 {
			turn = r.Turn
		}
		if r.Turn != turn {
			break
		}
		if !r.Lost() && !r.Damaged.Load() && (r.Calls > 0 || r.Role == plan.RoleTool) {
			out = append(out, r)
		}
	}
	return out
}

// appendNew appends the rows whose bodies are not in memory. Rows may be nil.
func appendNew(to []*cache.Row, rows ...*cache.Row) []*cache.Row {
	for _, r := range rows {
		if r != nil && r.Message.Load() == nil {
			to = append(to, r)
		}
	}
	return to
}

// opening is the beginning of a message, by which a quotation of it is recognised.
type opening struct {
	text  string // at most 200 bytes, which are the same in JSON as in plain text
	whole bool   // it is all of the message
}

// quotedFrom is the length in bytes from which on a text that contains an opening quotes it. Shorter ones, such as "Done",
// are in many texts by chance.
const quotedFrom = 8

// quotedIn reports whether a text or a JSON value quotes the message. A short message must be all of it, or one of its
// strings.
func (o opening) quotedIn(text string) bool {
	if len(o.text) >= quotedFrom {
		return strings.Contains(text, o.text)
	}
	return o.whole && o.text != "" && (strings.TrimSpace(text) == o.text || strings.Contains(text, `"`+o.text+`"`))
}

// opening returns the opening of a message, which may be nil.
func (a *assembly) opening(r *cache.Row) (o opening, err error) {
	if r == nil {
		return o, nil
	}
	m, err := a.body(r)
	if err != nil {
		return o, err
	}
	line := strings.TrimSpace(m.Text)
	if end := strings.IndexAny(line, "\n\r\t\"\\<>&"); end >= 0 {
		line = line[:end]
	}
	o.text = head(strings.TrimSpace(line), 200)
	o.whole = o.text == strings.TrimSpace(m.Text)
	return o, nil
}

// head returns the beginning of a text in at most so many bytes, without half a character.
func head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// label shows the main agent a run's answer with the run's task, or the calls and results of a run that has not
// answered.
func (a *assembly) label(run *run) error {
	answer := run.answer()
	for _, r := range run.rows {
		inner := r.Kind != plan.KindA2A && r != answer && (answer != nil || r.Role == plan.RoleUser)
		if inner {
			a.setScope(r, scoped{fate: plan.Fate{Action: plan.Drop, Reason: reasonInner}})
		}
	}
	if answer == nil {
		return nil
	}
	m, err := a.body(answer)
	if err != nil {
		return err
	}
	who := answer.Header.Agent
	if who == "" {
		who = answer.Header.Delegation
	}
	text := fmt.Sprintf("[result from %s] %s", who, m.Text)
	// The task is shortened before guards could look for a secret in it, so a window with guards does not show it.
	if task := run.task(); task != nil && a.Guards() == 0 {
		m, err := a.body(task)
		if err != nil {
			return err
		}
		words := strings.Join(strings.Fields(m.Text), " ")
		if short := head(words, 400); short != words {
			words = short + " …"
		}
		text = fmt.Sprintf("[delegated to %s: %s]\n%s", who, words, text)
	}
	a.setScope(answer, scoped{fate: plan.Fate{Action: plan.Replace, Reason: reasonLabel}, text: text})
	return nil
}
