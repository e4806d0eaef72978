package window

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/decision"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// asking is a request for a window.
type asking struct {
	caller           access.Caller
	project, session string
	request          *Request
	raw              []byte // the request's bytes as received
	waited           bool   // a summary has been waited for
}

// Assemble decides what the model should see now, keeps the decision, and appends the JSON of an Answer to dst. raw is
// the request as received, of which req is the decoding. It answers not_found where there is no such project,
// budget_too_small where what must stay does not fit, policy_failed where a step fails that is set to refuse the
// request, and the codes of invalid fields.
func (svc *Service) Assemble(ctx context.Context, c access.Caller, projectID string, req *Request, raw, dst []byte,
) ([]byte, error) {
	ask := &asking{caller: c, project: projectID, session: cmp.Or(req.SessionID, ident.DefaultSession), request: req,
		raw: raw}
	if err := ident.CheckID("session_id", ask.session); err != nil {
		return dst, err
	}
	start := len(dst)
	for {
		epoch := store.Epoch(svc.db.Store)
		out, again, err := svc.answer(ctx, ask, dst[:start])
		// Where the store went back meanwhile, a part of the window may be of turns that are no more.
		if err != nil && ctx.Err() != nil || !again && epoch == store.Epoch(svc.db.Store) {
			return out, err
		}
	}
}

// answer makes a window and appends the response. It tells whether the window is to be made again, because the session
// is another one by now, or has the summary that was waited for.
func (svc *Service) answer(ctx context.Context, ask *asking, dst []byte) (out []byte, again bool, err error) {
	tenant, req := ask.caller.Tenant, ask.request
	st, err := svc.readState(ctx, ask.caller, ask.project, ask.session, req.Pipeline)
	if err != nil {
		return dst, false, err
	}
	ready, err := svc.ready(ctx, tenant, st, req.Pipeline)
	if err != nil {
		return dst, false, err
	}
	h := st.head
	if h == nil {
		h = &session.Head{Kind: session.KindChat}
	}
	var seed [8]byte
	svc.db.Random(seed[:])
	a, err := svc.begin(ctx, tenant, inputs{at: svc.db.Now().UnixMilli(), seed: binary.LittleEndian.Uint64(seed[:]),
		extent: h.Extent(), covered: h.Covered(), asked: h.Asked, bare: h.Kind == session.KindBackground, request: req,
		Ready: ready})
	if err != nil {
		return dst, false, err
	}
	if err := a.look(h, st.headRaw); err != nil {
		return dst, false, err
	}
	a.recall = &recallFrom{ask.caller, ask.project, st.project}
	if req.Pipeline == nil { // what a request makes up, a reader's too, says nothing of a live version
		a.verdicts = make([]policy.Verdict, len(a.Steps))
		defer func() { svc.policies.Judge(ctx, tenant, a.Steps, a.verdicts) }()
	}
	a.scratch = svc.scratch.Get().(*scratch)
	defer func() {
		a.scratch.clear()
		svc.scratch.Put(a.scratch)
	}()
	id := svc.decisions.NewID(a.at, ask.session, a.extent.Incarnation)
	start := len(dst)
	dst, err = a.make(append(append(append(dst, `{"decision_id":"`...), id.String()...), `",`...))
	if gone, err := a.gone(err, st.project, ask.session); gone || err != nil {
		return dst, gone, err
	}
	if a.awaitsSummary(ask, st.project.Incarnation) {
		a.verdicts = nil // it is not the window that is answered
		ask.waited = true
		return dst, true, nil
	}
	err = svc.decisions.Keep(ctx, tenant, st.project.Incarnation, id, a.record(ask, h.Revision), a.Ready)
	if full, ok := errors.AsType[*fault.Error](err); ok && full.Kind == fault.NoSpace {
		forgetID(dst[start:]) // an agent still gets its window; it cannot be replayed
	} else if err != nil {
		return dst, false, err
	}
	dst, err = appendObject(dst, struct {
		Session decision.Session `json:"session"`
		Explained
		Asked
	}{decision.Session{Exists: st.head != nil || ask.session == ident.DefaultSession}, a.explained(), a.onDemand()})
	return dst, false, err
}

