package plan

import "slices"

// StoredOnly is the argument of a SUMMARISE that shows the stored summary and asks for no longer one.
const StoredOnly = 1

// summarise takes the atoms that the stored summary covers out of the range, and notes up to which message the op asks
// for a longer one.
func (a *applier) summarise(op *Op, in, behind []Item) {
	if op.Argument != StoredOnly {
		a.out.AskSummary = lastAsked(in, behind)
	}
	covers, text, _ := a.src.Summary()
	if text == "" {
		a.out.Items = append(a.out.Items, in...)
		return
	}
	a.summary, a.summaryAt = op, len(a.out.Items)
	fates := len(a.out.Fates)
	for first := 0; first < len(in); {
		end := atomEnd(in, first)
		if atom := in[first:end]; covered(atom, covers) {
			for i := range atom {
				a.fate(&atom[i], Summarise, op.Reason)
			}
		} else {
			a.out.Items = append(a.out.Items, atom...)
		}
		first = end
	}
	for _, f := range a.out.Fates[fates:] {
		a.summarised = append(a.summarised, f.Row)
	}
}

// showSummary puts the summary where the op begins, unless an earlier step did and this plan leaves it there. It is told
// which rows it stands for, because their fate is its own from now on.
func (a *applier) showSummary() {
	if a.summary == nil {
		return
	}
	at := slices.IndexFunc(a.out.Items, func(it Item) bool { return it.Change == Notice && it.Kind == KindSummary })
	if at < 0 {
		_, text, tokens := a.src.Summary()
		at = a.summaryAt
		a.out.Items = slices.Insert(a.out.Items, at, NoticeItem(KindSummary, text, tokens, a.step, a.summary.Reason))
	}
	shown := &a.out.Items[at]
	shown.Rows = slices.Concat(shown.Rows, a.summarised)
}

// lastAsked is the highest number of a stored message in the range up to which all stored messages of the table are in the
// range: a late result stands with its call, before messages that are older.
func lastAsked(in, behind []Item) uint64 {
	last := newestStored(in)
	for i := range behind {
		if it := &behind[i]; it.Role != RoleSystem && it.Flags&FlagPending == 0 && it.Change != Answer {
			last = min(last, max(it.Seq, 1)-1)
		}
	}
	return last
}

// newestStored is the highest number of a stored message among items, 0 where there is none.
func newestStored(items []Item) uint64 {
	newest := uint64(0)
	for i := range items {
		if it := &items[i]; it.Role != RoleSystem && it.Flags&FlagPending == 0 {
			newest = max(newest, it.Seq)
		}
	}
	return newest
}

// atomEnd is where the atom that begins at first ends.
func atomEnd(items []Item, first int) int {
	end := first + 1
	for end < len(items) && splits(items, uint32(end)) {
		end++
	}
	return end
}

// covered tells whether a summary of the messages up to covers stands for a whole atom: a result that came later shows
// all of it again. A turn's joined questions stay, since not all of them need be covered.
func covered(atom []Item, covers uint64) bool {
	for i := range atom {
		it := &atom[i]
		if it.Role == RoleSystem || it.Flags&(FlagPending|FlagMandatory) != 0 || it.Delegation != 0 || it.Seq > covers ||
			it.Change == Compressed && len(it.Rows) > 1 {
			return false
		}
	}
	return true
}
