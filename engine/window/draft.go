package window

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
	"github.com/seed-0906e6bc/mneme/engine/view"
)

// Draft is a window that was made to be looked at. It recalls nothing, asks for no summary, is kept as no decision, and
// says nothing of a live version to the breaker.
type Draft struct {
	Explained
	Report   []ReportRow `json:"report"`
	Inserted []string    `json:"-"` // texts of messages that policies inserted, in order
	members  []byte      // of Rendered
}

// DraftOfSession makes a window of a stored session as it stands, of which raw are the bytes of the head. The request
// has the project's bounds and no pending messages. It answers what Assemble answers for a budget that is too small.
func (svc *Service) DraftOfSession(ctx context.Context, tenant string, h *session.Head, raw []byte, at time.Time,
	r *policy.Ready) (*Draft, error) {
	a, err := svc.begin(ctx, tenant, inputs{at: at.UnixMilli(), extent: h.Extent(),
		bare: h.Kind == session.KindBackground, request: new(Request), Ready: r})
	if err != nil {
		return nil, err
	}
	if err := a.look(h, raw); err != nil {
		return nil, err
	}
	return a.draft()
}

// DraftOfTranscript makes a window of turns that are stored nowhere. It answers what Assemble answers for a wrong
// request.
func (svc *Service) DraftOfTranscript(ctx context.Context, tenant string, turns []*transcript.Turn, at time.Time,
	r *policy.Ready, req *Request) (*Draft, error) {
	h, open, v := &session.Head{Kind: session.KindChat}, new(transcript.OpenCalls), new(view.View)
	for _, t := range turns {
		headers, err := svc.sessions.NumberTurn(ctx, t, h.Extent(), open, at)
		if err != nil {
			return nil, err
		}
		h.Turns++
		h.Messages += uint64(len(headers))
		v.Append(headers)
		for i, rows := 0, v.Rows[len(v.Rows)-len(headers):]; i < len(rows); i++ {
			rows[i].Message.Store(&t.Messages[i].Message)
		}
	}
	v.Head = h
	a, err := svc.begin(ctx, tenant, inputs{at: at.UnixMilli(), extent: h.Extent(), request: req, Ready: r})
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
	d := &Draft{Explained: a.explained(), Report: a.report(), members: members}
	for i := range a.result.items {
		if it := &a.result.items[i]; it.Change == plan.Notice {
			d.Inserted = append(d.Inserted, it.Text)
		}
	}
	return d, nil
}

// Considered are the report's rows of the considered messages, oldest first.
func (d *Draft) Considered() []ReportRow { return d.Report[:d.Usage.ConsideredMessages] }

// AppendMembers appends the members of Rendered, of Explained and the report to a JSON object that has members already,
// and closes it.
func (d *Draft) AppendMembers(dst []byte) ([]byte, error) {
	return appendObject(append(append(dst, ','), d.members...), d)
}
