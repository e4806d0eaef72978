package plan

import (
	"slices"
	"strings"
)

// Result is a window after one step.
type Result struct {
	Items []Item
	// Fates holds what happened to the considered rows that this step changed.
	Fates []RowFate
	// AskSummary is the last stored message that the step wants a summary to cover; 0 if it requests none.
	AskSummary uint64
}

// RowFate is a Fate and its row.
type RowFate struct {
	Row int32
	Fate
}

// Apply executes the ops of one step, and charges the meter for the text that they make. It does not change items; the
// result may share their contents. A *BadPlanError means that the plan is invalid, an error of the meter that fuel or
// time has run out, and any other error that stored content could not be read.
func Apply(items []Item, ops []Op, step int16, src Source, meter Meter) (Result, error) {
	if len(ops) == 0 {
		return Result{Items: items}, nil
	}
	if err := meter.Spend(len(ops) * fuelPerItem); err != nil {
		return Result{}, err
	}
	order, err := check(items, ops)
	if err != nil {
		return Result{}, err
	}
	a := applier{src: src, meter: meter, step: step, out: Result{Items: make([]Item, 0, len(items)+4)}}
	if items, err = a.mask(items, ops); err != nil {
		return Result{}, err
	}
	if err := a.load(items, ops); err != nil {
		return Result{}, err
	}
	items = a.keep(items, ops)
	at := 0
	for _, n := range order {
		op := &ops[n]
		if op.Code == OpReplace && int(op.First) < at { // another REPLACE of the previous record
			if err := a.apply(n, op, a.takeBack(), nil); err != nil {
				return Result{}, err
			}
			continue
		}
		a.out.Items = append(a.out.Items, items[at:op.First]...)
		at = int(op.First)
		if op.Code == OpInsert {
			if err := a.insert(op); err != nil {
				return Result{}, err
			}
			continue
		}
		if err := a.apply(n, op, items[op.First:op.Last+1], items[op.Last+1:]); err != nil {
			return Result{}, err
		}
		at = int(op.Last) + 1
	}
	a.out.Items = append(a.out.Items, items[at:]...)
	a.showSummary()
	if ledger := slices.IndexFunc(ops, func(op Op) bool { return op.Code == OpLedger }); ledger >= 0 {
		if err := a.ledger(&ops[ledger], items, ops); err != nil {
			return Result{}, err
		}
	}
	return a.out, a.answerArgued()
}

// applier builds the result of one step.
type applier struct {
	src   Source
	meter Meter
	step  int16
	out   Result

	summary    *Op // the SUMMARISE, if there is a summary to show
	summaryAt  int // its index in out.Items
	summarised []int32

	argued bool // the arguments of a call were changed
}

// takeBack removes the newest item from the result.
func (a *applier) takeBack() []Item {
	last := len(a.out.Items) - 1
	it := a.out.Items[last]
	a.out.Items = a.out.Items[:last]
	return []Item{it}
}

// load charges for the texts that the ops read, and loads them together.
func (a *applier) load(items []Item, ops []Op) error {
	var rows []int32
	fuel := 0
	for n := range ops {
		op := &ops[n]
		if op.Code == OpInsert || op.Code == OpLedger || op.Code == OpMask {
			continue
		}
		in := items[op.First : op.Last+1]
		fuel += len(in) * fuelPerItem
		if op.Code == OpDrop || op.Code == OpKeep || op.Code == OpSummarise || op.Code == OpCompress && op.showsWhole(users(in)) {
			continue
		}
		for i := range in {
			if op.Code == OpCompress && in[i].Role != RoleUser {
				continue
			}
			fuel += int(in[i].TextBytes) / textBytesPerFuel
			if in[i].Change == Unchanged {
				rows = append(rows, in[i].Row)
			}
		}
	}
	if err := a.meter.Spend(fuel); err != nil || len(rows) == 0 {
		return err
	}
	return a.src.Load(rows)
}

// fate records what happened to the considered rows that an item shows.
func (a *applier) fate(it *Item, action Action, reason string) {
	f := Fate{Action: action, Step: a.step, Reason: reason}
	switch {
	case it.Change == Answer, it.Change == Notice && (action != Drop || it.Kind != KindSummary): // these show no considered row
	case it.Change == Notice, it.Change == Compressed:
		for _, row := range it.Rows {
			a.out.Fates = append(a.out.Fates, RowFate{row, f})
		}
	default:
		a.out.Fates = append(a.out.Fates, RowFate{it.Row, f})
	}
}

func (a *applier) insert(op *Op) error {
	if err := a.meter.Spend(len(op.Text) * fuelPerMadeByte); err != nil {
		return err
	}
	notice := NoticeItem(KindMarker, op.Text, a.src.NoticeTokens(op.Text), a.step, op.Reason)
	notice.Supplied = op.Text != Marker
	a.out.Items = append(a.out.Items, notice)
	return a.meter.Spend(0)
}

// NoticeItem returns a system-class message. step is the pipeline step that inserted it; -1 means the host.
func NoticeItem(kind Kind, text string, tokens uint32, step int16, reason string) Item {
	return Item{Change: Notice, Row: -1, Text: text, Step: step, Reason: reason,
		Record: Record{Role: RoleSystem, Kind: kind, Tokens: tokens, TextBytes: uint32(len(text)), Atom: noAtom}}
}

// noAtom marks system-class items, which belong to no atom. Records gives each of them its own atom.
const noAtom = ^uint32(0)

