package window

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// asking is a request for a window.
type asking struct {
	caller           ident.Caller
	project, session string
	request          *Request
	raw              []byte // the request's bytes as received
	began            time.Time
	waited           bool   // a summary has been waited for
	buffer           []byte // memory for the answer
}

// Assemble decides what the model should see next and stores the decision. raw is the request as received, and req is
// its decoded form. The answer uses the memory of buffer if that suffices. Errors are not_found for an unknown project,
// budget_too_small if the mandatory messages do not fit, policy_failed if a step with on_error "error" fails, and the
// codes of invalid fields.
func (svc *Service) Assemble(ctx context.Context, c ident.Caller, projectID string, req *Request, raw, buffer []byte,
) (*Answer, error) {
	ask := &asking{caller: c, project: projectID, session: cmp.Or(req.SessionID, ident.DefaultSession), request: req,
		raw: raw, began: svc.db.Clock(), buffer: buffer[:0]}
	if err := ident.CheckID("session_id", ask.session); err != nil {
		return nil, err
	}
	for {
		epoch := store.Epoch(svc.db.Store)
		out, again, err := svc.answer(ctx, ask)
		// If the store went back to an earlier state in the meantime, the window may include turns that no longer
		// exist.
		if err != nil && ctx.Err() != nil || !again && epoch == store.Epoch(svc.db.Store) {
			return out, err
		}
	}
}

// answer makes a window. It reports whether the window has to be made again, because the session was replaced in the
// meantime or the summary that it waited for has been made.
func (svc *Service) answer(ctx context.Context, ask *asking) (out *Answer, again bool, err error) {
	tenant, req := ask.caller.Tenant, ask.request
	series := decision.NewSeries(ask.session, req.Viewer, cmp.Or(req.Format, chat.OpenAIChat.String()))
	st, err := svc.readState(ctx, ask.caller, ask.project, ask.session, series, req.Pipeline)
	if err != nil {
		return nil, false, err
	}
	ready, err := svc.ready(ctx, tenant, st, req.Pipeline)
	if err != nil {
		return nil, false, err
	}
	h := st.head
	if h == nil {
		h = &session.Head{Kind: session.KindChat}
	}
	var seed [8]byte
	svc.db.Random(seed[:])
	before := decision.ParseTrace(st.traces, h.Incarnation)
	a, err := svc.begin(ctx, tenant, inputs{at: svc.db.Now().UnixMilli(), seed: binary.LittleEndian.Uint64(seed[:]),
		extent: h.Extent(), tokens: h.Tokens[st.setup.Encoding], covered: h.Covered(), asked: h.Asked, names: h.Names,
		bare: h.Kind == session.KindBackground, request: req, Ready: ready,
		before: before.Trace})
	if err == nil && req.AsOf != nil {
		err = a.lookBack(h, st.headRaw, *req.AsOf.Turn)
	} else if err == nil {
		err = a.look(h, st.headRaw)
	}
	if gone, err := a.gone(err, st.project, ask.session); gone || err != nil {
		return nil, gone, err
	}
	a.pinc = st.project.Incarnation
	namespace, err := h.NamespaceFor(&st.setup.Settings, ask.caller, ask.session, req.Viewer.Agent)
	if err != nil && req.Memories != nil && len(req.Memories.Namespace) == 0 {
		return nil, false, err
	}
	a.memories = svc.reminders.ForWindow(&From{Caller: ask.caller, ProjectID: ask.project, Project: st.project,
		SessionID: ask.session, Namespace: namespace, MinTrust: memory.Trust(st.setup.Settings.MemoryMinTrust)}, before.Reminder)
	// Only windows of the project's own pipeline that go to an agent tell the circuit breaker how policies do.
	if req.Pipeline == nil && req.current() {
		a.verdicts = make([]policy.Verdict, len(a.Steps))
		defer func() { svc.policies.Judge(ctx, tenant, a.Steps, a.verdicts) }()
	}
	if !req.Explain { // The report points into the scratch memory.
		a.scratch = svc.scratch.Get().(*scratch)
		defer func() {
			a.scratch.clear()
			svc.scratch.Put(a.scratch)
		}()
	}
	id := svc.decisions.NewID(a.at, ask.session, a.extent.Incarnation)
	dst := append(ask.buffer, '{')
	if req.recorded() {
		dst = append(append(append(dst, `"decision_id":"`...), id.String()...), `",`...)
	}
	dst, err = a.make(dst)
	if gone, err := a.gone(err, st.project, ask.session); gone || err != nil {
		return nil, gone, err
	}
	if req.current() && a.awaitsSummary(ask, st.project.Incarnation) {
		a.verdicts = nil // this window is discarded
		ask.waited = true
		return nil, true, nil
	}
	kept := false
	if req.recorded() {
		kept, err = svc.keep(ctx, ask, st, a, id, decision.Traced{Series: series, Session: h.Incarnation})
	}
	out = &Answer{Rendered: Rendered{Format: a.format.String()}, Explained: a.explained(), Audio: a.rendered.audio, json: dst, rendered: a.rendered}
	if full, ok := errors.AsType[*fault.Error](err); ok && full.Kind == fault.NoSpace {
		decision.Forget(dst) // The agent still gets its window, but it cannot be replayed.
	} else if err != nil {
		return nil, false, err
	} else if kept {
		out.ID, out.DecisionID = id, id.String()
	} else if req.recorded() {
		out.ID = id
		decision.Forget(dst)
	}
	out.Session.Exists = st.head != nil || ask.session == ident.DefaultSession
	out.Memories = a.shownMemories()
	if req.Explain {
		out.Report = a.report()
	}
	return out, false, nil
}

