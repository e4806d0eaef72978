package window

import (
	"context"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Summary is, for plans, what the running summary covers and how it is shown; the text is "" where there is none.
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

// shownSummary is the summary that the window shows; nil where it shows none.
func (a *assembly) shownSummary() *SummaryUsed {
	if !a.showsSummary() {
		return nil
	}
	s := a.summary
	return &SummaryUsed{Text: s.Text, CoversTurns: [2]uint32{s.FirstTurn, s.LastTurn}, CoversMessages: s.Count,
		Version: s.Version}
}

// showsSummary tells whether the window holds the running summary.
func (a *assembly) showsSummary() bool {
	return a.summary != nil && slices.ContainsFunc(a.result.items, func(it plan.Item) bool {
		return it.Change == plan.Notice && it.Kind == plan.KindSummary
	})
}

// SummaryWish is a longer summary than there is, which a window's pipeline asks for.
type SummaryWish struct {
	Caller           ident.Caller
	Project, Session string
	Pinc, Sinc       ident.Incarnation   // of both
	Through          uint64              // the last message to cover
	Had              session.SummaryHead // what the window's summary covers
	Wait             time.Duration       // how long the window may wait for it; 0: it goes without
}

// awaitsSummary asks for the summary that the window would like to have. In mode wait it waits for it, once, and tells
// whether the session has another summary by now.
func (a *assembly) awaitsSummary(ask *asking, pinc ident.Incarnation) bool {
	if a.svc.WantSummary == nil || a.bare || a.result.ask == 0 {
		return false
	}
	// A reader who brings a pipeline must not have a summary made with it: readers change nothing.
	if ask.request.Pipeline != nil && ask.caller.Role < ident.RoleAgent {
		return false
	}
	through := cache.SummaryCut(a.rows[:len(a.rows)-len(a.pending)], a.result.ask, a.asked)
	if through == 0 || through <= a.covered.Covers && a.summary != nil {
		return false // none could be made, or there is one
	}
	w := SummaryWish{Caller: ask.caller, Project: ask.project, Session: ask.session, Pinc: pinc,
		Sinc: a.extent.Incarnation, Through: through, Had: a.covered}
	if !ask.waited && a.Settings.SummaryMode == "wait" {
		w.Wait = time.Duration(a.Settings.SummaryWaitMS) * time.Millisecond
	}
	return a.svc.WantSummary(a.ctx, w)
}

// AllBut is the last message of a session that a summary may cover so that the newest keep messages of no delegation
// are left; 0 where none is. raw are the bytes of the head, which was just read.
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
