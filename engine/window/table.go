package window

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// table is the input of the first step.
type table struct {
	items   []plan.Item
	guarded []plan.Item // what the guards left of the items; the items themselves if there are none
	fates   []plan.Fate // by considered row, before the first step
	request plan.Request
	tokens  uint64 // of the considered messages, as stored
}

// tabulate makes the table of the considered messages. It puts the messages of each atom together, replaces damaged
// messages, adds results to calls that have none, and flags the mandatory messages.
func (a *assembly) tabulate() error {
	t := &a.table
	if err := a.scope(); err != nil {
		return err
	}
	a.scratch.fates[0] = slices.Grow(a.scratch.fates[0][:0], len(a.rows))[:len(a.rows)]
	clear(a.scratch.fates[0])
	*t = table{fates: a.scratch.fates[0], items: slices.Grow(a.made[:0], len(a.rows)+8)}
	if a.markdown {
		if err := a.countMarkdown(); err != nil {
			return err
		}
	}
	n := cache.NewNumbering(a.view.Names)
	req := &t.request
	*req = plan.Request{BudgetMessages: a.limits.messages, BudgetTokens: a.limits.tokens, Now: a.at, Seed: a.seed,
		NewestTurn: a.extent.LastTurn(), OlderExist: a.older.messages > 0 && a.compacted == 0}
	req.SummaryCovers, _, req.SummaryTokens = a.Summary()
	if len(a.pending) > 0 {
		req.NewestTurn = a.extent.Turns + 1
	}
	req.ViewerDelegation = n.Delegation(a.viewerDelegation())
	req.ViewerAgent = n.Name(a.request.Viewer.Agent)
	order := a.windowOrder()
	last := a.lastVisible(order)
	atom := 0         // index in t.items of the current atom's first message
	here := uint64(0) // tokens of the considered stored messages, counted as in the session's head
	for _, at := range order {
		r := a.rows[at]
		if r.AtomStart() {
			a.closeAtom(atom, last)
			atom = len(t.items)
		}
		tokens := a.tokensOf(r)
		t.tokens += uint64(tokens)
		if r.Flags&plan.FlagPending == 0 {
			here += uint64(r.Tokens[a.Encoding])
		}
		if fate := a.repair(r); fate != nil {
			t.fates[at] = *fate
			if fate.Action == plan.Drop {
				continue
			}
		}
		if r.AtomStart() {
			n.Atoms++
		}
		it := plan.Item{Row: int32(at), Step: -1, Record: n.Record(r)}
		it.Place = a.extent.Superseded.Place(r.Turn)
		if len(t.items) > atom { // an atom belongs to the turn of its call, even if a later turn has its result
			it.Turn, it.Place = t.items[atom].Turn, t.items[atom].Place
		}
		it.Tokens = tokens
		if r.Role == plan.RoleUser {
			it.CompressedTokens = a.QuestionAs(&r.Header)
		}
		if n := r.MarkdownBytes.Load(); a.markdown && n > 0 {
			it.TextBytes = n
		}
		if t.fates[at].Action == plan.Replace {
			it.Change, it.Text, it.Reason = plan.Retexted, Unreadable, t.fates[at].Reason
			it.TextBytes, it.CompressedTokens = uint32(len(Unreadable)), 0
			it.Tokens = a.StandIn(&r.Header, Unreadable)
		} else if s, ok := a.scopes[r.Seq]; ok {
			if err := a.relabel(&it, s); err != nil {
				return err
			}
			t.fates[at] = s.fate
		}
		t.items = append(t.items, it)
	}
	a.closeAtom(atom, last)
	a.made = t.items
	if a.older.messages > 0 {
		req.OlderTokens = a.tokens - min(here, a.tokens)
	}
	req.Strings, req.Tags = n.Strings, n.Tags
	if err := a.flagMandatory(); err != nil {
		return err
	}
	return a.inject()
}

// lastVisible returns the number of the call of the last atom that the viewer may see. Only this atom may still get
// results.
func (a *assembly) lastVisible(order []int) uint64 {
	for _, at := range slices.Backward(order) {
		r := a.rows[at]
		if a.visible(r) {
			if fate := a.repair(r); fate == nil || fate.Action != plan.Drop {
				return r.Call
			}
		}
	}
	return 0
}

