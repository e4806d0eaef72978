package plan

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
)

// Marker is the text that says that earlier messages were left out. A ledger begins with it.
const Marker = "[earlier messages left out]"

// MaxLedger is the maximum number of tokens that a LEDGER may ask for.
const MaxLedger = 4000

// ledgerNames is the text between the marker and the names in a ledger.
const ledgerNames = " They named "

// What finding and naming literals costs, in fuel. The literals of a stored message were found when it was posted.
// Ledgers are cached, but a step's fuel must not depend on that, so counting is charged in advance.
const (
	fuelPerNamer      = 8  // each record whose literals are looked at
	textBytesPerScan  = 8  // bytes of a text that is scanned because a step changed it
	fuelPerLedgerByte = 16 // each byte of room for literals
)

// namersAtOnce is how many messages' literals are fetched together, newest first.
const namersAtOnce = 64

// Ledger is the result of a LEDGER: the literals that fit, in window order.
type Ledger struct {
	Named []literal.Literal
	// Row is the newest considered row that the ledger is made of. It is the same while the cut stays where it is, so
	// what is computed for a ledger can be kept with it.
	Row int32
}

// Text returns the text of a ledger that names all but the oldest literals.
func (l *Ledger) Text(without int) string {
	if without == len(l.Named) {
		return Marker
	}
	size := len(Marker + ledgerNames)
	for _, is := range l.Named[without:] {
		size += len(is.Label) + len(is.Text) + len(": ") + len("; ")
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteString(Marker + ledgerNames)
	for i, is := range l.Named[without:] {
		switch {
		case i > 0 && is.Label == l.Named[without+i-1].Label:
			b.WriteString(", ")
		case i > 0:
			b.WriteString("; ")
		}
		if is.Label != "" && (i == 0 || is.Label != l.Named[without+i-1].Label) {
			b.WriteString(is.Label)
			b.WriteString(": ")
		}
		b.WriteString(is.Text)
	}
	return b.String()
}

// Fit returns how many of the oldest literals have to go for the text to count at most most tokens. count counts the
// tokens of a text. A text that names more is taken to have more tokens, so that few texts are counted.
func (l *Ledger) Fit(most int, count func(string) int) (without int) {
	if count(l.Text(0)) <= most {
		return 0
	}
	return 1 + sort.Search(len(l.Named)-1, func(n int) bool { return count(l.Text(n+1)) <= most })
}

// bytesPer2Tokens bounds what a ledger names, in bytes per two of its tokens.
const bytesPer2Tokens = 5

// Typical sizes for reserving memory: a literal's bytes, and a ledger's number of literals.
const (
	usualNamed = 16
	maxUsual   = 256
)

// filling takes literals for a ledger, newest first, for as long as there is room.
type filling struct {
	room  int
	taken []literal.Literal
	seen  map[string]bool
}

// take takes a message's literals. It returns false once one has no room.
func (f *filling) take(list literal.List) bool {
	for is := range list.LastFirst() {
		if f.seen[is.Text] {
			continue
		}
		size := len(is.Text) + 2
		if n := len(f.taken); n == 0 || f.taken[n-1].Label != is.Label {
			size += len(is.Label) + 2
		}
		if f.room -= size; f.room < 0 {
			return false
		}
		f.seen[is.Text] = true
		f.taken = append(f.taken, is)
	}
	return true
}

// ledger inserts the ledger that a plan asks for before the oldest message of the window, if there is anything to name.
func (a *applier) ledger(op *Op, items []Item, ops []Op) error {
	gone := removed(ops, len(items))
	room := int(op.Argument) * bytesPer2Tokens / 2
	if err := a.meter.Spend(room * fuelPerLedgerByte); err != nil {
		return err
	}
	usual := min(room/usualNamed, maxUsual)
	f := filling{room: room, taken: make([]literal.Literal, 0, usual), seen: make(map[string]bool, usual)}
	var rows []int32
	supplied := false
	for last := int(op.Last); last >= int(op.First); last -= namersAtOnce {
		first := max(int(op.First), last-namersAtOnce+1)
		more, err := a.nameAll(&f, &rows, &supplied, items[first:last+1], gone[first:last+1])
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	slices.Reverse(f.taken)
	if len(f.taken) == 0 {
		return nil
	}
	text, tokens, without := a.src.Ledger(&Ledger{Named: f.taken, Row: rows[0]}, op.Argument)
	if without == len(f.taken) {
		return nil
	}
	a.out.Items = slices.DeleteFunc(a.out.Items, a.marks)
	if err := a.meter.Spend(len(text) * fuelPerMadeByte); err != nil {
		return err
	}
	notice := NoticeItem(KindMarker, text, tokens, a.step, ledgerReason(len(f.taken)-without))
	notice.Rows, notice.Supplied = rows, supplied
	at := slices.IndexFunc(a.out.Items, func(it Item) bool { return it.isMessage() })
	if at < 0 {
		at = len(a.out.Items)
	}
	a.out.Items = slices.Insert(a.out.Items, at, notice)
	return nil
}

// marks reports whether an item is a marker that this step inserted, whose place a ledger takes.
func (a *applier) marks(it Item) bool {
	return it.Change == Notice && it.Kind == KindMarker && it.Step == a.step && it.Text == Marker
}

// ledgerReason is the reason of a ledger in the report.
func ledgerReason(literals int) string {
	if literals == 1 {
		return "ledger: names 1 literal"
	}
	return "ledger: names " + strconv.Itoa(literals) + " literals"
}

// removed returns, by record, whether a plan drops or compresses it.
func removed(ops []Op, records int) []bool {
	gone := make([]bool, records)
	for i := range ops {
		if op := &ops[i]; op.Code == OpDrop || op.Code == OpCompress {
			for at := op.First; at <= op.Last; at++ {
				gone[at] = true
			}
		}
	}
	return gone
}

// checkLedger returns what is wrong with a plan's LEDGER, or nil. The ops are valid by themselves.
func checkLedger(items []Item, ops []Op) error {
	ledger := -1
	for n := range ops {
		if ops[n].Code != OpLedger {
			continue
		}
		if ledger >= 0 {
			return &BadPlanError{n, fmt.Sprintf("makes a second ledger, after op %d", ledger)}
		}
		ledger = n
	}
	if ledger < 0 {
		return nil
	}
	gone := removed(ops, len(items))
	for _, at := range [...]uint32{ops[ledger].First, ops[ledger].Last} {
		if !gone[at] {
			return &BadPlanError{ledger, fmt.Sprintf("names record %d, which the plan neither drops nor compresses", at)}
		}
	}
	return nil
}

// nameAll takes the literals of the items that are left out and that the viewer may see, newest first. It adds to rows
// the rows whose literals were examined, and notes whether one of them is of an item with a supplied text.
func (a *applier) nameAll(f *filling, rows *[]int32, supplied *bool, items []Item, gone []bool) (more bool, err error) {
	from, stored := make([]*Item, 0, len(items)), make([]int32, 0, len(items))
	for i := len(items) - 1; i >= 0; i-- {
		it := &items[i]
		if !gone[i] || !it.isMessage() || it.Change == Answer || !a.src.Sees(it) {
			continue
		}
		from = append(from, it)
		if it.Change == Unchanged && it.Edit == nil {
			stored = append(stored, it.Row)
		}
	}
	lists, err := a.src.Literals(stored)
	if err != nil {
		return false, err
	}
	for _, it := range from {
		list := literal.List("")
		if it.Change == Unchanged && it.Edit == nil {
			list, lists = lists[0], lists[1:]
		} else if list, err = a.scan(it); err != nil {
			return false, err
		}
		if err := a.meter.Spend(fuelPerNamer); err != nil {
			return false, err
		}
		*supplied = *supplied || it.Supplied
		if it.Change == Compressed {
			*rows = append(*rows, it.Rows...)
		} else {
			*rows = append(*rows, it.Row)
		}
		if !f.take(list) {
			return false, nil
		}
	}
	return true, nil
}

// scan finds the literals of an item that an earlier step changed, in what it shows now.
func (a *applier) scan(it *Item) (literal.List, error) {
	var text string
	var err error
	if it.Change == Compressed {
		text, err = questionOf(it, a.src)
	} else {
		text, err = TextOf(it, a.src)
	}
	if err != nil {
		return "", err
	}
	size := len(text)
	var arguments []string
	for n := 0; it.Role == RoleAssistant; n++ {
		c, ok, err := CallOf(it, n, a.src)
		if err != nil {
			return "", err
		}
		if !ok {
			break
		}
		arguments = append(arguments, c.Arguments)
		size += len(c.Arguments)
	}
	if err := a.meter.Spend(size / textBytesPerScan); err != nil {
		return "", err
	}
	return literal.Of(text, arguments...), nil
}
