package window

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

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
func (svc *Service) readState(ctx context.Context, c access.Caller, projectID, sessionID string, own []project.PipelineStep,
) (*state, error) {
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
func (svc *Service) ready(ctx context.Context, tenant string, st *state, own []project.PipelineStep) (*policy.Ready, error) {
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
