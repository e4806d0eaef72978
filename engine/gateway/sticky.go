package gateway

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// maxSticky is how many agents are remembered at most.
const maxSticky = 10_000

// dropsBlocks reports whether to tell the provider to drop thinking that is bound to another prompt. That is needed once an
// open loop of tool calls has lost thinking, and then in all later calls of the same agent: the provider binds new blocks
// to the setting.
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

// dropped reports whether a recent call of the agent dropped thinking, as far as its decisions are kept.
func (svc *Service) dropped(ctx context.Context, ask *Ask) (bool, error) {
	rows, err := svc.decisions.List(ctx, ask.Caller.Unconfined(), ask.Project.ID, decision.Filter{Session: ask.Session},
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
