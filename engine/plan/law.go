package plan

import "fmt"

// Law is the validity check that every window must pass, whatever its policies did. The engine runs it after the last
// policy.
type Law struct {
	BudgetMessages uint32 // 0 means no limit
	BudgetTokens   uint32 // 0 means no limit
	// ViewerDelegation is the delegation of the viewer; 0 means the main agent, which may see everything.
	ViewerDelegation uint32
	// Opening are the tokens of the message that a format inserts at the front if a window does not begin with a user
	// message.
	Opening uint32
}

// Violation names the rule that a window breaks.
type Violation struct {
	Rule   string `json:"rule"`
	Detail string `json:"detail"`
}

func (v *Violation) Error() string { return v.Rule + ": " + v.Detail }

// The rules, in the order in which they are checked.
const (
	RuleNothingInvented = "nothing_invented"
	RuleOrder           = "order"
	RuleWholeAtoms      = "whole_atoms"
	RuleDelegationScope = "delegation_scope"
	RuleMandatory       = "mandatory"
	RuleProvider        = "provider_validity"
	RuleBudgetMessages  = "budget_messages"
	RuleBudgetTokens    = "budget_tokens"
)

// MaySee reports whether the viewer may see a delegation's messages.
func (l *Law) MaySee(delegation uint32) bool {
	return l.ViewerDelegation == 0 || delegation == 0 || delegation == l.ViewerDelegation
}

// Cost returns the number of history and pending messages, without earlier questions, and the tokens of all items. If
// only is not 0, it counts only items that have all of these flags.
func (l *Law) Cost(items []Item, only Flags) (messages uint32, tokens uint64) {
	opened := false
	for i := range items {
		if items[i].Flags&only != only {
			continue
		}
		tokens += uint64(items[i].Tokens)
		if items[i].counted() {
			messages++
		}
		if !items[i].isMessage() {
			opened = opened || items[i].Kind == KindMarker // the format shows it as a user message
			continue
		}
		if !opened && items[i].Role != RoleUser {
			tokens += uint64(l.Opening)
		}
		opened = true
	}
	return messages, tokens
}

// Check checks that the window after, which policies made from before, is valid. before is in window order, and its
// atoms are numbered without gaps. Check returns nil or the first rule that is broken.
func (l *Law) Check(before, after []Item) *Violation { return l.check(before, after, false) }

// CheckDerived checks only that after was made from before: that no message was invented, moved or torn from its atom, and
// that no mandatory one is missing. It is for tables that may still have messages that the viewer may not see.
func CheckDerived(before, after []Item) *Violation { return new(Law).check(before, after, true) }

func (l *Law) check(before, after []Item, derived bool) *Violation {
	p := prove(before)
	for i := range after {
		it := &after[i]
		switch {
		case it.Change == Notice:
			if it.Role != RoleSystem || it.Row != -1 {
				return &Violation{RuleNothingInvented, fmt.Sprintf("window entry %d is no message that was there", i)}
			}
			if !derived && !l.maySeeAll(it, p, before) {
				return &Violation{RuleDelegationScope,
					fmt.Sprintf("window entry %d is made of a message of a delegation that the viewer may not see", i)}
			}
			continue
		case !p.was(it, before):
			return &Violation{RuleNothingInvented, fmt.Sprintf("window entry %d is no message that was there", i)}
		}
		if !p.follows(it) {
			return &Violation{RuleOrder, fmt.Sprintf("window entry %d stands before an older one", i)}
		}
		if !derived && !l.maySeeAll(it, p, before) {
			return &Violation{RuleDelegationScope,
				fmt.Sprintf("the message of turn %d belongs to a delegation that the viewer may not see", it.Turn)}
		}
	}
	if v := p.atoms(before, after); v != nil || derived {
		return v
	}
	if v := open(after); v != nil {
		return v
	}
	messages, tokens := l.Cost(after, 0)
	if l.BudgetMessages > 0 && messages > l.BudgetMessages {
		return &Violation{RuleBudgetMessages, fmt.Sprintf("%d messages, %d allowed", messages, l.BudgetMessages)}
	}
	if l.BudgetTokens > 0 && tokens > uint64(l.BudgetTokens) {
		return &Violation{RuleBudgetTokens, fmt.Sprintf("%d tokens, %d allowed", tokens, l.BudgetTokens)}
	}
	return nil
}

