package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// setup is what a project's record alone says, made once per state of the record.
type setup struct {
	settings Settings
	encoding int
	policies []string // the tenant's own that the pipeline names

	resolved atomic.Pointer[resolved] // with the policies as they last stood
}

// resolve fills in a project's settings.
func (e *Engine) resolve(p *project) (*setup, error) {
	if s := p.setup.Load(); s != nil {
		return s, nil
	}
	settings, err := e.settings(p.Set)
	if err != nil {
		return nil, err
	}
	s := &setup{settings: settings, encoding: settings.encoding(), policies: e.ownPolicies(settings.Pipeline)}
	p.setup.Store(s)
	return s, nil
}

// ownPolicies are the names in a pipeline that may be policies of the tenant's, each once.
func (e *Engine) ownPolicies(entries []PipelineStep) []string {
	var names []string
	for _, entry := range entries {
		name, _, _ := strings.Cut(entry.Policy, "@")
		if !e.policies.isBuiltIn(name) && validID(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// policySet are policy records by name, as read together; nil where there is no such policy.
type policySet struct {
	names   []string
	records []*policyRecord
}

func (s policySet) find(name string) *policyRecord {
	if i := slices.Index(s.names, name); i >= 0 {
		return s.records[i]
	}
	return nil
}

func policyKeys(names []string) [][]byte {
	keys := make([][]byte, len(names))
	for i, name := range names {
		keys[i] = policyKey(name)
	}
	return keys
}

// policySet decodes the records read for names. One that is damaged counts as absent: windows go on without it.
func (e *Engine) policySet(tenant string, names []string, items []store.Item) (policySet, error) {
	set := policySet{names: names, records: make([]*policyRecord, len(names))}
	for i, it := range items {
		if it.Damaged {
			e.log.Error("a policy's record is damaged", "tenant", tenant, "policy", names[i])
		}
		if it.Value == nil {
			continue
		}
		rec, err := e.policyRecords.decode(tenant+"/"+names[i], it.Value)
		if err != nil {
			return set, err
		}
		set.records[i] = rec
	}
	return set, nil
}

// readPolicies reads policies by name.
func (e *Engine) readPolicies(ctx context.Context, tenant string, names []string) (policySet, error) {
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: policyKeys(names)})
	if err != nil {
		return policySet{}, err
	}
	return e.policySet(tenant, names, r.Keys)
}

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
		if s, err := e.resolve(guess); err == nil {
			names = s.policies
		}
	}
	for {
		p, got, _, err := e.readProject(ctx, c, projectID, func(pinc incarnation) [][]byte {
			return append([][]byte{headKey(pinc, session)}, policyKeys(names)...)
		})
		if err != nil {
			return nil, err
		}
		s, err := e.resolve(p)
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

// resolved makes ready what an assembly runs: the request's own pipeline, or the project's, which is made again only
// when the project or a policy that it names has changed.
func (e *Engine) resolved(ctx context.Context, tenant string, st *state, own []PipelineStep) (*resolved, error) {
	r := &resolver{e: e, ctx: ctx, tenant: tenant, settings: st.setup.settings, policies: st.policies}
	if own != nil {
		return r.resolve(own)
	}
	// Records come from a memo, so the same bytes are the same pointer.
	if ready := st.setup.resolved.Load(); ready != nil && slices.Equal(ready.policies.records, st.policies.records) {
		return ready, nil
	}
	r.lenient = true
	ready, err := r.resolve(r.settings.Pipeline)
	if err == nil && !ready.partial {
		st.setup.resolved.Store(ready)
	}
	return ready, err
}
