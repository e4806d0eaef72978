package project

import (
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// Setup is what a project's record alone says. It is made once for each state of the record.
type Setup struct {
	Settings Settings
	Encoding int
	Policies []string // the tenant's own that the pipeline names
}

// SetupOf fills in a project's settings.
func (svc *Service) SetupOf(p *Record) (*Setup, error) {
	if s := p.setup.Load(); s != nil {
		return s, nil
	}
	settings, err := svc.WithDefaults(p.Set)
	if err != nil {
		return nil, err
	}
	s := &Setup{Settings: settings, Encoding: settings.Encoding(), Policies: svc.OwnPolicies(settings.Pipeline)}
	p.setup.Store(s)
	return s, nil
}

// OwnPolicies are the names in a pipeline that may be policies of the tenant's, each once.
func (svc *Service) OwnPolicies(entries []PipelineStep) []string {
	var names []string
	for _, entry := range entries {
		name, _, _ := strings.Cut(entry.Policy, "@")
		if !svc.Pipelines.BuiltIn(name) && ident.ValidID(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