func (a *applier) apply(n int, op *Op, in, behind []Item) error {
	switch op.Code {
	case OpDrop:
		for i := range in {
			a.fate(&in[i], Drop, op.Reason)
		}
	case OpCompress:
		return a.compress(op, in)
	case OpTruncate:
		return a.truncate(op, in)
	case OpStub:
		return a.retext(op, in, Stub, a.stub)
	case OpStrip:
		return a.strip(op, in)
	case OpReplace:
		if op.Template == ReplaceArguments {
			return a.replaceArguments(n, op, in[0])
		}
		return a.retext(op, in, Replace, func(*Item, string) (string, error) { return op.Text, nil })
	case OpSummarise:
		a.summarise(op, in, behind)
	}
	return nil
}

// retext replaces the text of each item of the range. It checks fuel and time for each of them.
func (a *applier) retext(op *Op, in []Item, action Action, change func(*Item, string) (string, error)) error {
	for i := range in {
		it := in[i]
		text, err := TextOf(&it, a.src)
		if err != nil {
			return err
		}
		was := it.Edit
		changed, err := change(&it, text)
		if err != nil {
			return err
		}
		if changed == text && it.Edit == was {
			a.out.Items = append(a.out.Items, it)
			continue
		}
		if err := a.meter.Spend(len(changed) * fuelPerMadeByte); err != nil {
			return err
		}
		tokens, err := a.src.TokensWith(&it, changed)
		if err != nil {
			return err
		}
		a.emit(&it, changed, tokens, action, op.Reason)
	}
	return a.meter.Spend(0)
}

// emit adds an item with another text to the result.
func (a *applier) emit(it *Item, text string, tokens uint32, action Action, reason string) {
	it.Text, it.TextBytes, it.Tokens, it.Step, it.Reason = text, uint32(len(text)), tokens, a.step, reason
	if it.Change == Unchanged {
		it.Change = Retexted
	}
	it.CompressedTokens = 0
	it.Supplied = it.Supplied || action == Replace
	if it.Role == RoleUser && it.Change == Retexted {
		it.CompressedTokens = a.src.QuestionTokens(it.Turn, text)
	}
	a.fate(it, action, reason)
	a.out.Items = append(a.out.Items, *it)
}

// users returns the user messages among items.
func users(in []Item) (found []*Item) {
	for i := range in {
		if in[i].Role == RoleUser {
			found = append(found, &in[i])
		}
	}
	return found
}

// countedBefore reports whether a turn's questions form a single one whose tokens were counted when it was stored.
func countedBefore(users []*Item) bool {
	return len(users) == 1 && users[0].Change == Unchanged && users[0].CompressedTokens != 0
}

// QuestionOverhead is how many tokens an earlier question may cost in addition to its text, if a COMPRESS limits the
// text.
const QuestionOverhead = 12

// showsWhole reports whether a COMPRESS shows a turn's questions as counted when stored.
func (op *Op) showsWhole(users []*Item) bool {
	return countedBefore(users) && op.holdsQuestion(users[0].CompressedTokens)
}

// holdsQuestion reports whether a COMPRESS shows an earlier question of n tokens whole.
func (op *Op) holdsQuestion(tokens uint32) bool {
	return op.Argument == 0 || uint64(tokens) <= uint64(op.Argument)+QuestionOverhead
}

// compress replaces a turn's atoms by one user message that contains its questions.
func (a *applier) compress(op *Op, in []Item) error {
	if len(in) == 1 && in[0].Change == Compressed && op.holdsQuestion(in[0].Tokens) {
		a.out.Items = append(a.out.Items, in[0])
		return nil
	}
	for i := range in {
		if in[i].Role != RoleUser {
			a.fate(&in[i], Drop, op.Reason)
		}
	}
	asked := users(in)
	it := *asked[0]
	it.Rows = nil
	for _, u := range asked {
		if u.Change == Compressed {
			it.Rows = append(it.Rows, u.Rows...)
		} else {
			it.Rows = append(it.Rows, u.Row)
		}
		it.Supplied = it.Supplied || u.Supplied
		a.fate(u, Compress, op.Reason)
	}
	it.Change, it.Kind, it.Step, it.Reason = Compressed, KindChat, a.step, op.Reason
	it.Flags = it.Flags&(FlagPending|FlagMandatory|FlagTagsLeftOut|FlagPinned) | FlagCompressed
	it.Text, it.Edit = "", nil
	if op.showsWhole(asked) { // TextOf makes its text if it is needed
		it.Tokens, it.CompressedTokens = it.CompressedTokens, 0
		it.TextBytes += uint32(len(EarlierQuestion(it.Turn)))
		a.out.Items = append(a.out.Items, it)
		return nil
	}
	texts := make([]string, len(asked))
	for i, u := range asked {
		text, err := questionOf(u, a.src)
		if err != nil {
			return err
		}
		texts[i] = text
	}
	question := strings.Join(texts, "\n")
	if op.Argument == 0 {
		it.Tokens = a.src.QuestionTokens(it.Turn, question)
	} else {
		if err := a.meter.Spend(min(len(question), int(op.Argument)*bytesPerToken) * fuelPerCutByte); err != nil {
			return err
		}
		question, it.Tokens = a.src.ShortQuestion(&it, question, op.Argument)
	}
	it.Text = EarlierQuestion(it.Turn) + question
	it.TextBytes, it.CompressedTokens = uint32(len(it.Text)), 0
	a.out.Items = append(a.out.Items, it)
	return a.meter.Spend(0)
}
