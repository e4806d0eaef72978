package window

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"

	"github.com/seed-0906e6bc/mneme/engine/session/cache"
)

// findMemories finds the memories for the window.
func (a *assembly) findMemories() error {
	return a.memories.Find(a.ctx, MemoryInputs{Tenant: a.tenant, Project: a.pinc, Session: a.extent.Incarnation, At: a.at,
		Ask: a.request.Memories, Counter: &a.Counter, Rows: a.rows,
		Stored: len(a.rows) - len(a.pending), Posted: a.posted, Visible: a.visible, Damaged: errReread,
		Body: func(r *cache.Row) (*chat.Message, error) { return a.body(r) }})
}

// inject puts memories into the table. Those that the request asks for may take half of the tokens that the mandatory
// messages leave.
func (a *assembly) inject() error {
	t, law := &a.table, a.law(a.limits)
	room := uint64(project.MaxBudget)
	if b := uint64(a.limits.tokens); b > 0 && a.request.Memories != nil {
		_, must := law.Cost(t.items, plan.FlagMandatory)
		room = (b - min(must, b)) / 2
		t.request.MemoryBudget = uint32(room)
	}
	newest := -1
	for i := len(t.items) - 1; i >= 0 && newest < 0; i-- {
		if it := &t.items[i]; it.Role == plan.RoleUser && law.MaySee(it.Delegation) {
			newest = i
		}
	}
	if notice := a.memories.Put(t.items, newest, room, uint64(a.limits.tokens)); notice != nil {
		t.items = slices.Insert(t.items, 0, *notice)
		a.made = t.items
	}
	return a.ctx.Err()
}

// asSystem reports whether a notice has the role system. Markers in Anthropic's format do not, because they would have
// to be in the system prompt, which precedes all messages. Ledgers never do, because they contain what users and tools
// wrote.
func (a *assembly) asSystem(it *plan.Item) bool {
	switch it.Kind {
	case plan.KindMemory:
		return a.request.Memories.AsSystem()
	case plan.KindMarker:
		return a.format != chat.AnthropicMessages && len(it.Rows) == 0
	}
	return true
}

// shownMemories returns the memories that were found for the window, best first, and says which of them it includes. It
// returns nil if the request asked for none.
func (a *assembly) shownMemories() []RecalledMemory {
	if a.request.Memories == nil {
		return nil
	}
	shown := a.memories.ShowsFound(a.result.items)
	out := make([]RecalledMemory, 0, len(a.memories.Found))
	for i := range a.memories.Found {
		m := &a.memories.Found[i]
		namespace, key := ident.SplitFullName(m.Key)
		out = append(out, RecalledMemory{Key: key, Namespace: namespace, Version: m.Version, Category: m.Category,
			Injected: shown && m.Shown})
	}
	return out
}
