package plan

import (
	"fmt"
	"strings"
)

// Result is a window after one step.
type Result struct {
	Items []Item
	// Fates holds, for the considered rows that this step touched, what became of them.
	Fates []RowFate
	// AskSummary is the last stored message that the step would have a summary cover; 0: it asks for none.
	AskSummary uint64
}

// RowFate names the row of a Fate.
type RowFate struct {
	Row int32
	Fate
}

// Apply carries out the ops of one step. It does not change items; those of the result may share their contents. A
// *BadPlanError means that the plan is malformed, any other error that stored content could not be read.
func Apply(items []Item, ops []Op, step int16, src Source) (Result, error) {
	order, err := check(items, ops)
	if err != nil {
		return Result{}, err
	}
	if len(ops) == 0 {
		return Result{Items: items}, nil
	}
	a := applier{src: src, step: step, out: Result{Items: make([]Item, 0, len(items)+4)}}
	at := 0
	for _, n := range order {
		op := &ops[n]
		a.out.Items = append(a.out.Items, items[at:op.First]...)
		at = int(op.First)
		if op.Code == OpInsert {
			a.insert(op)
			continue
		}
		if err := a.apply(op, items[op.First:op.Last+1], items[op.Last+1:]); err != nil {
			return Result{}, err
		}
		at = int(op.Last) + 1
	}
	a.out.Items = append(a.out.Items, items[at:]...)
	a.showSummary()
	return a.out, nil
}

// applier builds the result of one step.
type applier struct {
	src  Source
	step int16
	out  Result

	summary    *Op // the SUMMARISE, where there is a summary to show
	summaryAt  int // its place in out.Items
	summarised []int32
}

// fate notes what became of the considered rows that an item shows.
func (a *applier) fate(it *Item, action Action, reason string) {
	f := Fate{Action: action, Step: a.step, Reason: reason}
	switch {
	case it.Change == Answer, it.Change == Notice && action != Drop: // these show no considered row
	case it.Change == Notice, it.Change == Compressed:
		for _, row := range it.Rows {
			a.out.Fates = append(a.out.Fates, RowFate{row, f})
		}
	default:
		a.out.Fates = append(a.out.Fates, RowFate{it.Row, f})
	}
}

func (a *applier) insert(op *Op) {
	a.out.Items = append(a.out.Items, NoticeItem(KindMarker, op.Text, a.src.NoticeTokens(op.Text), a.step, op.Reason))
}

// NoticeItem is a system-class message. step is the pipeline step that inserted it, -1 for the host.
func NoticeItem(kind Kind, text string, tokens uint32, step int16, reason string) Item {
	return Item{Change: Notice, Row: -1, Text: text, Step: step, Reason: reason,
		Record: Record{Role: RoleSystem, Kind: kind, Tokens: tokens, TextBytes: uint32(len(text)), Atom: noAtom}}
}

// noAtom marks system-class items, which belong to no atom. Records gives each of them an atom of its own.
const noAtom = ^uint32(0)

func (a *applier) apply(op *Op, in, behind []Item) error {
	switch op.Code {
	case OpDrop:
		for i := range in {
			a.fate(&in[i], Drop, op.Reason)
		}
	case OpCompress:
		return a.compress(op, in)
	case OpTruncate:
		return a.retext(op, in, Truncate, func(_ *Item, text string) string {
			return a.src.Truncate(text, int(op.Argument))
		})
	case OpStub:
		return a.retext(op, in, Stub, func(it *Item, text string) string {
			return fmt.Sprintf("[result of %s left out: %d bytes, %d tokens]", a.src.Tool(it), len(text), it.Tokens)
		})
	case OpReplace:
		return a.retext(op, in, Replace, func(*Item, string) string { return op.Text })
	case OpSummarise:
		a.summarise(op, in, behind)
	}
	return nil
}

// retext gives each item of the range another text.
func (a *applier) retext(op *Op, in []Item, action Action, change func(*Item, string) string) error {
	for i := range in {
		it := in[i]
		text, err := TextOf(&it, a.src)
		if err != nil {
			return err
		}
		changed := change(&it, text)
		if changed == text {
			a.out.Items = append(a.out.Items, it)
			continue
		}
		if it.Tokens, err = a.src.TokensWith(&it, changed); err != nil {
			return err
		}
		it.Text, it.TextBytes, it.Step, it.Reason = changed, uint32(len(changed)), a.step, op.Reason
		if it.Change == Unchanged {
			it.Change = Retexted
		}
		it.CompressedTokens = 0
		if it.Role == RoleUser && it.Change == Retexted {
			it.CompressedTokens = a.src.UserTokens(EarlierQuestion(it.Turn) + changed)
		}
		a.fate(&it, action, op.Reason)
		a.out.Items = append(a.out.Items, it)
	}
	return nil
}

// compress replaces a turn's atoms by one user message that holds its questions.
func (a *applier) compress(op *Op, in []Item) error {
	if len(in) == 1 && in[0].Change == Compressed {
		a.out.Items = append(a.out.Items, in[0])
		return nil
	}
	var users []*Item
	for i := range in {
		if in[i].Role == RoleUser {
			users = append(users, &in[i])
		} else {
			a.fate(&in[i], Drop, op.Reason)
		}
	}
	it := *users[0]
	it.Rows = nil
	for _, u := range users {
		if u.Change == Compressed {
			it.Rows = append(it.Rows, u.Rows...)
		} else {
			it.Rows = append(it.Rows, u.Row)
		}
		a.fate(u, Compress, op.Reason)
	}
	it.Change, it.Kind, it.Step, it.Reason = Compressed, KindChat, a.step, op.Reason
	it.Flags = it.Flags&(FlagPending|FlagMandatory|FlagTagsLeftOut) | FlagCompressed
	it.Text = ""
	// The tokens of a single stored question were counted when it was stored. TextOf makes its text if it is needed.
	if len(users) == 1 && users[0].Change == Unchanged && it.CompressedTokens != 0 {
		it.Tokens, it.CompressedTokens = it.CompressedTokens, 0
		it.TextBytes += uint32(len(EarlierQuestion(it.Turn)))
		a.out.Items = append(a.out.Items, it)
		return nil
	}
	texts := make([]string, len(users))
	for i, u := range users {
		text, err := questionOf(u, a.src)
		if err != nil {
			return err
		}
		texts[i] = text
	}
	it.Text = EarlierQuestion(it.Turn) + strings.Join(texts, "\n")
	it.TextBytes = uint32(len(it.Text))
	it.Tokens, it.CompressedTokens = a.src.UserTokens(it.Text), 0
	a.out.Items = append(a.out.Items, it)
	return nil
}