// closeAtom completes the atom that begins at an item. A call without a result is marked as open if the result may
// still come; otherwise Mneme adds one. Flat text has no calls to complete.
func (a *assembly) closeAtom(at int, last uint64) {
	t := &a.table
	if at >= len(t.items) {
		return
	}
	call := a.rows[t.items[at].Row]
	if int(call.Calls) <= len(t.items)-at-1 || a.format == chat.Text && call.Seq != last {
		return
	}
	answered := make([]bool, call.Calls)
	for i := at + 1; i < len(t.items); i++ {
		answered[a.rows[t.items[i].Row].CallIndex] = true
	}
	if call.Seq == last {
		t.items[at].Flags |= plan.FlagOpenCall
		return
	}
	first := t.items[at]
	for i, ok := range answered {
		if ok {
			continue
		}
		it := plan.Item{Row: first.Row, Step: -1, Change: plan.Answer, Call: uint16(i), Text: chat.UnansweredText,
			Reason: "call_unanswered: the call has no result", Record: first.Record}
		it.Role, it.Kind, it.Flags, it.CompressedTokens = plan.RoleTool, plan.KindResult, 0, 0
		it.Tokens, it.TextBytes = a.Plain(plan.RoleTool, it.Text), uint32(len(it.Text))
		it.TagCount = 0
		t.items = append(t.items, it)
	}
}

// flagMandatory flags the mandatory messages. It returns an error if they are more messages than the budget allows.
// Whether their tokens fit is known only after the policies, which may shorten them.
func (a *assembly) flagMandatory() error {
	t, law := &a.table, a.law(a.limits)
	atom, user := -1, -1
	for i := len(t.items) - 1; i >= 0 && (atom < 0 || user < 0); i-- {
		it := &t.items[i]
		if !law.MaySee(it.Delegation) {
			continue
		}
		if atom < 0 {
			atom = int(it.Atom)
		}
		if user < 0 && it.Role == plan.RoleUser {
			user = i
		}
	}
	for i := range t.items {
		if it := &t.items[i]; i == user || int(it.Atom) == atom || it.Seq == a.compacted {
			it.Flags |= plan.FlagMandatory
		}
	}
	messages, _ := law.Cost(t.items, plan.FlagMandatory)
	if b := a.limits.messages; b > 0 && messages > b {
		return fault.MustStay("messages", int(messages), int(b))
	}
	return nil
}

// relabel gives an item the text that the viewer sees of it.
func (a *assembly) relabel(it *plan.Item, s scoped) (err error) {
	it.Change, it.Text, it.Reason = plan.Retexted, s.text, s.fate.Reason
	it.TextBytes = uint32(len(s.text))
	it.Tokens, err = a.TokensWith(it, s.text)
	return err
}

// Unreadable replaces the text of a message whose body is damaged.
const Unreadable = "[message unreadable: its stored body is damaged]"

// repair returns the fate of a message that is hidden from the viewer, or whose stored content, or that of its call, is
// damaged. It returns nil for others.
func (a *assembly) repair(r *cache.Row) *plan.Fate {
	if s, ok := a.scopes[r.Seq]; ok && s.fate.Action == plan.Drop {
		return &s.fate
	}
	if r.Call < a.compacted {
		return &plan.Fate{Action: plan.Drop, Step: -1, Reason: "compacted: a compaction block stands for it"}
	}
	const words = "storage_damaged: the stored message failed its checksum"
	if r.Call == transcript.UnknownCall && a.older.messages > 0 {
		return &plan.Fate{Action: plan.Drop, Step: -1,
			Reason: "beyond_horizon: the call that it answers is older than the messages that this window considers"}
	}
	call := r
	if r.Call != r.Seq {
		call = a.rowOf(r.Call)
	}
	switch {
	case r.Lost() || r.Damaged.Load() && r.Calls > 0:
		return &plan.Fate{Action: plan.Drop, Step: -1, Reason: words}
	case call == nil || call.Lost() || call.Damaged.Load() && call.Calls > 0:
		return &plan.Fate{Action: plan.Drop, Step: -1,
			Reason: "storage_damaged: the call that it answers failed its checksum"}
	case r.Damaged.Load():
		return &plan.Fate{Action: plan.Replace, Step: -1, Reason: words}
	}
	return nil
}
