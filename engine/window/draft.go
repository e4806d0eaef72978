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

// Draft is a window for inspection. Making it recalls no memories, requests no summary, stores no decision and does not
// affect the circuit breaker.
type Draft struct {
	Explained
	Report    []decision.ReportRow `json:"report"`
	Inserted  []string             `json:"-"` // texts of messages that policies inserted, in order
	Violation *plan.Violation      `json:"-"` // the rule that an unchecked window breaks
	members   []byte               // those of Rendered, as JSON

	Trace    prefix.Trace      `json:"-"` // for the next window to be compared with
	Extent   transcript.Extent `json:"-"` // the part of the session that it is about
	Format   string            `json:"-"`
	Memories []RecalledMemory  `json:"-"`
	Table    plan.Request      `json:"-"` // the input of the first step
	made     *assembly
}

// Past is the history that a draft continues: the session as of a turn, and the previous window. The zero value means
// the session in its current state, and no previous window.
type Past struct {
	Project ident.Incarnation // of the session; its reminders are read from there
	Turn    *uint32
	Before  *prefix.Trace
}

// DraftOfSession makes a window of a stored session. raw is the encoded head. The request has the project's limits and
// no pending messages. It returns budget_too_small as Assemble does.
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
	a.pinc, a.memories = past.Project, svc.reminders.ForWindow(nil, nil)
	return a.draft()
}

// DraftOfTranscript makes a window of turns that are not stored. If unchecked is set, it returns the result of the
// pipeline even if that is invalid. For an invalid request it returns the same errors as Assemble.
func (svc *Service) DraftOfTranscript(ctx context.Context, tenant string, turns []*transcript.Turn, at time.Time,
	r *policy.Ready, req *Request, unchecked bool) (*Draft, error) {
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
		var shown []transcript.Header
		for i := range headers {
			if t.Removed[i] {
				h.Superseded = h.Superseded.Join(transcript.Part(headers[i].Turn, headers[i].Seq, headers[i].Seq))
			} else {
				shown = append(shown, headers[i])
			}
		}
		at := len(v.Rows)
		v.Append(shown)
		for i := range t.Messages {
			if !t.Removed[i] {
				v.Rows[at].Message.Store(&t.Messages[i].Message)
				at++
			}
		}
	}
	v.Head = h
	a, err := svc.begin(ctx, tenant, inputs{at: at.UnixMilli(), extent: h.Extent(), request: req, Ready: r,
		unchecked: unchecked})
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

// Considered returns the report's rows of the considered messages, oldest first.
func (d *Draft) Considered() []decision.ReportRow { return d.Report[:d.Usage.ConsideredMessages] }

// AppendMembers appends the members of Rendered and Explained and the report to a JSON object that has members already,
// and closes the object.
func (d *Draft) AppendMembers(dst []byte) ([]byte, error) {
	dst, err := d.Explained.append(append(append(dst, ','), d.members...), nil)
	return appendReport(dst, d.Report), err
}

// Each visits the table after the last step of the draft's pipeline, in window order: each item, its message, which is
// nil for a notice or a generated result, and its index among the considered messages.
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
