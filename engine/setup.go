package engine

import (
	"slices"
	"strings"
)

// setup is what a project's record alone says. It is made once for each state of the record.
type setup struct {
	settings Settings
	encoding int
	policies []string // the tenant's own that the pipeline names
}

// setupOf fills in a project's settings.
func (e *Engine) setupOf(p *project) (*setup, error) {
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
		if !e.pipelines.builtIn(name) && validID(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
