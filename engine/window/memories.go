package window

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/decision"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// remembered is a memory that was recalled for a window. What names it is an input of the decision.
type remembered struct {
	decision.Memory
	category, content string
	injected          bool // into the table
}

// recallFrom is where an assembly's memories are looked for.
type recallFrom struct {
	caller    access.Caller
	projectID string
	project   *project.Record
}

// remember recalls the memories that the request asks for. Without a query it looks for the text of the newest user
// message that the viewer may see. It answers the codes of package recall, with fields named as in the request.
func (a *assembly) remember() error {
	if a.recall == nil || a.request.Memories == nil {
		return nil
	}
	ask, from := a.request.Memories, a.recall
	a.recall = nil // once, however often the window is made
	q := recall.Query{Query: ask.Query, Limit: ask.Limit, Scope: "memories"}
	if strings.TrimSpace(q.Query) == "" {
		question, err := a.question()
		if err != nil {
			return err
		}
		if q.Query = question; strings.TrimSpace(question) == "" {
			q.Query = "*" // the most recent
		}
	}
	found, err := a.svc.recall.Recall(a.ctx, from.caller, from.projectID, q)
	if known, ok := errors.AsType[*fault.Error](err); ok && known.Kind == fault.Invalid {
		for i := range known.Fields {
			known.Fields[i].Field = "memories." + known.Fields[i].Field
		}
	}
	if err != nil {
		return err
	}
	keys := make([]string, len(found.Data))
	for i, hit := range found.Data {
		keys[i] = hit.Key
	}
	records, err := a.svc.memories.Read(a.ctx, a.tenant, from.project, keys)
	if err != nil {
		return err
	}
	for _, rec := range records {
		if rec != nil { // else it was forgotten meanwhile
			a.memories = append(a.memories, rememberedOf(rec))
		}
	}
	return nil
}

func rememberedOf(r *memory.Record) remembered {
	return remembered{Memory: decision.Memory{Key: r.Key, Incarnation: r.Incarnation, Version: r.Version},
		category: r.Category, content: r.Content}
}

// maxQuestion bounds what of a message is used as a query, in bytes.
const maxQuestion = 2000

// question is the text of the newest user message that the viewer may see.
func (a *assembly) question() (string, error) {
	for _, r := range slices.Backward(a.rows) {
		if r.Role != plan.RoleUser || !a.visible(r) {
			continue
		}
		m, err := a.body(r)
		if errors.Is(err, errReread) { // damaged
			continue
		}
		if err != nil {
			return "", err
		}
		return strings.ToValidUTF8(m.Text[:min(len(m.Text), maxQuestion)], ""), nil
	}
	return "", nil
}

const (
	// rememberedTitle begins the message that holds memories.
	rememberedTitle = "Memories that may matter here. They were recalled, not said in this conversation:"
	// maxRemembered bounds that message, in bytes: a memory that makes it longer is left out, whatever the budget.
	maxRemembered = 64 << 10
)

// inject puts the memories that fit in front of the table, best first, as one system-class message. They get half of
// the tokens that what must stay leaves.
func (a *assembly) inject() error {
	a.injected = 0
	if len(a.memories) == 0 {
		return nil
	}
	t, law := &a.table, a.law(a.limits)
	room := uint64(project.MaxBudget)
	if b := uint64(a.limits.tokens); b > 0 {
		_, must := law.Cost(t.items, plan.FlagMandatory)
		room = (b - must) / 2
	}
	text, tokens := rememberedTitle, uint64(a.NoticeTokens(rememberedTitle))
	for i := range a.memories {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		m := &a.memories[i]
		m.injected = false
		line := m.line()
		if len(text)+len(line) > maxRemembered {
			continue
		}
		if n := uint64(a.count(line)); tokens+n <= room {
			text, tokens, m.injected = text+line, tokens+n, true
			a.injected++
		}
	}
	// A text may have a token more than its parts, where two of them meet.
	exact := a.NoticeTokens(text)
	for i := len(a.memories) - 1; i >= 0 && uint64(exact) > room; i-- {
		if m := &a.memories[i]; m.injected {
			text = strings.Replace(text, m.line(), "", 1)
			exact, m.injected = a.NoticeTokens(text), false
			a.injected--
		}
	}
	if a.injected == 0 {
		return nil
	}
	reason := fmt.Sprintf("recalled: %d of the %d memories found fit", a.injected, len(a.memories))
	t.items = slices.Insert(t.items, 0, plan.NoticeItem(plan.KindMemory, text, exact, -1, reason))
	a.made = t.items
	return nil
}

// line is a memory in the message's text.
func (m *remembered) line() string {
	return "\n- [" + m.category + "] " + m.Key + ": " + strings.ReplaceAll(m.content, "\n", "\n  ")
}

// shownMemories are the memories that were found for the window, best first, and which of them it shows; nil where the
// request asked for none.
func (a *assembly) shownMemories() []RecalledMemory {
	if a.request.Memories == nil {
		return nil
	}
	shown := slices.ContainsFunc(a.result.items, func(it plan.Item) bool {
		return it.Change == plan.Notice && it.Kind == plan.KindMemory
	})
	out := make([]RecalledMemory, 0, len(a.memories))
	for i := range a.memories {
		m := &a.memories[i]
		out = append(out, RecalledMemory{Key: m.Key, Version: m.Version, Category: m.category,
			Injected: shown && m.injected})
	}
	return out
}

// readRemembered reads the memories that a decision names, each in the version that it had then. It answers
// memory_purged where one of them is no longer stored.
func (a *assembly) readRemembered(d *decision.Decision) error {
	pinc := d.Project.Incarnation
	for _, want := range d.Memories {
		found, err := a.svc.memories.Load(a.ctx, a.tenant, [][]byte{records.Memory.Key(pinc, want.Key),
			records.MemoryVersion.Key(pinc, want.Key, uint32(want.Version))})
		if err != nil {
			return err
		}
		at := slices.IndexFunc(found, func(r *memory.Record) bool {
			return r != nil && !r.Damaged && r.Incarnation == want.Incarnation && r.Version == want.Version
		})
		if at < 0 {
			return fault.Errorf(fault.Gone, "memory_purged",
				"version %d of memory %q, which this decision used, is purged", want.Version, want.Key)
		}
		a.memories = append(a.memories, rememberedOf(found[at]))
	}
	return nil
}