// record is what is kept of the window. Keep adds what names the settings and the pipeline.
func (a *assembly) record(ask *asking, revision uint64) decision.Record {
	r := decision.Record{At: a.at, Seed: a.seed, Session: ask.session, Extent: decision.Extent(a.extent), Bare: a.bare,
		Tight: a.tight, Revision: revision, Window: a.result.hash, Usage: a.usage(), Steps: a.result.steps,
		Request: ask.raw}
	if a.summary != nil {
		r.Summary = a.summary.Version
	}
	for i := range a.memories {
		r.Memories = append(r.Memories, a.memories[i].Memory)
	}
	return r
}

// gone gives back the error of making a window, unless what looks like damage is a session that was deleted meanwhile.
// Where it is not, the damage is reported to the operator.
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

// forgetID puts null in place of a response's decision id.
func forgetID(response []byte) {
	at := len(`{"decision_id":`)
	n := copy(response[at:], "null")
	for i := at + n; response[i] != ','; i++ {
		response[i] = ' '
	}
}

// state is what an assembly starts from, as of one moment.
type state struct {
	project  *project.Record
	setup    *project.Setup
	head     *session.Head // nil: the session has none
	headRaw  []byte
	policies policy.Set // that the pipeline names: the request's own where it has one
}

// readState reads all that an assembly starts from, in one round trip where project and settings are those that were
// used last.
func (svc *Service) readState(ctx context.Context, c access.Caller, projectID, sessionID string,
	own []project.PipelineStep) (*state, error) {
	names := svc.projects.OwnPolicies(own)
	if guess := svc.projects.Peek(c.Tenant, projectID); guess != nil && own == nil {
		if s, err := svc.projects.SetupOf(guess); err == nil {
			names = s.Policies
		}
	}
	for {
		p, got, _, err := svc.projects.Read(ctx, c, projectID, func(pinc ident.Incarnation) [][]byte {
			return append([][]byte{records.Session.Key(pinc, sessionID)}, policy.Keys(names)...)
		})
		if err != nil {
			return nil, err
		}
		s, err := svc.projects.SetupOf(p)
		if err != nil {
			return nil, err
		}
		if own == nil && !slices.Equal(names, s.Policies) {
			names = s.Policies
			continue
		}
		if got[0].Damaged {
			return nil, records.ErrDamaged
		}
		st := &state{project: p, setup: s, headRaw: got[0].Value}
		if st.headRaw != nil {
			st.head = new(session.Head)
			if err := json.Unmarshal(st.headRaw, st.head); err != nil {
				return nil, err
			}
		}
		st.policies, err = svc.policies.Set(c.Tenant, names, got[1:])
		return st, err
	}
}

// readied remembers the pipelines of projects as they were last made ready. The zero value remembers none.
type readied struct {
	mu        sync.RWMutex
	pipelines map[ident.Incarnation]readiedPipeline // by project
}

type readiedPipeline struct {
	setup *project.Setup // which state of the project's record
	ready *policy.Ready
}

func (r *readied) of(p ident.Incarnation) readiedPipeline {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.pipelines[p]
}

func (r *readied) keep(p ident.Incarnation, made readiedPipeline) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pipelines == nil || len(r.pipelines) >= records.MemoSize {
		r.pipelines = map[ident.Incarnation]readiedPipeline{}
	}
	r.pipelines[p] = made
}

// ready makes ready what an assembly runs: the request's own pipeline, or the project's, which is made again only when
// the project or a policy that it names has changed.
func (svc *Service) ready(ctx context.Context, tenant string, st *state, own []project.PipelineStep) (*policy.Ready,
	error) {
	r := svc.policies.Resolver(ctx, tenant, st.setup.Settings, st.policies)
	if own != nil {
		return r.Make(own)
	}
	last := svc.readied.of(st.project.Incarnation)
	if last.setup == st.setup && last.ready.Policies.Same(st.policies) {
		return last.ready, nil
	}
	r.Lenient = true
	made, err := r.Make(st.setup.Settings.Pipeline)
	if err == nil && !made.Partial {
		svc.readied.keep(st.project.Incarnation, readiedPipeline{st.setup, made})
	}
	return made, err
}
