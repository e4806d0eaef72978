package window

import (
	"cmp"
	"context"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/callid"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"

	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// minConsidered is how many stored messages one window looks at, at least, where there are that many.
const minConsidered = 256

// inputs are all that a window depends on beside the policies' modules and the stored messages. A decision keeps
// them, so the same inputs give the same window, byte for byte.
type inputs struct {
	at      int64  // ms since 1970
	seed    uint64 // given to policies
	extent  transcript.Extent
	tokens  uint64              // of the session, as its head counts them
	covered session.SummaryHead // what the session's head says of its summary
	asked   uint64              // the newest user message of no delegation, as the head says
	names   callid.Own          // tools' own names behind those that windows show
	bare    bool                // a background session: nothing stored is considered
	tight   bool                // the budget of policies leaves out the message that the format puts in front
	// shortened says that texts of what must stay are cut before the first step, because the policies left it too long.
	shortened bool
	request   *Request
	*policy.Ready
	// outcomes are, for a replay, how the steps ended; those that do not depend on the inputs are not run again.
	outcomes []decision.Step
	// before is the window before, for the same session, viewer and format; nil: there is none, or this is a replay,
	// which finds what follows from it in answers.
	before  *prefix.Trace
	answers prompt.Answers
	candid  bool // the pipeline's window is shown although it breaks the law, to who tries a policy
}

// assembly is one window in the making.
type assembly struct {
	inputs
	cache.Counter // its Count is charged to the step that is carried out
	svc           *Service
	ctx           context.Context
	tenant        string
	shelf         Shelf             // memories
	pinc          ident.Incarnation // of the project; zero for drafts
	summary       *session.Summary  // nil: there is none, or it cannot be read
	view          *cache.View

	format        chat.Format
	markdown      bool
	system        render.SystemPrompt
	pendingFormat chat.Format
	// uncharged counts what is remembered from one window to the next.
	uncharged func(string) int

	limits  limits
	skipped []chat.Skipped // pending system messages
	pending []cache.Row
	posted  []int32      // by pending row: the index of its message in the request
	used    callid.Own   // those of names that pending messages call
	rows    []*cache.Row // the considered messages, by seq
	older   older
	// compacted is the message whose compaction block stands for all before it; 0: there is none.
	compacted uint64
	table     table
	result    outcome
	// verdicts are how the pipeline's steps ended last, for the breaker; nil where it has no say.
	verdicts []policy.Verdict
	damage   int // messages found unreadable while this window was made
	rendered rendered
	*scratch
}

// scratch is memory that assemblies use one after another.
type scratch struct {
	considered []*cache.Row
	order      []int
	made       []plan.Item
	fates      [2][]plan.Fate
	records    []plan.Record
	sums       []byte // of the window's entries
	builder    chat.Builder
	sheet      prompt.Sheet
	places     []int32 // of the window's items in the rendered messages; -1: none
}

// clear lets go of what the memory pointed to.
func (s *scratch) clear() {
	clear(s.considered)
	clear(s.made)
	clear(s.fates[0])
	clear(s.fates[1])
	s.sheet.Begin(prompt.Input{})
}

// older says what lies beyond the horizon.
type older struct {
	messages uint64
	lastTurn uint32
}

// begin checks the request of a window and works out its bounds.
func (svc *Service) begin(ctx context.Context, tenant string, in inputs) (*assembly, error) {
	a := &assembly{svc: svc, ctx: ctx, tenant: tenant, inputs: in}
	return a, a.prepare()
}

// look takes the session as it stands at the head just read, with its summary.
func (a *assembly) look(h *session.Head, raw []byte) (err error) {
	if a.view, err = a.svc.views.Current(a.ctx, a.tenant, h, raw, a.horizon()+1); err == nil && !a.apart() {
		a.summary = a.view.Summary
	}
	return err
}

// apart tells whether the window is of one delegation and shows nothing else. A summary is of the whole session.
func (a *assembly) apart() bool { return a.request.Viewer.Alone && a.viewerDelegation() != "" }

// lookBack takes the session as it would be if it ended with a turn, with the newest summary of what it was then.
func (a *assembly) lookBack(h *session.Head, raw []byte, turn uint32) (err error) {
	var tokens [2]uint64
	a.extent, tokens, err = a.svc.sessions.AsOf(a.ctx, a.tenant, h, turn, "as_of.turn")
	if err != nil {
		return err
	}
	a.tokens = tokens[a.Encoding]
	if a.view, err = a.svc.views.Past(a.ctx, a.tenant, h, raw, a.extent, a.horizon()+1); err != nil {
		return err
	}
	if !a.apart() {
		a.summary, err = a.svc.sessions.SummaryWithin(a.ctx, a.tenant, h, a.extent)
	}
	return err
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

// make makes the window and appends the members of its JSON: it considers what there is, runs the pipeline, proves the
// result and renders it. A body that turns out to be damaged is known from then on, so each further round has one fewer
// to find.
func (a *assembly) make(dst []byte) ([]byte, error) {
	if a.scratch == nil {
		a.scratch = new(scratch)
	}
	dst = append(append(append(dst, `"format":"`...), a.format.String()...), `","messages":`...)
	for _, step := range [...]func() error{a.parsePending, a.consider, a.recollect} {
		if err := step(); err != nil {
			return dst, err
		}
	}
	for range len(a.rows) + 1 {
		out, err := a.attempt(dst)
		err = cmp.Or(a.ctx.Err(), err) // Where the context has ended, counts may be too low.
		if !errors.Is(err, errReread) {
			return out, err
		}
	}
	return dst, errReread
}

func (a *assembly) attempt(dst []byte) ([]byte, error) {
	if err := a.tabulate(); err != nil {
		return dst, err
	}
	if _, over := a.overBudget(); over && a.shortened { // a replay of a window that was made this way
		if err := a.shorten(); err != nil {
			return dst, err
		}
	}
	if err := a.decide(a.limits); err != nil {
		return dst, err
	}
	return a.render(dst)
}

// law is what the window must satisfy within these limits.
func (a *assembly) law(l limits) plan.Law {
	return plan.Law{BudgetMessages: l.messages, BudgetTokens: l.tokens, Opening: l.opening,
		ViewerDelegation: a.table.request.ViewerDelegation}
}
