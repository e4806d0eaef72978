package window

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// Draft is a window that was made to be looked at. It recalls nothing, asks for no summary, is kept as no decision, and
// says nothing of a live version to the breaker.
type Draft struct {
	Explained
	Report    []decision.ReportRow `json:"report"`
	Inserted  []string             `json:"-"` // texts of messages that policies inserted, in order
	Violation *plan.Violation      `json:"-"` // the rule that a candid window breaks
	members   []byte               // of Rendered

	Trace    prefix.Trace      `json:"-"` // for the next window to be compared with
	Extent   transcript.Extent `json:"-"` // what of the session it is about
	Format   string            `json:"-"`
	Memories []RecalledMemory  `json:"-"`
	Table    plan.Request      `json:"-"` // what the first step was asked
	made     *assembly
}

// Past is what a draft is made behind: the session as it was at a turn, and the window before. Without both it is the
// session as it stands, and no window.
type Past struct {
	Project ident.Incarnation // of the session; memories that it was shown are read there
	Turn    *uint32
	Before  *prefix.Trace
}

// DraftOfSession makes a window of a stored session, of which raw are the bytes of the head. The request
// has the project's bounds and no pending messages. It answers what Assemble answers for a budget that is too small.
func (svc *Service) DraftOfSession(ctx context.Context, tenant string, h *session.Head, raw []byte, at time.Time,
	r *policy.Ready, past Past) (*Draft, error) {
	a, err := svc.begin(ctx, tenant, inputs{at: at.UnixMilli(), extent: h.Extent(), before: past.Before,
		tokens: h.Tokens[r.Encoding], bare: h.Kind == session.KindBackground, request: new(Request), Ready: r})
	if err == nil && past.Turn != nil {
		err = a.lookBack(h, raw, *past.Turn)
	} else if err == nil {
		err = a.look(h, raw)
	}
	if err != nil {
		return nil, err
	}
	a.pinc, a.shelf = past.Project, svc.recollect.Shelf(nil, nil)
	return a.draft()
}

// DraftOfTranscript makes a window of turns that are stored nowhere. A candid one is what the pipeline made, even where
// it breaks the law. It answers what Assemble answers for a wrong request.
func (svc *Service) DraftOfTranscript(ctx context.Context, tenant string, turns []*transcript.Turn, at time.Time,
	r *policy.Ready, req *Request, candid bool) (*Draft, error) {
	h, open, v := &session.Head{Kind: session.KindChat}, new(transcript.OpenCalls), new(cache.View)
	for _, t := range turns {
		if t.Superseded {
			h.Supersede(t)
			continue
		}
		headers, err := svc.sessions.NumberTurn(ctx, t, h.Extent(), open, at)
		if err != nil {
			return nil, err
		}
		h.Turns = max(h.Turns, headers[0].Turn)
		h.Messages += uint64(len(headers))
		v.Append(headers)
		for i, rows := 0, v.Rows[len(v.Rows)-len(headers):]; i < len(rows); i++ {
			rows[i].Message.Store(&t.Messages[i].Message)
		}
	}
	v.Head = h
	a, err := svc.begin(ctx, tenant, inputs{at: at.UnixMilli(), extent: h.Extent(), request: req, Ready: r,
		candid: candid})
	if err != nil {
		return nil, err
	}
	a.view = v
	return a.draft()
}

func (a *assembly) draft() (*Draft, error) {
	members, err := a.make(nil)
	if err != nil {
		return nil, err
	}
	d := &Draft{Explained: a.explained(), Report: a.report(), Format: a.format.String(), Memories: a.shownMemories(),
		Violation: a.result.violation, members: members, Trace: a.result.trace, Extent: a.extent, Table: a.table.request, made: a}
	for i := range a.result.items {
		if it := &a.result.items[i]; it.Change == plan.Notice {
			d.Inserted = append(d.Inserted, it.Text)
		}
	}
	return d, nil
}

// Considered are the report's rows of the considered messages, oldest first.
func (d *Draft) Considered() []decision.ReportRow { return d.Report[:d.Usage.ConsideredMessages] }

// AppendMembers appends the members of Rendered, of Explained and the report to a JSON object that has members already,
// and closes it.
func (d *Draft) AppendMembers(dst []byte) ([]byte, error) {
	dst, err := d.Explained.append(append(append(dst, ','), d.members...), nil)
	return appendReport(dst, d.Report), err
}

// Each visits what a step behind the draft's pipeline would see, in window order: items, the message that each shows,
// which a notice and a made-up result have none of, and its place among the considered ones.
func (d *Draft) Each(visit func(it *plan.Item, m *chat.Message, row int) error) error {
	a := d.made
	for i := range a.result.items {
		it := &a.result.items[i]
		var m *chat.Message
		var err error
		if it.Change != plan.Notice && it.Change != plan.Answer {
			m, err = a.shown(it, a.rows[it.Row])
		}
		if err == nil {
			err = visit(it, m, int(it.Row))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