// maxRequest is the size in bytes of the longest request that a decision keeps.
const maxRequest = 4 << 20

// keep stores the decision, or only what later windows need if the project does not keep such decisions.
func (svc *Service) keep(ctx context.Context, ask *asking, st *state, a *assembly, id decision.ID, traced decision.Traced,
) (kept bool, err error) {
	svc.Counts.Add(&a.sheet, &a.result.compared)
	revision := uint64(0)
	if st.head != nil {
		revision = st.head.Revision
	}
	record, seen := a.record(ask, revision), a.seen()
	if ask.request.current() { // otherwise the next window is not compared with this one
		traced.Trace = &a.result.trace
		if record.Reminder != nil {
			traced.Reminder = &record.Reminder.Bound
		}
	}
	tenant, pinc := ask.caller.Tenant, st.project.Incarnation
	if kept = record.Kept(st.setup.Settings.Decisions, a.sheet.Left() != nil); kept {
		err = svc.decisions.Keep(ctx, tenant, pinc, id, record, seen, a.Ready, traced)
	} else {
		err = svc.decisions.KeepRest(ctx, tenant, pinc, id, &record, seen, traced)
	}
	if err == nil {
		svc.Answered(tenant, pinc, &record, seen.LeftOut, svc.db.Clock().Sub(ask.began))
	}
	return kept, err
}

// record returns the decision to store. Keep adds the references to the settings and the pipeline.
func (a *assembly) record(ask *asking, revision uint64) decision.Record {
	r := decision.Record{At: a.at, Seed: a.seed, Session: ask.session, Extent: decision.Extent(a.extent),
		Tokens: a.tokens, Bare: a.bare, Tight: a.tight, Shortened: a.shortened, Names: a.used,
		Revision: revision, Window: a.result.hash, Usage: a.usage(), Cut: a.result.compared.Cut, Prompt: a.prompt(),
		Steps: a.result.steps}
	r.Request = ask.raw
	if len(ask.raw) > maxRequest { // Long pictures would not fit into a commit.
		r.Request = []byte("null")
	}
	if a.summary != nil {
		r.Summary = a.summary.Version
	}
	for i := range a.memories.Found {
		r.Memories = append(r.Memories, a.memories.Found[i].Memory)
	}
	r.Reminder, r.Forgotten = a.memories.Current(), a.memories.Forgotten
	return r
}

