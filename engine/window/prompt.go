package window

import (
	"cmp"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// beginSheet starts a new prompt sheet for the window.
func (a *assembly) beginSheet() {
	loop := len(a.result.items) // the first item of an open tool loop
	if n := loop; n > 0 && a.result.items[n-1].Role == plan.RoleTool {
		for loop--; loop > 0 && a.result.items[loop].Role != plan.RoleUser; loop-- {
		}
	}
	tools, taken := prompt.Tools(a.request.Tools)
	a.sheet.Begin(prompt.Input{Tools: tools, Taken: taken, Format: a.format, Control: prompt.CacheControl(cmp.Or(a.request.CacheControl, "keep")),
		Before: a.before, Whole: a.whole(), Again: a.outcomes != nil, Answers: a.answers,
		Entry: func(item int32) prompt.Entry { return a.entry(item, int(item) > loop) }})
}

// whole reports whether the window is exactly the whole transcript.
func (a *assembly) whole() bool {
	return a.older.messages == 0 && (!a.bare || a.extent.Messages == 0) && !a.markdown && !a.memories.Reminds() &&
		len(a.result.items) == len(a.rows) && plan.AsStored(a.result.items)
}

func (a *assembly) entry(item int32, loop bool) prompt.Entry {
	it := &a.result.items[item]
	e := prompt.Entry{Tokens: it.Tokens, Pending: -1, Loop: loop, Changed: it.Change != plan.Unchanged || it.Edit != nil}
	if it.Change == plan.Notice {
		return e
	}
	if first := len(a.rows) - len(a.pending); int(it.Row) >= first {
		e.Pending = int(a.posted[int(it.Row)-first])
	}
	if it.Change == plan.Unchanged || it.Change == plan.Retexted {
		e.Made, e.Reply = a.rows[it.Row].Made, it.Role == plan.RoleAssistant
	}
	return e
}

// settlePrompt records the properties of the finished window as a prompt.
func (a *assembly) settlePrompt(w *chat.Window) {
	for _, item := range a.sheet.Stripped {
		a.tell(item, plan.Fate{Action: plan.Strip, Step: -1,
			Reason: "thinking_prefix: its thinking was made behind another prompt, so the provider would refuse it"})
	}
	for _, item := range a.sheet.Strange {
		a.tell(item, plan.Fate{Action: plan.Keep, Step: -1,
			Reason: "reasoning_prefix: its reasoning was made behind another prompt, so the provider may ignore it"})
	}
	a.result.trace = a.sheet.Trace(&a.builder, w, a.result.tokens+uint64(a.limits.systemTokens))
	if a.before != nil {
		base := uint64(a.limits.systemTokens)
		if a.format == chat.AnthropicMessages {
			for i := range a.result.items {
				it := &a.result.items[i]
				if it.Change == plan.Notice && a.asSystem(it) {
					base += uint64(it.Tokens)
				}
				if shown := a.memories.Of(it); shown != nil && shown.AsSystem {
					base += uint64(shown.Tokens)
				}
			}
		}
		a.result.compared = a.sheet.Compare(&a.builder, w.Rendered, base, uint64(a.limits.opening))
	}
}

// tell sets the fate of a message in the report, if no policy changed the message.
func (a *assembly) tell(item int32, fate plan.Fate) {
	if at := &a.result.fates[a.result.items[item].Row]; at.Action == "" {
		*at = fate
	}
}

// prompt returns what the decision stores about the window as a prompt.
func (a *assembly) prompt() decision.Prompt {
	return decision.Prompt{End: a.sheet.End, Made: a.sheet.Made, Breakpoints: a.sheet.Breakpoints}
}

// shared returns the prefix that the window shares with the previous one, or nil if there is no previous window.
func (a *assembly) shared() *decision.Prefix {
	if a.before == nil {
		return nil
	}
	c := &a.result.compared
	return &decision.Prefix{Messages: c.Messages, Tokens: c.Tokens, Share: c.Share}
}
