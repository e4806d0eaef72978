package window

import (
	"context"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// minConsidered is how many stored messages one window looks at, at least, where there are that many.
const minConsidered = 256

// inputs are all that a window depends on beside the policies' modules and the stored messages. A decision keeps
// them, so the same inputs give the same window, byte for byte.
type inputs struct {
	at      int64  // ms since 1970
	seed    uint64 // given to policies
	extent  transcript.Extent
	covered session.SummaryHead // what the session's head says of its summary
	asked   uint64              // the newest user message of no delegation, as the head says
	bare    bool                // a background session: nothing stored is considered
	tight   bool                // the budget of policies leaves out the message that the format puts in front
	request *ContextRequest
	*policy.Ready
	// outcomes are, for a replay, how the steps ended; those that do not depend on the inputs are not run again.
	outcomes []stepOutcome
}

// assembly is one window in the making.
type assembly struct {
	inputs
	e      *Service
	ctx    context.Context
	tenant string
	// memories were recalled for the window; recall is where from, nil once they are there. As many as injected says
	// stand in the table.
	memories []remembered
	recall   *recallFrom
	injected int
	summary  *session.Summary // nil: there is none, or it cannot be read
	view     *view
	hot      *hotSession // nil in a replay

	format   chat.Format
	markdown bool
	count    func(string) int

	limits  limits
	skipped []chat.Skipped // pending system messages
	pending []row
	rows    []*row // the considered messages, by seq
	older   older
	table   table
	result  outcome
	// verdicts are how the pipeline's steps ended last, for the breaker; nil where it has no say.
	verdicts []policy.Verdict
	damage   int // messages found unreadable while this window was made
	*scratch
}

// scratch is memory that assemblies use one after another.
type scratch struct {
	considered []*row
	order      []int
	made       []plan.Item
	fates      [2][]plan.Fate
	records    []plan.Record
	sums       []byte // of the window's entries
}

// clear lets go of what the memory pointed to.
func (s *scratch) clear() {
	clear(s.considered)
	clear(s.made)
	clear(s.fates[0])
	clear(s.fates[1])
}

// older says what lies beyond the horizon.
type older struct {
	messages uint64
	lastTurn uint32
}

// horizon is how many stored messages are considered at most.
func (a *assembly) horizon() int {
	if a.bare {
		return 0
	}
	if a.limits.maxMessages == 0 {
		return project.MaxConsidered
	}
	return min(project.MaxConsidered, max(minConsidered, 4*a.limits.maxMessages, a.Settings.SummaryThreshold+1))
}

// errReread says that a body turned out to be damaged: the window is made again, with the message repaired.
var errReread = errors.New("a message's body is damaged")

// make makes the window: it considers what there is, runs the pipeline, proves the result and renders it, with the
// messages behind dst, except in the format text. A body that turns out to be damaged is known from then on, so each
// further round has one fewer to find.
func (a *assembly) make(dst []byte) (chat.Window, error) {
	if a.format == chat.Text {
		dst = nil
	}
	if err := a.parsePending(); err != nil {
		return chat.Window{}, err
	}
	if err := a.consider(); err != nil {
		return chat.Window{}, err
	}
	if err := a.remember(); err != nil {
		return chat.Window{}, err
	}
	for range len(a.rows) + 1 {
		w, err := a.attempt(dst)
		if !errors.Is(err, errReread) {
			return w, err
		}
	}
	return chat.Window{}, errReread
}

func (a *assembly) attempt(dst []byte) (chat.Window, error) {
	if err := a.tabulate(); err != nil {
		return chat.Window{}, err
	}
	if err := a.decide(a.limits); err != nil {
		return chat.Window{}, err
	}
	return a.render(dst)
}

// law is what the window must satisfy within these limits.
func (a *assembly) law(l limits) plan.Law {
	return plan.Law{BudgetMessages: l.messages, BudgetTokens: l.tokens, Opening: l.opening,
		ViewerDelegation: a.table.request.ViewerDelegation}
}
