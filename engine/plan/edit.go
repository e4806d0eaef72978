package plan

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Edit is how a window shows a message differently from its stored form, apart from its text. It is never changed once
// an item has it.
type Edit struct {
	Strip     Parts      // parts that are left out
	Documents []string   // the texts of a tool's documents, as chat.Message.Documents lists them; nil if they are the stored ones
	Arguments []Argument // new arguments of calls, ascending; for a result, those of its call
}

// Argument is the new text of one call's arguments.
type Argument struct {
	Call int // counts from 0
	Text string
}

// ArgumentsOf returns the new arguments of a call; false if they are the stored ones.
func (e *Edit) ArgumentsOf(call int) (string, bool) {
	if e == nil {
		return "", false
	}
	at, found := e.find(call)
	if !found {
		return "", false
	}
	return e.Arguments[at].Text, true
}

func (e *Edit) find(call int) (at int, found bool) {
	return slices.BinarySearchFunc(e.Arguments, call, func(a Argument, call int) int { return a.Call - call })
}

// CutsOnly reports whether the edit is that of a Cut with these documents and nothing else.
func (e *Edit) CutsOnly(documents []string) bool {
	if e == nil {
		return documents == nil
	}
	return e.Strip == 0 && len(e.Arguments) == 0 && slices.Equal(e.Documents, documents)
}

// ArgumentsBelow returns the new arguments of the calls before the given one.
func (e *Edit) ArgumentsBelow(call int) []Argument {
	at, _ := e.find(call)
	return e.Arguments[:at]
}

// with returns a changed copy of the edit.
func (e *Edit) with(change func(*Edit)) *Edit {
	out := new(Edit)
	if e != nil {
		out.Strip, out.Documents, out.Arguments = e.Strip, e.Documents, slices.Clone(e.Arguments)
	}
	change(out)
	return out
}

// WithDocuments returns the edit with other texts of documents.
func (e *Edit) WithDocuments(texts []string) *Edit {
	return e.with(func(e *Edit) { e.Documents = texts })
}

// cut returns the edit with the documents of a cut.
func (e *Edit) cut(c *Cut) *Edit {
	if c.Documents == nil {
		return e
	}
	return e.WithDocuments(c.Documents)
}

// CallOf returns a call of an item with all changes so far; false if there is none.
func CallOf(it *Item, call int, src Source) (Called, bool, error) {
	if it.Change == Notice || it.Change == Compressed || call < 0 {
		return Called{}, false, nil
	}
	c, index, ok, err := src.Call(it, call)
	if changed, is := it.Edit.ArgumentsOf(index); ok && is {
		c.Arguments = changed
	}
	return c, ok, err
}

// keep pins the atoms in the ranges of all KEEPs, in a copy of the items. Their fates are recorded last, after those of
// other ops.
func (a *applier) keep(items []Item, ops []Op) []Item {
	var pinned []Item
	for n := range ops {
		op := &ops[n]
		if op.Code != OpKeep {
			continue
		}
		if pinned == nil {
			pinned = slices.Clone(items)
		}
		for i := op.First; i <= op.Last; i++ {
			pinned[i].Flags |= FlagPinned
			a.fate(&pinned[i], Keep, op.Reason)
		}
	}
	if pinned == nil {
		return items
	}
	return pinned
}

// strip removes parts of messages that contain any of them.
func (a *applier) strip(op *Op, in []Item) error {
	parts := Parts(op.Argument)
	for i := range in {
		it := in[i]
		if it.Change != Unchanged && it.Change != Retexted || it.Flags&parts.Flags() == 0 {
			a.out.Items = append(a.out.Items, it)
			continue
		}
		it.Edit = it.Edit.with(func(e *Edit) { e.Strip |= parts })
		it.Flags &^= parts.Flags()
		it.Step, it.Reason = a.step, op.Reason
		_, tokens, empty, err := a.src.Edited(&it)
		if err == nil && empty {
			it.Change, it.Text, it.TextBytes = Retexted, Placeholder, uint32(len(Placeholder))
			_, tokens, _, err = a.src.Edited(&it)
		}
		if err != nil {
			return err
		}
		it.Tokens = tokens
		a.fate(&it, Strip, op.Reason)
		a.out.Items = append(a.out.Items, it)
	}
	return a.meter.Spend(0)
}

// Placeholder is the text of a message without other content.
const Placeholder = "…"

// replaceArguments changes the arguments of one call.
func (a *applier) replaceArguments(n int, op *Op, it Item) error {
	call := int(op.Argument)
	was, ok, err := CallOf(&it, call, a.src)
	switch {
	case err != nil:
		return err
	case !ok:
		return &BadPlanError{n, fmt.Sprintf("record %d has no call %d", op.First, call)}
	case json.Valid([]byte(was.Arguments)) && !json.Valid([]byte(op.Text)):
		return &BadPlanError{n, fmt.Sprintf("the arguments of call %d of record %d were JSON, the new ones are not", call,
			op.First)}
	}
	if was.Arguments == op.Text {
		a.out.Items = append(a.out.Items, it)
		return nil
	}
	if err := a.meter.Spend(len(was.Arguments)/textBytesPerFuel + len(op.Text)*fuelPerMadeByte); err != nil {
		return err
	}
	it.Edit = it.Edit.with(func(e *Edit) { e.set(Argument{call, op.Text}) })
	it.Step, it.Reason, it.Supplied = a.step, op.Reason, true
	if _, it.Tokens, _, err = a.src.Edited(&it); err != nil {
		return err
	}
	a.fate(&it, Replace, op.Reason)
	a.out.Items = append(a.out.Items, it)
	a.argued = true
	return a.meter.Spend(len(it.Edit.Arguments))
}

// set replaces the arguments of a call, or adds them.
func (e *Edit) set(a Argument) {
	at, found := e.find(a.Call)
	if !found {
		e.Arguments = slices.Insert(e.Arguments, at, a)
	}
	e.Arguments[at] = a
}

// answerArgued updates the results of calls whose arguments were changed, if they show the arguments. It visits all
// items once, because other ops of the plan may have changed the results.
func (a *applier) answerArgued() error {
	if !a.argued {
		return nil
	}
	var call *Item
	for i := range a.out.Items {
		it := &a.out.Items[i]
		if it.Role == RoleAssistant {
			call = it
		}
		if it.Role != RoleTool || call == nil || it.Atom != call.Atom || call.Edit == nil || call.Step != a.step {
			continue
		}
		it.Edit = it.Edit.with(func(e *Edit) { e.Arguments = call.Edit.Arguments })
		if call.Supplied {
			it.Supplied, it.Step = true, a.step
		}
		if it.Change != Unchanged {
			continue
		}
		text, tokens, _, err := a.src.Edited(it)
		if err != nil {
			return err
		}
		if err := a.meter.Spend(len(text) * fuelPerMadeByte); err != nil {
			return err
		}
		it.TextBytes, it.Tokens = uint32(len(text)), tokens
	}
	return a.meter.Spend(0)
}
