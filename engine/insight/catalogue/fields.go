package catalogue

import (
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// Preview shows the latest question of a session and the latest reply, each cut to one line, without those of
// delegations.
type Preview struct {
	User      string `json:"user"` // empty if there is none
	Assistant string `json:"assistant"`
}

// previewed is how many of a session's newest messages are searched for a reply.
const previewed = 32

// preview reads the preview of a session.
func (l *lister) preview(h *session.NamedHead) (*Preview, error) {
	out := new(Preview)
	hs, _, err := l.svc.sessions.ReadHeaders(l.ctx, l.c.Tenant, h.Extent(), previewed, nil)
	if err != nil {
		return out, err
	}
	for i := range slices.Backward(hs) {
		m := &hs[i]
		if m.Role == plan.RoleAssistant && m.Kind == plan.KindChat && m.Delegation == "" {
			if out.Assistant, err = l.text(h, m.Seq); err != nil || out.Assistant != "" {
				break
			}
		}
	}
	if err == nil && h.Asked > 0 {
		out.User, err = l.text(h, h.Asked)
	}
	return out, err
}

// text returns the beginning of a message; empty if it cannot be read.
func (l *lister) text(h *session.NamedHead, seq uint64) (string, error) {
	bodies, err := l.svc.sessions.ReadBodies(l.ctx, l.c.Tenant, h.Incarnation, seq, seq)
	if err != nil {
		return "", err
	}
	_, m, err := transcript.ParseBody(bodies[0])
	if err != nil {
		return "", nil
	}
	return cut(m.Text), nil
}

// Windows describes the latest windows of a session.
type Windows struct {
	DecisionID string         `json:"decision_id"` // of the newest window, like the next two
	At         time.Time      `json:"at"`
	Usage      decision.Usage `json:"usage"`
	// Count is the number of windows read. Cuts is how many of them dropped history that the previous window showed.
	// Tokens are their sizes, oldest first.
	Count  int      `json:"count"`
	Cuts   int      `json:"cuts"`
	Tokens []uint64 `json:"tokens"`
	// Prefix is the mean share of a window that the next one starts with; nil if there were no two to compare.
	Prefix *float64 `json:"prefix"`
}

// newestWindows is how many windows of a session a list reads.
const newestWindows = 24

// windows reads the latest windows of a session; nil if there are none.
func (l *lister) windows(id string) (*Windows, error) {
	rows, err := l.svc.decisions.List(l.ctx, l.c, l.project.ID, decision.Filter{Session: id},
		records.Page{Limit: newestWindows})
	if err != nil || len(rows.Data) == 0 {
		return nil, err
	}
	newest := &rows.Data[0]
	out := &Windows{DecisionID: newest.ID, At: newest.At, Usage: newest.Usage, Count: len(rows.Data)}
	share, compared := 0.0, 0
	for i := range slices.Backward(rows.Data) {
		row := &rows.Data[i]
		out.Tokens = append(out.Tokens, row.Usage.Tokens)
		if row.Cut {
			out.Cuts++
		}
		if row.Usage.Prefix != nil {
			share, compared = share+row.Usage.Prefix.Share, compared+1
		}
	}
	if compared > 0 {
		out.Prefix = new(share / float64(compared))
	}
	return out, nil
}