// gone returns the error of making a window. If it looks like damage, gone reports whether the session was deleted in
// the meantime, which looks the same; otherwise it reports the damage to the operator.
func (a *assembly) gone(made error, p *project.Record, sessionID string) (bool, error) {
	if a.extent.Turns == 0 || a.damage == 0 && !errors.Is(made, records.ErrDamaged) {
		return false, made
	}
	h, err := records.Get[session.Head](a.ctx, a.svc.db, a.tenant, records.Session.Key(p.Incarnation, sessionID))
	if err != nil {
		return false, err
	}
	if h == nil || h.Incarnation != a.extent.Incarnation {
		return true, nil
	}
	a.svc.db.Log.Error("stored messages are damaged or missing; the window shows placeholders",
		"tenant", a.tenant, "session", a.extent.Incarnation.String(), "messages", a.damage)
	return false, made
}

// state has what an assembly reads first, as of one instant.
type state struct {
	project  *project.Record
	setup    *project.Setup
	head     *session.Head // nil if there is no such session
	headRaw  []byte
	traces   []store.Item // of earlier windows
	policies policy.Set   // those named by the pipeline of the request, or else of the project
}

// readState reads the state that an assembly needs. This takes one round trip if project and settings have not changed
// since they were last used.
func (svc *Service) readState(ctx context.Context, c ident.Caller, projectID, sessionID string,
	series decision.Series, own []project.PipelineStep) (*state, error) {
	names := svc.projects.OwnPolicies(own)
	if guess := svc.projects.Peek(c.Tenant, projectID); guess != nil && own == nil {
		if s, err := svc.projects.SetupOf(guess); err == nil {
			names = s.Policies
		}
	}
	for {
		p, got, _, err := svc.projects.Read(ctx, c.Unconfined(), projectID, func(pinc ident.Incarnation) [][]byte {
			keys := append([][]byte{records.Session.Key(pinc, sessionID)}, series.TraceKeys(pinc, svc.db.Now())...)
			return append(keys, policy.Keys(names)...)
		})
		if err != nil {
			return nil, err
		}
		s, err := svc.projects.SetupOf(p)
		if err != nil {
			return nil, err
		}
		need := s.Policies
		if own != nil {
			need = svc.projects.OwnPolicies(slices.Concat(project.Guards(s.Settings.Pipeline), own))
		}
		if !slices.Equal(names, need) {
			names = need
			continue
		}
		st := &state{project: p, setup: s, headRaw: got[0].Value, traces: got[1:3]}
		if st.head, err = svc.sessions.KnownHead(c.Tenant, p, sessionID, got[0]); err != nil {
			return nil, err
		}
		if err := st.head.CheckReach(c, sessionID); err != nil {
			return nil, err
		}
		st.policies, err = svc.policies.Set(c.Tenant, names, got[3:])
		return st, err
	}
}

// ready prepares the request's own pipeline, or else the project's, which is cached until the project or a policy in it
// changes.
func (svc *Service) ready(ctx context.Context, tenant string, st *state, own []project.PipelineStep) (*policy.Ready,
	error) {
	r := svc.policies.Resolver(ctx, tenant, st.setup.Settings, st.policies)
	if own != nil { // It replaces all steps but the guards.
		return r.MakeGuarded(project.Guards(st.setup.Settings.Pipeline), own)
	}
	if last := svc.readied.Find(st.project.Incarnation, st.setup, st.policies); last != nil {
		return last, nil
	}
	r.Lenient = true
	made, err := r.Make(st.setup.Settings.Pipeline)
	if err == nil && !made.Partial {
		svc.readied.Keep(st.project.Incarnation, st.setup, made)
	}
	return made, err
}
