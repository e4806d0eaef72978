package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
)

// asking is a request for a window, of which raw are the bytes as received.
type asking struct {
	caller           Caller
	project, session string
	request          *ContextRequest
	raw              []byte
	waited           bool // a summary has been waited for
}

// Assemble decides what the model should see now, keeps the decision, and appends the response's JSON to dst. raw is the
// request as received, of which req is the decoding. It answers not_found where there is no such project,
// budget_too_small where what must stay does not fit, policy_failed where a step fails that is set to refuse the request,
// and the codes of invalid fields.
func (e *Engine) Assemble(ctx context.Context, c Caller, projectID string, req *ContextRequest, raw,
	dst []byte) ([]byte, error) {
	ask := &asking{caller: c, project: projectID, session: cmp.Or(req.SessionID, DefaultSession), request: req, raw: raw}
	if err := checkID("session_id", ask.session); err != nil {
		return dst, err
	}
	start := len(dst)
	for again := true; again; {
		var err error
		if dst, again, err = e.answer(ctx, ask, dst[:start]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// answer makes a window and appends the response. It tells whether the window is to be made again, because the session
// is another one by now, or has the summary that was waited for.
func (e *Engine) answer(ctx context.Context, ask *asking, dst []byte) (out []byte, again bool, err error) {
	tenant, req := ask.caller.Tenant, ask.request
	st, err := e.readState(ctx, ask.caller, ask.project, ask.session, req.Pipeline)
	if err != nil {
		return dst, false, err
	}
	r, err := e.ready(ctx, tenant, st, req.Pipeline)
	if err != nil {
		return dst, false, err
	}
	p, h := st.project, st.head
	if h == nil {
		h = &head{Kind: kindChat}
	}
	var seed [8]byte
	e.random(seed[:])
	a := &assembly{e: e, ctx: ctx, tenant: tenant, inputs: inputs{at: e.now().UnixMilli(),
		seed: binary.LittleEndian.Uint64(seed[:]), extent: h.extent(), covered: h.covered(), asked: h.Asked,
		bare: h.Kind == kindBackground, request: req, ready: r}}
	if err := a.prepare(); err != nil {
		return dst, false, err
	}
	if a.view, a.hot, err = e.current(ctx, tenant, h, st.headRaw, a.horizon()+1); err != nil {
		return dst, false, err
	}
	a.summary = a.view.summary
	a.recall = &recallFrom{ask.caller, ask.project, p}
	if req.Pipeline == nil { // what a request makes up, a reader's too, says nothing of a live version
		a.verdicts = make([]verdict, len(a.steps))
		defer func() { e.judge(ctx, tenant, a.steps, a.verdicts) }()
	}
	a.scratch = e.scratch.Get().(*scratch)
	defer func() {
		a.scratch.clear()
		e.scratch.Put(a.scratch)
	}()
	id := e.newDecisionID(a, ask.session)
	start := len(dst)
	dst = a.openWindow(append(append(append(dst, `{"decision_id":"`...), id.String()...), `",`...))
	w, err := a.make(dst)
	if a.extent.turns > 0 && (a.damage > 0 || errors.Is(err, errDamaged)) {
		if gone, lookErr := a.gone(kindSession.Key(p.Incarnation, ask.session)); lookErr != nil || gone {
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
	err = e.keepDecision(ctx, tenant, p, a, id, ask.session, h.Revision, ask.raw, &w)
	if full := (*Error)(nil); errors.As(err, &full) && full.Kind == NoSpace {
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
