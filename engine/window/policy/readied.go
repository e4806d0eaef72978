package policy

import (
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Readied remembers the pipelines of projects as they were last made ready. The zero value remembers none.
type Readied struct {
	mu        sync.RWMutex
	pipelines map[ident.Incarnation]readiedPipeline // by project
}

type readiedPipeline struct {
	setup *project.Setup // which state of the project's record
	ready *Ready
}

// Find gives a project's pipeline, unless the project or a policy that it names has changed since; then nil.
func (r *Readied) Find(p ident.Incarnation, setup *project.Setup, policies Set) *Ready {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if last := r.pipelines[p]; last.setup == setup && last.ready.Policies.Same(policies) {
		return last.ready
	}
	return nil
}

// Keep remembers a project's pipeline.
func (r *Readied) Keep(p ident.Incarnation, setup *project.Setup, ready *Ready) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pipelines == nil || len(r.pipelines) >= records.MemoSize {
		r.pipelines = map[ident.Incarnation]readiedPipeline{}
	}
	r.pipelines[p] = readiedPipeline{setup, ready}
}
