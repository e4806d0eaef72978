package policy

import (
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Readied caches the ready pipelines of projects. The zero value is an empty cache.
type Readied struct {
	mu        sync.RWMutex
	pipelines map[ident.Incarnation]readiedPipeline // by project
}

type readiedPipeline struct {
	setup *project.Setup // identifies the state of the project's record
	ready *Ready
}

// Find returns a project's pipeline, or nil if it is not cached, or if the project or a policy in the pipeline has
// changed.
func (r *Readied) Find(p ident.Incarnation, setup *project.Setup, policies Set) *Ready {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if last := r.pipelines[p]; last.setup == setup && last.ready.Policies.Same(policies) {
		return last.ready
	}
	return nil
}

// Keep caches a project's pipeline.
func (r *Readied) Keep(p ident.Incarnation, setup *project.Setup, ready *Ready) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pipelines == nil || len(r.pipelines) >= records.MemoSize {
		r.pipelines = map[ident.Incarnation]readiedPipeline{}
	}
	r.pipelines[p] = readiedPipeline{setup, ready}
}
