package gateway

import (
	"context"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// Figures are the tokens that providers counted for calls of a project to a model since the process started.
type Figures struct {
	Tenant, Project, Model string
	Input, Cached, Written uint64 // tokens of prompts, and those of them that came from the provider's cache
	decision.Calibration
}

// gauges hold figures by project and model.
type gauges struct {
	mu  sync.Mutex
	all map[gauge]*Figures
	// days has what was learned about models today.
	days map[calibrated]*decision.Calibration
}

type gauge struct{ tenant, project, model string }

type calibrated struct {
	tenant string
	pinc   ident.Incarnation
	day    uint16
	model  string
}

// maxGauges is how many figures are kept separately. The others are added up under an empty name.
const maxGauges = 1000

// learn adds the tokens that a provider counted for a call.
func (svc *Service) learn(ctx context.Context, out *Outgoing, spent *decision.Spent) {
	g := &svc.gauges
	key := gauge{out.ask.Caller.Tenant, out.project.ID, out.call.Model}
	counted := out.counted()
	g.mu.Lock()
	f := g.all[key]
	if f == nil && len(g.all) >= maxGauges {
		key = gauge{}
		f = g.all[key]
	}
	if f == nil {
		f = &Figures{Tenant: key.tenant, Project: key.project, Model: key.model}
		if g.all == nil {
			g.all = map[gauge]*Figures{}
		}
		g.all[key] = f
	}
	f.Input += uint64(max(0, spent.Input))
	f.Cached += uint64(max(0, spent.Cached))
	f.Written += uint64(max(0, spent.Written))
	if counted > 0 {
		f.Add(uint64(max(0, spent.Input)), counted)
	}
	g.mu.Unlock()
	if counted == 0 || spent.Input <= 0 || out.call.Model == "" {
		return
	}
	if err := svc.calibrate(ctx, out, uint64(spent.Input), counted); err != nil {
		svc.db.Log.Warn("a provider's token counts could not be stored", "tenant", out.ask.Caller.Tenant, "error", err)
	}
}

// counted returns Mneme's own count of the prompt before scaling, or 0 if there is none.
func (out *Outgoing) counted() uint64 {
	if !out.Windowed || out.Mode != Assemble {
		return 0
	}
	return uint64(out.scale.Within(int(out.After)))
}

// calibrate stores what was learned about a model. What this process knows replaces what is stored: another server learns
// too, and both are right.
func (svc *Service) calibrate(ctx context.Context, out *Outgoing, real, counted uint64) error {
	tenant, pinc, day := out.ask.Caller.Tenant, out.project.Incarnation, records.Day(svc.db.Now())
	key, g := calibrated{tenant, pinc, day, out.call.Model}, &svc.gauges
	g.mu.Lock()
	known := g.days[key]
	g.mu.Unlock()
	if known == nil {
		stored, err := svc.decisions.Calibration(ctx, tenant, pinc, day, key.model)
		if err != nil {
			return err
		}
		known = &stored
	}
	g.mu.Lock()
	if g.days == nil || len(g.days) >= maxGauges {
		g.days = map[calibrated]*decision.Calibration{}
	}
	if other := g.days[key]; other != nil {
		known = other
	}
	g.days[key] = known
	known.Add(real, counted)
	now := *known
	g.mu.Unlock()
	return svc.decisions.KeepCalibration(ctx, tenant, pinc, day, &now)
}

// Figures returns the figures of all projects and models.
func (svc *Service) Figures() []Figures {
	g := &svc.gauges
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Figures, 0, len(g.all))
	for _, f := range g.all {
		out = append(out, *f)
	}
	return out
}
