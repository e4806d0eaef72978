package window

import (
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
	"github.com/seed-0906e6bc/mneme/engine/view"
)

// table is what the first step sees.
type table struct {
	items   []plan.Item
	fates   []plan.Fate // by considered row, as the host decided before any policy
	request plan.Request
	tokens  uint64 // of the considered messages as stored
}

// tabulate makes the table of the considered messages. The messages of an atom stand together in it, damaged ones are
// repaired, calls without a result are answered, and what must stay is flagged.
func (a *assembly) tabulate() error {
	t := &a.table
	a.scratch.fates[0] = slices.Grow(a.scratch.fates[0][:0], len(a.rows))[:len(a.rows)]
	clear(a.scratch.fates[0])
	*t = table{fates: a.scratch.fates[0], items: slices.Grow(a.made[:0], len(a.rows)+8)}
	if a.markdown {
		if err := a.countMarkdown(); err != nil {
			return err
		}
	}
	n := newNumbering(a.view.Names)
	req := &t.request
	*req = plan.Request{BudgetMessages: a.limits.messages, BudgetTokens: a.limits.tokens, Now: a.at, Seed: a.seed,
		NewestTurn: a.extent.Turns, OlderExist: a.older.messages > 0}
	req.SummaryCovers, _, req.SummaryTokens = a.Summary()
	if len(a.pending) > 0 {
		req.NewestTurn++
	}
	req.ViewerDelegation = n.delegation(a.viewerDelegation())
	req.ViewerAgent = n.name(a.request.Viewer.Agent)
	order := a.windowOrder()
	last := a.lastVisible(order)
	atom := 0 // where the current atom begins in t.items
	for _, at := range order {
		r := a.rows[at]
		if r.AtomStart() {
			a.closeAtom(atom, last)
			atom = len(t.items)
		}
		tokens := a.tokensOf(r)
		t.tokens += uint64(tokens)
		if fate := a.repair(r); fate != nil {
			if t.fates[at] = *fate; fate.Action == plan.Drop {
				continue
			}
		}
		if r.AtomStart() {
			n.atoms++
		}
		it := plan.Item{Row: int32(at), Step: -1, Record: n.record(r)}
		if len(t.items) > atom {
			it.Turn = t.items[atom].Turn // an atom belongs to the turn of its call, even where a later turn answers it
		}
		if it.Tokens = tokens; r.Role == plan.RoleUser {
			it.CompressedTokens = a.compressedTokens(r)
		}
		if n := r.MarkdownBytes.Load(); a.markdown && n > 0 {
			it.TextBytes = n
		}
		if t.fates[at].Action == plan.Replace {
			it.Change, it.Text, it.Reason = plan.Retexted, Unreadable, t.fates[at].Reason
			it.TextBytes, it.CompressedTokens = uint32(len(Unreadable)), 0
			it.Tokens = a.retextedTokens(r, Unreadable)
		}
		t.items = append(t.items, it)
	}
	a.closeAtom(atom, last)
	a.made = t.items
	req.Strings, req.Tags = n.strings, n.tags
	if err := a.flagMandatory(); err != nil {
		return err
	}
	return a.inject()
}

// lastVisible is the atom, by its call's number, whose results may still come: the last that the viewer may see.
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

// closeAtom completes the atom that begins at an item: calls without a result are marked open where the result may
// still come, and answered by the host elsewhere. Flat text has no calls to complete.
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
		it.Tokens, it.TextBytes = a.messageTokens(plan.RoleTool, it.Text), uint32(len(it.Text))
		it.TagCount = 0
		t.items = append(t.items, it)
	}
}

// flagMandatory flags what must stay and refuses a budget that cannot hold it.
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
		if it := &t.items[i]; i == user || int(it.Atom) == atom {
			it.Flags |= plan.FlagMandatory
		}
	}
	messages, tokens := law.Cost(t.items, plan.FlagMandatory)
	if b := a.limits.messages; b > 0 && messages > b {
		return budgetTooSmall("messages", uint64(messages), b)
	}
	if b := a.limits.tokens; b > 0 && tokens > uint64(b) {
		return budgetTooSmall("tokens", tokens, b)
	}
	return nil
}

func budgetTooSmall(unit string, needed uint64, allowed uint32) error {
	return &fault.Error{Kind: fault.Invalid, Code: "budget_too_small", Unit: unit, Needed: int(needed),
		Allowed: int(allowed), Detail: fmt.Sprintf(
			"the newest user message and the newest atom need %d %s, the budget allows %d", needed, unit, allowed)}
}

// Unreadable stands in for the text of a message whose body is damaged.
const Unreadable = "[message unreadable: its stored body is damaged]"

// repair decides what becomes of a message whose stored content, or whose call's, is damaged. It gives nil for a
// message that needs no repair.
func (a *assembly) repair(r *view.Row) *plan.Fate {
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

// numbering gives the strings, delegations, tags and atoms of one request their numbers, in the order in which the
// window's records first name them, so that a request's bytes depend on its records alone.
type numbering struct {
	view        []string // the names that rows speak of by number
	strings     []string
	ids         []uint32 // by number in view: id in strings
	delegations []uint32 // by number in view: dense id
	dense       uint32   // delegations numbered so far
	tags        []uint32
	atoms       uint32 // atoms begun so far
}

func newNumbering(names []string) *numbering {
	n := &numbering{view: names, strings: make([]string, 1, 16)}
	scratch := make([]uint32, 2*(len(names)+2))
	n.ids, n.delegations = scratch[:len(names)+2], scratch[len(names)+2:]
	return n
}

// index finds a string among the view's names. A string that no row names is added behind them.
func (n *numbering) index(s string) uint32 {
	if s == "" {
		return 0
	}
	if i := slices.Index(n.view, s); i >= 0 {
		return uint32(i)
	}
	n.view = append(slices.Clip(n.view), s)
	return uint32(len(n.view) - 1)
}

// name gives the id of a string that a request names beside its records, delegation that of a delegation.
func (n *numbering) name(s string) uint32 { return n.string(n.index(s)) }

func (n *numbering) delegation(s string) uint32 { return n.delegationOf(n.index(s)) }

func (n *numbering) string(at uint32) uint32 {
	if at == 0 {
		return 0
	}
	if n.ids[at] == 0 {
		n.ids[at] = uint32(len(n.strings))
		n.strings = append(n.strings, n.view[at])
	}
	return n.ids[at]
}

func (n *numbering) delegationOf(at uint32) uint32 {
	if at == 0 {
		return 0
	}
	if n.delegations[at] == 0 {
		n.dense++
		n.delegations[at] = n.dense
	}
	return n.delegations[at]
}

// record describes a row to policies. Tokens are filled in by the caller, who knows the rendering.
func (n *numbering) record(r *view.Row) plan.Record {
	rec := plan.Record{Seq: r.Seq, Created: r.Created, Turn: r.Turn, TextBytes: r.TextBytes, Atom: n.atoms,
		Delegation: n.delegationOf(r.DelegationID), Agent: n.string(r.AgentID), Tool: n.string(r.ToolID),
		Flags: r.Flags &^ transcript.FlagEmpty, Role: r.Role, Kind: r.Kind}
	if len(r.TagIDs) > 0 {
		rec.TagsAt, rec.TagCount = uint32(len(n.tags)), uint32(len(r.TagIDs))
		for _, tag := range r.TagIDs {
			n.tags = append(n.tags, n.string(tag))
		}
	}
	return rec
}
