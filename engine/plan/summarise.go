package plan

import "slices"

// StoredOnly is the argument of a SUMMARISE that shows the stored summary without asking to extend it.
const StoredOnly = 1

// summarise removes the atoms in the range that the stored summary covers, and notes up to which message the op asks to
// extend the summary.
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

// showSummary inserts the summary at the op's position, unless an earlier step did and this plan kept it. The summary's
// item gets the rows that it replaces, because dropping the summary later drops them, too.
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

// lastAsked returns the highest Seq such that every stored message of the table up to it is in the range or before it.
// A message after the range can be older than the newest in it, because a late result is placed with its call.
func lastAsked(in, behind []Item) uint64 {
	last := newestStored(in)
	for i := range behind {
		if it := &behind[i]; it.Role != RoleSystem && it.Flags&FlagPending == 0 && it.Change != Answer {
			last = min(last, max(it.Seq, 1)-1)
		}
	}
	return last
}

// newestStored returns the highest Seq of the stored messages among items; 0 if there are none.
func newestStored(items []Item) uint64 {
	newest := uint64(0)
	for i := range items {
		if it := &items[i]; it.Role != RoleSystem && it.Flags&FlagPending == 0 {
			newest = max(newest, it.Seq)
		}
	}
	return newest
}

// atomEnd returns the index after the atom that begins at first.
func atomEnd(items []Item, first int) int {
	end := first + 1
	for end < len(items) && splits(items, uint32(end)) {
		end++
	}
	return end
}

// covered reports whether a summary of the messages up to covers replaces the whole atom. An atom with a later result
// is not covered. The joined questions of a turn are not covered either, because some of them may be newer.
func covered(atom []Item, covers uint64) bool {
	for i := range atom {
		it := &atom[i]
		if it.Role == RoleSystem || it.Flags&(FlagPending|FlagMandatory|FlagPinned) != 0 || it.Delegation != 0 ||
			it.Seq > covers ||
			it.Change == Compressed && len(it.Rows) > 1 {
			return false
		}
	}
	return true
}
