package gateway

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// maxSticky bounds what is remembered of agents.
const maxSticky = 10_000

// dropsBlocks tells whether the provider is to leave out thinking that is bound to another prompt: where an open loop of
// tool calls has lost thinking, and from then on in all calls of the same agent, because a provider that was told so once
// holds blocks to it.
func (svc *Service) dropsBlocks(ctx context.Context, out *Outgoing, w *windowed) (bool, error) {
	ask := out.ask
	if ask.Body.Format != chat.AnthropicMessages || ask.Body.Thinking != "adaptive" {
		return false, nil
	}
	key := ask.Caller.Tenant + "\x00" + out.project.Incarnation.String() + "\x00" + ask.Session + "\x00" + ask.Agent
	svc.mu.Lock()
	drops, known := svc.sticky[key]
	svc.mu.Unlock()
	if !known {
		var err error
		if drops, err = svc.dropped(ctx, ask); err != nil {
			return false, err
		}
	}
	drops = drops || w.Thinking != nil && w.Thinking.Needs != ""
	svc.mu.Lock()
	if svc.sticky == nil || len(svc.sticky) >= maxSticky {
		svc.sticky = map[string]bool{}
	}
	svc.sticky[key] = drops
	svc.mu.Unlock()
	out.call.DropsBlocks = drops
	return drops, nil
}

// dropped tells whether an agent's last call had the provider leave out thinking, as far as decisions are kept.
func (svc *Service) dropped(ctx context.Context, ask *Ask) (bool, error) {
	rows, err := svc.decisions.List(ctx, ask.Caller, ask.Project.ID, decision.Filter{Session: ask.Session},
		records.Page{Limit: 20})
	if err != nil {
		return false, err
	}
	for i := range rows.Data {
		if row := &rows.Data[i]; row.Viewer.Agent == ask.Agent && row.Call != nil && row.Call.DropsBlocks {
			return true, nil
		}
	}
	return false, nil
}
