package engine

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
)

// state is what an assembly starts from, as of one moment.
type state struct {
	project  *project
	setup    *setup
	head     *head // nil: the session has none
	headRaw  []byte
	policies policySet // that the pipeline names: the request's own where it has one
}

// readState reads all that an assembly starts from, in one round trip where project and settings are those that were
// used last.
func (e *Engine) readState(ctx context.Context, c Caller, projectID, session string, own []PipelineStep,
) (*state, error) {
	names := e.ownPolicies(own)
	if guess := e.projects.peek(c.Tenant + "/" + projectID); guess != nil && own == nil {
		if s, err := e.setupOf(guess); err == nil {
			names = s.policies
		}
	}
	for {
		p, got, _, err := e.readProject(ctx, c, projectID, func(pinc incarnation) [][]byte {
			return append([][]byte{kindSession.Key(pinc, session)}, policyKeys(names)...)
		})
		if err != nil {
			return nil, err
		}
		s, err := e.setupOf(p)
		if err != nil {
			return nil, err
		}
		if own == nil && !slices.Equal(names, s.policies) {
			names = s.policies
			continue
		}
		if got[0].Damaged {
			return nil, errDamaged
		}
		st := &state{project: p, setup: s, headRaw: got[0].Value}
		if st.headRaw != nil {
			st.head = new(head)
			if err := json.Unmarshal(st.headRaw, st.head); err != nil {
				return nil, err
			}
		}
		st.policies, err = e.policySet(c.Tenant, names, got[1:])
		return st, err
	}
}

// readied remembers the pipelines of projects as they were last made ready. The zero value remembers none.
type readied struct {
	mu        sync.RWMutex
	pipelines map[incarnation]readiedPipeline // by project
}

type readiedPipeline struct {
	setup *setup // which state of the project's record
	ready *ready
}

func (r *readied) of(p incarnation) readiedPipeline {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.pipelines[p]
}

func (r *readied) keep(p incarnation, made readiedPipeline) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pipelines == nil || len(r.pipelines) >= memoSize {
		r.pipelines = map[incarnation]readiedPipeline{}
	}
	r.pipelines[p] = made
}

// ready makes ready what an assembly runs: the request's own pipeline, or the project's, which is made again only when
// the project or a policy that it names has changed.
func (e *Engine) ready(ctx context.Context, tenant string, st *state, own []PipelineStep) (*ready, error) {
	r := &resolver{e: e, ctx: ctx, tenant: tenant, settings: st.setup.settings, policies: st.policies}
	if own != nil {
		return r.make(own)
	}
	// Records come from a memo, so the same bytes are the same pointer.
	last := e.readied.of(st.project.Incarnation)
	if last.setup == st.setup && slices.Equal(last.ready.policies.records, st.policies.records) {
		return last.ready, nil
	}
	r.lenient = true
	made, err := r.make(r.settings.Pipeline)
	if err == nil && !made.partial {
		e.readied.keep(st.project.Incarnation, readiedPipeline{st.setup, made})
	}
	return made, err
}
