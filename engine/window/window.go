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

// minConsidered is the minimum number of stored messages that a window considers, if there are that many.
const minConsidered = 256

// inputs are everything that a window depends on, besides the policies' modules and the stored messages. They are
// stored in the decision. The same inputs give the same window, byte for byte.
type inputs struct {
	at      int64  // ms since 1970
	seed    uint64 // given to policies
	extent  transcript.Extent
	tokens  uint64              // of the session, as counted in its head
	covered session.SummaryHead // the session's summary, from its head
	asked   uint64              // the newest user message outside delegations, from the head
	names   callid.Own          // original names of tools that windows show under other names
	bare    bool                // a background session: stored messages are not considered
	tight   bool                // the policies' budget is reduced by the opening message that the format adds
	// shortened means that texts of mandatory messages are cut before the first step, because the policies left them
	// too long.
	shortened bool
	request   *Request
	*policy.Ready
	// outcomes are the recorded outcomes of the steps, in a replay. Steps whose outcome does not follow from the
	// inputs, such as timeouts, are not run again.
	outcomes []decision.Step
	// before is the previous window of the same session, viewer and format. It is nil if there is none, and in replays,
	// which read what depends on it from answers.
	before    *prefix.Trace
	answers   prompt.Answers
	unchecked bool // the pipeline's window is returned even if it is invalid, to test a policy
}

// assembly is a window that is being made.
type assembly struct {
	inputs
	cache.Counter // its Count is charged to the current step
	svc           *Service
	ctx           context.Context
	tenant        string
	memories      Memories
	pinc          ident.Incarnation // of the project; zero for drafts
	summary       *session.Summary  // nil if there is none, or it cannot be read
	view          *cache.View

	format        chat.Format
	markdown      bool
	system        render.SystemPrompt
	pendingFormat chat.Format
	// uncharged counts tokens for counts that are cached between windows, without charging a step.
	uncharged func(string) int

	limits  limits
	skipped []chat.Skipped // pending system messages
	pending []cache.Row
	posted  []int32      // by pending row: the index of its message in the request
	used    callid.Own   // those of names that pending messages call
	rows    []*cache.Row // the considered messages, by seq
	older   older
	scopes  map[uint64]scoped // by message number: what the viewer sees of other agents' messages; see scope
	// compacted is the message whose compaction block replaces all messages before it, or 0.
	compacted uint64
	table     table
	result    outcome
	guards    []decision.Step // how the guards ended
	guardsAsk uint64          // as outcome.ask, of the guards
	checking  bool            // the guards look at the texts that later steps supplied
	// verdicts are the outcomes of the pipeline's steps, for the circuit breaker; nil if they do not count for it.
	verdicts []policy.Verdict
	damage   int // number of messages that turned out to be unreadable
	rendered rendered
	*scratch
}

// scratch is memory that assemblies reuse.
type scratch struct {
	considered []*cache.Row
	order      []int
	made       []plan.Item
	fates      [2][]plan.Fate
	records    []plan.Record
	sums       []byte // of the window's entries
	builder    chat.Builder
	sheet      prompt.Sheet
	places     []int32 // by item: its index in the rendered messages, or -1
}

// clear drops the pointers in the memory, so that what they point to can be freed.
func (s *scratch) clear() {
	clear(s.considered)
	clear(s.made)
	clear(s.fates[0])
	clear(s.fates[1])
	s.sheet.Begin(prompt.Input{})
}

// older counts the messages beyond the horizon.
type older struct {
	messages uint64
	lastTurn uint32
}

// begin checks the request of a window and computes its limits.
func (svc *Service) begin(ctx context.Context, tenant string, in inputs) (*assembly, error) {
	a := &assembly{svc: svc, ctx: ctx, tenant: tenant, inputs: in}
	return a, a.prepare()
}

// look loads the session as of the head just read, and its summary.
func (a *assembly) look(h *session.Head, raw []byte) (err error) {
	if a.view, err = a.svc.views.Current(a.ctx, a.tenant, h, raw, a.horizon()+1); err == nil && !a.delegationOnly() {
		a.summary = a.view.Summary
	}
	return err
}

// delegationOnly reports whether the window shows a delegation and not the main agent's chat. Such a window has no
// summary, because a summary covers that chat.
func (a *assembly) delegationOnly() bool {
	return a.viewerDelegation() != "" && !a.request.Viewer.Whole
}

// lookBack loads the session as if it ended with an earlier turn, and the newest summary that covers nothing later.
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
	if !a.delegationOnly() {
		a.summary, err = a.svc.sessions.SummaryWithin(a.ctx, a.tenant, h, a.extent)
	}
	return err
}

// horizon returns the maximum number of stored messages to consider.
func (a *assembly) horizon() int {
	if a.bare {
		return 0
	}
	if a.limits.maxMessages == 0 {
		return project.MaxConsidered
	}
	return min(project.MaxConsidered, max(minConsidered, 4*a.limits.maxMessages, a.Settings.SummaryThreshold+1))
}

// errReread means that a body turned out to be damaged. The window is made again with a replacement for the message.
var errReread = errors.New("a message's body is damaged")

// make makes the window and appends the members of its JSON: it selects messages, runs the pipeline, checks the result
// and renders it. If a body turns out to be damaged, it starts again and treats that body as damaged, so it ends at the
// latest when all damaged bodies are known.
func (a *assembly) make(dst []byte) ([]byte, error) {
	if a.scratch == nil {
		a.scratch = new(scratch)
	}
	dst = append(append(append(dst, `"format":"`...), a.format.String()...), `","messages":`...)
	for _, step := range [...]func() error{a.parsePending, a.consider, a.findMemories} {
		if err := step(); err != nil {
			return dst, err
		}
	}
	for range len(a.rows) + 1 {
		out, err := a.attempt(dst)
		err = cmp.Or(a.ctx.Err(), err) // If the context has ended, counts may be too low.
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
	if err := a.guard(); err != nil {
		return dst, err
	}
	if _, over := a.overBudget(); over && a.shortened { // in the replay of such a window
		if err := a.shorten(); err != nil {
			return dst, err
		}
	}
	if err := a.decide(a.limits); err != nil {
		return dst, err
	}
	if err := a.guardSupplied(); err != nil {
		return dst, err
	}
	return a.render(dst)
}

// law returns the validity check of the window with the given limits.
func (a *assembly) law(l limits) plan.Law {
	return plan.Law{BudgetMessages: l.messages, BudgetTokens: l.tokens, Opening: l.opening,
		ViewerDelegation: a.table.request.ViewerDelegation}
}
