package window

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Summary returns, for plans, the last message that the running summary covers, its text as shown, and its tokens. The
// text is "" if there is no summary.
func (a *assembly) Summary() (covers uint64, text string, tokens uint32) {
	s := a.summary
	if s == nil {
		return 0, "", 0
	}
	flat := 0
	if a.format == chat.Text {
		flat = 1
	}
	counted := &s.Tokens[flat][a.Encoding]
	n := counted.Load()
	if n == 0 {
		n = 1 + int64(a.NoticeWords(s.Notice))
		if a.ctx.Err() == nil {
			counted.Store(n)
		}
	}
	return s.Covers, s.Notice, a.Scaled(int(n - 1))
}

// shownSummary returns the summary that the window includes, or nil.
func (a *assembly) shownSummary() *SummaryUsed {
	at := a.summaryItem()
	if at < 0 {
		return nil
	}
	s := a.summary
	used := &SummaryUsed{Text: s.Text, CoversTurns: [2]uint32{s.FirstTurn, s.LastTurn}, CoversMessages: s.Count,
		Version: s.Version}
	if shown := a.result.items[at].Text; shown != s.Notice { // A step changed it.
		used.Text = strings.TrimPrefix(shown, strings.TrimSuffix(s.Notice, s.Text))
	}
	return used
}

// showsSummary reports whether the window includes the running summary.
func (a *assembly) showsSummary() bool { return a.summaryItem() >= 0 }

// summaryItem returns the index of the running summary in the window, or -1.
func (a *assembly) summaryItem() int {
	if a.summary == nil {
		return -1
	}
	return slices.IndexFunc(a.result.items, func(it plan.Item) bool {
		return it.Change == plan.Notice && it.Kind == plan.KindSummary
	})
}

// SummaryWish is a pipeline's request for a summary that covers more messages than the current one.
type SummaryWish struct {
	Caller           ident.Caller
	Project, Session string
	Pinc, Sinc       ident.Incarnation   // of the project and the session
	Through          uint64              // the last message to cover
	Had              session.SummaryHead // the window's summary
	Wait             time.Duration       // how long the window may wait for it; 0 means not at all
}

// awaitsSummary requests the summary that the pipeline asks for. In mode wait it waits for it, once, and reports
// whether the session has a new summary.
func (a *assembly) awaitsSummary(ask *asking, pinc ident.Incarnation) bool {
	if a.svc.WantSummary == nil || a.bare || a.result.ask == 0 || a.delegationOnly() {
		return false
	}
	// Readers must not change anything, so a pipeline in a reader's request cannot cause a summary.
	if ask.request.Pipeline != nil && ask.caller.Role < ident.RoleAgent {
		return false
	}
	through := cache.SummaryCut(a.rows[:len(a.rows)-len(a.pending)], a.result.ask, a.asked)
	if through == 0 || through <= a.covered.Covers && a.summary != nil {
		return false // there is such a summary, or none could be made
	}
	w := SummaryWish{Caller: ask.caller, Project: ask.project, Session: ask.session, Pinc: pinc,
		Sinc: a.extent.Incarnation, Through: through, Had: a.covered}
	if !ask.waited && a.Settings.SummaryMode == "wait" {
		w.Wait = time.Duration(a.Settings.SummaryWaitMS) * time.Millisecond
	}
	return a.svc.WantSummary(a.ctx, w)
}

// AllBut returns the last message that a summary may cover if the newest keep messages outside delegations are not to
// be covered, or 0. raw is the encoded head, which was just read.
func (svc *Service) AllBut(ctx context.Context, tenant string, h *session.Head, raw []byte, keep int) (uint64, error) {
	v, err := svc.views.Current(ctx, tenant, h, raw, project.MaxConsidered)
	if err != nil {
		return 0, err
	}
	rows := make([]*cache.Row, len(v.Rows))
	for i := range v.Rows {
		rows[i] = &v.Rows[i]
	}
	for _, r := range slices.Backward(rows) {
		if r.DelegationID != 0 {
			continue
		}
		if keep--; keep < 0 {
			return cache.SummaryCut(rows, r.Seq, h.Asked), nil
		}
	}
	return 0, nil
}
