package window

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// asking is a request for a window, of which raw are the bytes as received.
type asking struct {
	caller           access.Caller
	project, session string
	request          *ContextRequest
	raw              []byte
	waited           bool // a summary has been waited for
}

// Assemble decides what the model should see now, keeps the decision, and appends the response's JSON to dst. raw is the
// request as received, of which req is the decoding. It answers not_found where there is no such project,
// budget_too_small where what must stay does not fit, policy_failed where a step fails that is set to refuse the request,
// and the codes of invalid fields.
func (svc *Service) Assemble(ctx context.Context, c access.Caller, projectID string, req *ContextRequest, raw,
	dst []byte) ([]byte, error) {
	ask := &asking{caller: c, project: projectID, session: cmp.Or(req.SessionID, ident.DefaultSession), request: req, raw: raw}
	if err := ident.CheckID("session_id", ask.session); err != nil {
		return dst, err
	}
	start := len(dst)
	for again := true; again; {
		var err error
		if dst, again, err = svc.answer(ctx, ask, dst[:start]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// answer makes a window and appends the response. It tells whether the window is to be made again, because the session
// is another one by now, or has the summary that was waited for.
func (svc *Service) answer(ctx context.Context, ask *asking, dst []byte) (out []byte, again bool, err error) {
	tenant, req := ask.caller.Tenant, ask.request
	st, err := svc.readState(ctx, ask.caller, ask.project, ask.session, req.Pipeline)
	if err != nil {
		return dst, false, err
	}
	r, err := svc.ready(ctx, tenant, st, req.Pipeline)
	if err != nil {
		return dst, false, err
	}
	p, h := st.project, st.head
	if h == nil {
		h = &session.Head{Kind: session.KindChat}
	}
	var seed [8]byte
	svc.db.Random(seed[:])
	a := &assembly{e: svc, ctx: ctx, tenant: tenant, inputs: inputs{at: svc.db.Now().UnixMilli(),
		seed: binary.LittleEndian.Uint64(seed[:]), extent: h.Extent(), covered: h.Covered(), asked: h.Asked,
		bare: h.Kind == session.KindBackground, request: req, Ready: r}}
	if err := a.prepare(); err != nil {
		return dst, false, err
	}
	if a.view, a.hot, err = svc.Current(ctx, tenant, h, st.headRaw, a.horizon()+1); err != nil {
		return dst, false, err
	}
	a.summary = a.view.summary
	a.recall = &recallFrom{ask.caller, ask.project, p}
	if req.Pipeline == nil { // what a request makes up, a reader's too, says nothing of a live version
		a.verdicts = make([]policy.Verdict, len(a.Steps))
		defer func() { svc.policies.Judge(ctx, tenant, a.Steps, a.verdicts) }()
	}
	a.scratch = svc.scratch.Get().(*scratch)
	defer func() {
		a.scratch.clear()
		svc.scratch.Put(a.scratch)
	}()
	id := svc.newDecisionID(a, ask.session)
	start := len(dst)
	dst = a.openWindow(append(append(append(dst, `{"decision_id":"`...), id.String()...), `",`...))
	w, err := a.make(dst)
	if a.extent.Turns > 0 && (a.damage > 0 || errors.Is(err, records.ErrDamaged)) {
		if gone, lookErr := a.gone(records.Session.Key(p.Incarnation, ask.session)); lookErr != nil || gone {
			return dst, gone, lookErr
		}
	}
	if err != nil {
		return dst, false, err
	}
	dst = a.closeWindow(dst, &w)
	if a.awaitsSummary(ask, p.Incarnation) {
		a.verdicts = nil // it is not the window that is answered
		ask.waited = true
		return dst, true, nil
	}
	err = svc.keepDecision(ctx, tenant, p, a, id, ask.session, h.Revision, ask.raw, &w)
	if full := (*fault.Error)(nil); errors.As(err, &full) && full.Kind == fault.NoSpace {
		forgetID(dst[start:]) // an agent still gets its window; it cannot be replayed
	} else if err != nil {
		return dst, false, err
	}
	return a.appendRest(dst, &w), false, nil
}

// forgetID puts null in place of a response's decision id.
func forgetID(response []byte) {
	at := len(`{"decision_id":`)
	n := copy(response[at:], "null")
	for i := at + n; response[i] != ','; i++ {
		response[i] = ' '
	}
}