// maySeeAll reports whether the viewer may see every message that an entry shows; a compressed turn shows several.
func (l *Law) maySeeAll(it *Item, p *proof, before []Item) bool {
	for _, row := range it.Rows {
		if at := p.at(row); at < 0 || !l.MaySee(before[at].Delegation) {
			return false
		}
	}
	return l.MaySee(it.Delegation)
}

// proof has the position of each row in the window before the step, and how far the check of the window after it has
// come.
type proof struct {
	place []int32 // by row: index in before, or -1
	next  int32   // the lowest position that the next entry may have
}

// prove starts a proof for the items before.
func prove(before []Item) *proof {
	rows := 0
	for i := range before {
		rows = max(rows, int(before[i].Row)+1)
	}
	p := &proof{place: make([]int32, rows)}
	for i := range p.place {
		p.place[i] = -1
	}
	for i := range before {
		if before[i].Change == Unchanged || before[i].Change == Retexted {
			p.place[before[i].Row] = int32(i)
		}
	}
	return p
}

func (p *proof) at(row int32) int32 {
	if row < 0 || int(row) >= len(p.place) {
		return -1
	}
	return p.place[row]
}

// was reports whether an entry shows a message that was there before, with the same role, turn, atom and delegation.
func (p *proof) was(it *Item, before []Item) bool {
	at := p.at(it.Row)
	if at < 0 {
		return false
	}
	b := &before[at]
	switch it.Change {
	case Unchanged, Retexted:
		return it.Role == b.Role && it.Seq == b.Seq && it.Turn == b.Turn && it.Atom == b.Atom &&
			it.Delegation == b.Delegation
	case Answer:
		return it.Role == RoleTool && it.Atom == b.Atom && it.Delegation == b.Delegation
	case Compressed:
		if it.Role != RoleUser || len(it.Rows) == 0 || it.Rows[0] != it.Row {
			return false
		}
		for _, row := range it.Rows {
			at := p.at(row)
			if at < 0 || before[at].Role != RoleUser || before[at].Turn != it.Turn {
				return false
			}
		}
		return it.Delegation == b.Delegation
	}
	return false
}

// follows reports whether an entry comes after all previous entries, and advances next.
func (p *proof) follows(it *Item) bool {
	first := p.at(it.Row)
	if it.Change == Answer { // it may be anywhere after its call
		return p.next > first
	}
	if first < p.next {
		return false
	}
	p.next = first + 1
	if it.Change == Compressed {
		p.next = p.at(it.Rows[len(it.Rows)-1]) + 1
	}
	return true
}

// atoms checks that no atom lost a part and that no mandatory message is missing.
func (p *proof) atoms(before, after []Item) *Violation {
	size := func(items []Item) []int32 {
		n := make([]int32, len(before)+1)
		for i := range items {
			if items[i].Role != RoleSystem && items[i].Change != Compressed && int(items[i].Atom) < len(n) {
				n[items[i].Atom]++
			}
		}
		return n
	}
	had, has := size(before), size(after)
	for atom := range has {
		if has[atom] != 0 && has[atom] != had[atom] {
			return &Violation{RuleWholeAtoms, fmt.Sprintf("an atom of %d messages has %d", had[atom], has[atom])}
		}
	}
	for i := range before {
		b := &before[i]
		if b.Flags&FlagMandatory != 0 && (int(b.Atom) >= len(has) || has[b.Atom] == 0) {
			return &Violation{RuleMandatory, fmt.Sprintf("the message of turn %d that must stay is missing", b.Turn)}
		}
	}
	return nil
}

// open checks that nothing, not even a notice, follows the atom of an open call. A window may end with one, because its
// results come next.
func open(after []Item) *Violation {
	last := noAtom
	if len(after) > 0 {
		last = after[len(after)-1].Atom
	}
	for i := range after {
		if after[i].Flags&FlagOpenCall != 0 && after[i].Atom != last {
			return &Violation{RuleProvider, fmt.Sprintf("a call of turn %d has no result and is not the last",
				after[i].Turn)}
		}
	}
	return nil
}
