package policies_test

import (
	"slices"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// These are the fates of a record.
const (
	keeps      = "keep"
	drops      = "drop"
	compresses = "compress"
	truncates  = "truncate"
)

// played applies the rules of a cut literally: it takes the table's atoms one by one and computes every sum from
// scratch.
type played struct {
	t        *mnemetest.Table
	all      []atom
	gone     []bool    // by atom
	arrived  int       // atoms seen so far
	from     int       // the index of the atom at which the window begins
	asked    int       // questions from an earlier step before this atom are dropped
	question int       // the kept question of the turn that is cut inside; -1 if there is none
	inside   uint32    // the turn at the cut, before more was dropped
	cuts     bool      // there was an earlier cut
	tight    bool      // the cut leaves room for a whole turn
	most     [2]uint32 // if tight: the most messages and tokens that it leaves
	beside   uint64
	notices  []bool // whether there is room for each record

	share, room     float64
	depth, step     int64
	questionsTokens uint64
	marker, ledger  uint64
}

func number[T any](t *mnemetest.Table, key string, absent T) T {
	if v, ok := t.Config[key].(T); ok {
		return v
	}
	return absent
}

func play(t *mnemetest.Table, markerCost uint64) *played {
	p := &played{t: t, all: atoms(t), question: -1, notices: roomForNotices(t), share: number(t, "low_water", .5),
		room: number(t, "turn_room", .4), depth: int64(number(t, "depth", 20)), step: int64(number(t, "depth_step", 20))}
	p.gone = make([]bool, len(p.all))
	if b := uint64(t.BudgetTokens); b == 0 {
		p.questionsTokens = 1000
	} else if b >= 2000 || p.depth != 20 || p.step != 20 {
		p.questionsTokens = min(b/16, 1000)
	}
	if set := number(t, "question_tokens", -1); set >= 0 {
		p.questionsTokens = uint64(set)
	}
	if number(t, "marker", true) {
		messages, must := p.sum(func(i int) bool {
			return p.all[i].system() && p.notices[p.all[i].first] || p.all[i].must() && !p.all[i].system()
		})
		if within(must+markerCost, t.BudgetTokens) && within(messages, t.BudgetMessages) {
			p.marker = markerCost
		}
	}
	if p.marker > 0 {
		p.ledger = p.ledgerTokens()
	}
	p.beside = p.marker + p.ledger + p.questionsTokens
	return p
}

// ledgerTokens returns the tokens available for the ledger.
func (p *played) ledgerTokens() uint64 {
	b := uint64(p.t.BudgetTokens)
	if set := number(p.t, "ledger_tokens", -1); set >= 0 {
		return uint64(set)
	} else if b == 0 {
		return 1500
	}
	return min(max(b/8, 200), 1500, b/4)
}

func within(n uint64, bound uint32) bool { return bound == 0 || n <= uint64(bound) }

// tokensOf returns the tokens of an atom. A long kept question is shortened, unless it is the newest user message.
func (p *played) tokensOf(i int) (tokens uint64) {
	for _, r := range p.all[i].records {
		tokens += uint64(r.Tokens)
	}
	if i == p.question && i != p.newestUser() && p.pasted(i) {
		return p.short() + 8
	}
	return tokens
}

func (p *played) pasted(i int) bool {
	b, tokens := uint64(p.t.BudgetTokens), uint64(0)
	for _, r := range p.all[i].records {
		tokens += uint64(r.Tokens)
	}
	return b > 0 && tokens > b/4 && tokens > p.short()+8 && !p.all[i].flagged(mneme.Image|mneme.Audio|mneme.Document)
}

// short returns a sixteenth of the tokens, rounded to a power of two.
func (p *played) short() uint64 {
	n := uint64(64)
	for n < uint64(p.t.BudgetTokens)/16 {
		n *= 2
	}
	return n
}

func (p *played) sum(counts func(i int) bool) (messages, tokens uint64) {
	for i, a := range p.all {
		if !counts(i) {
			continue
		}
		tokens += p.tokensOf(i)
		if !a.system() && !a.question() {
			messages += uint64(len(a.records))
		}
	}
	return messages, tokens
}

// came reports whether an atom was seen and counts.
func (p *played) came(i int) bool {
	return i < p.arrived && (!p.all[i].system() || !slices.Contains(p.notices0(), false))
}

func (p *played) notices0() (room []bool) {
	for _, a := range p.all {
		if a.system() {
			room = append(room, p.notices[a.first])
		}
	}
	return room
}

func (p *played) window() (messages, tokens uint64) {
	messages, tokens = p.sum(func(i int) bool { return p.came(i) && !p.gone[i] })
	if slices.Contains(p.notices0(), false) { // those with room count from the start
		for i, a := range p.all {
			if a.system() && p.notices[a.first] {
				tokens += p.tokensOf(i)
			}
		}
	}
	return messages, tokens + p.beside
}

func (p *played) exceeds(maxMessages, maxTokens uint32) bool {
	messages, tokens := p.window()
	return !within(messages, maxMessages) || !within(tokens, maxTokens)
}

// newestUser returns the newest full user message that no earlier step pinned, newestAtom the newest such atom.
func (p *played) newestUser() int {
	return p.newestOf(func(a atom) bool { return a.asks() && !a.question() })
}

func (p *played) newestAtom() int { return p.newestOf(func(atom) bool { return true }) }

func (p *played) newestOf(is func(atom) bool) int {
	for i := p.arrived - 1; i >= 0; i-- {
		if a := p.all[i]; !a.system() && !a.pinned() && is(a) {
			return i
		}
	}
	return -1
}

func (p *played) turn(i int) uint32 { return p.all[i].records[0].Turn }
func (p *played) place(i int) int64 { return int64(placeOf(p.all[i].records[0])) }

func placeOf(r mnemetest.Record) uint32 {
	if r.Place != 0 {
		return r.Place
	}
	return r.Turn
}

// before returns the newest atom before an atom that is not system-class, or -1 if there is none.
func (p *played) before(i int) int {
	for i--; i >= 0; i-- {
		if !p.all[i].system() {
			return i
		}
	}
	return -1
}

func (p *played) arrive() {
	n := p.arrived
	p.arrived++
	a := p.all[n]
	if !p.came(n) {
		return
	}
	if was := p.before(n); !a.system() && (was < 0 || p.turn(was) != p.turn(n)) {
		p.arrived-- // the depth ignores the newest atom
		p.deepen(p.place(n))
		p.arrived++
		if a.asks() && !a.question() && (p.cuts || p.t.OlderExist) && p.step > 1 {
			if messages, tokens, ok := p.reserve(); ok {
				m, k := less(p.t.BudgetMessages, messages), less(p.t.BudgetTokens, tokens)
				if p.exceeds(m, k) {
					p.most = [2]uint32{m, k}
					p.cut(n, m, k)
					p.tight = false
					return
				}
			}
		}
	}
	p.tight = false
	if p.exceeds(p.t.BudgetMessages, p.t.BudgetTokens) {
		p.cut(n, p.t.BudgetMessages, p.t.BudgetTokens)
	}
}

// less returns a bound with n set aside.
func less(bound uint32, n uint64) uint32 {
	if bound == 0 {
		return 0
	}
	return uint32(max(int64(bound)-int64(n), 1))
}

func part(bound uint32, share float64) uint64 { return max(uint64(float64(bound)*share), 1) }

// reserve returns the size of the largest of the newest 16 complete turns with a tool result: all of it where one of
// them has thinking and it fits beside what always stays, otherwise at most turn_room.
func (p *played) reserve() (messages, tokens uint64, ok bool) {
	turns, thinks := 0, false
	for end := p.before(p.arrived - 1); end >= 0 && turns < 16; {
		turn, m, k, tools, thinking := p.turn(end), uint64(0), uint64(0), false, false
		for ; end >= 0 && p.turn(end) == turn; end = p.before(end) {
			for _, r := range p.all[end].records {
				k += uint64(r.Tokens)
				tools = tools || r.Role == mneme.Tool
				thinking = thinking || r.Flags.Has(mneme.Thinking)
			}
			if !p.all[end].question() {
				m += uint64(len(p.all[end].records))
			}
		}
		if tools {
			messages, tokens = max(messages, m), max(tokens, k)
			turns++
			thinks = thinks || thinking
		}
	}
	_, window := p.window()
	_, came := p.sum(func(i int) bool { return p.came(i) && !p.gone[i] })
	keptM, keptT := p.sum(func(i int) bool { return p.came(i) && (p.all[i].system() || p.all[i].pinned()) })
	p.tight = thinks && within(keptM+messages, p.t.BudgetMessages) && within(keptT+window-came+tokens, p.t.BudgetTokens)
	if p.tight {
		return messages, tokens, turns > 0 && p.room > 0
	}
	if p.t.BudgetMessages > 0 {
		messages = min(messages, part(p.t.BudgetMessages, p.room))
	}
	if p.t.BudgetTokens > 0 {
		tokens = min(tokens, part(p.t.BudgetTokens, p.room))
	}
	return messages, tokens, turns > 0 && p.room > 0
}

// deepen drops all full turns beyond the depth.
func (p *played) deepen(newest int64) {
	beyond := int64(0)
	if far := newest - p.depth - p.step/2; far >= 0 {
		beyond = far/p.step*p.step + p.step/2
	}
	for i := range p.arrived {
		if a := p.all[i]; !a.system() && p.place(i) <= beyond {
			if i == p.question {
				p.gone[i], p.question = true, -1
			}
			if !a.stays() && !a.question() {
				p.cuts = p.cuts || !p.gone[i]
				p.gone[i] = true
			}
			p.from = max(p.from, i+1)
		}
	}
}

// cut makes room. It keeps the newest turns of the depth if they are small, otherwise as much as the share allows.
func (p *played) cut(newest int, maxMessages, maxTokens uint32) {
	p.cuts = true
	if p.leaveDepth(maxMessages, maxTokens) {
		return
	}
	for ; p.asked < p.from; p.asked++ {
		if p.enough() {
			return
		}
		if a := p.all[p.asked]; a.question() && !a.stays() {
			p.gone[p.asked] = true
		}
	}
	p.move(newest)
	p.asked = p.from
}

func (p *played) leaveDepth(maxMessages, maxTokens uint32) bool {
	if p.share >= 1 {
		return false
	}
	last, begins := p.before(p.arrived), -1
	for i := p.from; i < p.arrived; i++ {
		if !p.all[i].system() && p.place(last)-p.place(i) >= max(p.depth, 1) {
			begins = i + 1
		}
	}
	if begins < 0 {
		return false
	}
	question := p.question
	p.question = -1 // the cost of a full message
	messages, tokens := p.sum(func(i int) bool { return i >= begins && i < p.arrived && !p.all[i].system() })
	p.question = question
	if p.t.BudgetMessages > 0 && messages > part(p.t.BudgetMessages, .8) ||
		p.t.BudgetTokens > 0 && tokens > part(p.t.BudgetTokens, p.share) {
		return false
	}
	gone, kept := slices.Clone(p.gone), p.question
	for i := range begins {
		if a := p.all[i]; !a.stays() && (a.question() && i >= p.asked || !a.question()) {
			p.gone[i] = true
		}
	}
	p.question = -1
	if p.exceeds(maxMessages, maxTokens) {
		p.gone, p.question = gone, kept
		return false
	}
	p.from, p.asked = begins, begins
	return true
}

// enough reports whether at most the share is left, or half of what is left besides the messages that stay anyway.
func (p *played) enough() bool {
	newest, user := p.newestAtom(), p.newestUser()
	staysM, staysT := p.sum(func(i int) bool {
		return p.came(i) && (p.all[i].system() || p.all[i].pinned() || i == newest || i == user || i == p.question)
	})
	messages, tokens := p.window()
	_, came := p.sum(func(i int) bool { return p.came(i) && !p.gone[i] })
	if p.tight && (!within(messages, p.most[0]) || !within(tokens, p.most[1])) {
		return false
	}
	return leaves(messages, staysM, p.t.BudgetMessages, p.share) &&
		leaves(tokens, staysT+tokens-came, p.t.BudgetTokens, p.share)
}

func leaves(has, stays uint64, bound uint32, share float64) bool {
	low := part(bound, share)
	if stays < uint64(bound) {
		low = max(low, stays+(uint64(bound)-stays)/2)
	}
	return bound == 0 || has <= low
}

// move moves the cut over whole turns, and into a turn that is long or the newest.
func (p *played) move(newest int) {
	last := uint32(0)
	if newest := p.before(p.arrived); newest >= 0 {
		last = p.turn(newest)
	}
	inside, of := false, int64(-1)
	for ; p.from < newest; p.from++ {
		a := p.all[p.from]
		if a.system() {
			continue
		}
		if a.question() {
			if whole := of == int64(p.turn(p.from)) && !inside; !whole && p.enough() {
				return
			}
			p.gone[p.from] = !a.stays()
			continue
		}
		turn := p.turn(p.from)
		if of != int64(turn) {
			if p.question >= 0 && p.turn(p.question) != turn {
				p.gone[p.question], p.question = true, -1
			}
			if p.enough() || turn == last && !p.exceeds(p.t.BudgetMessages, p.t.BudgetTokens) {
				return
			}
			messages, tokens := p.sum(func(i int) bool {
				return i >= p.from && p.came(i) && p.turn(i) == turn && !p.all[i].stays()
			})
			inside = turn == last || p.t.BudgetMessages > 0 && messages > part(p.t.BudgetMessages, .5) ||
				p.t.BudgetTokens > 0 && tokens > part(p.t.BudgetTokens, .5)
			of = int64(turn)
		} else if inside && p.enough() {
			return
		}
		if asks := inside && a.asks(); asks && p.question >= 0 {
			p.gone[p.question], p.question = true, -1
		}
		switch {
		case a.stays():
		case inside && a.asks():
			p.question = p.from
		default:
			p.gone[p.from] = true
		}
	}
	if a := p.all[newest]; !a.system() && !a.question() && p.question >= 0 && p.turn(p.question) != p.turn(newest) {
		p.gone[p.question], p.question = true, -1
	}
}

// force drops everything else if the budget does not hold what is left without earlier questions.
func (p *played) force() {
	if p.from < len(p.all) {
		p.inside = p.turn(p.from)
	}
	for pass, goes := range []func(i int) bool{
		func(i int) bool { return i >= p.asked && p.all[i].question() && !p.all[i].stays() },
		func(i int) bool { return i >= p.from && !p.all[i].stays() && !p.all[i].question() },
		func(i int) bool { return i == p.question },
		func(i int) bool { return p.all[i].pinned() && !p.all[i].must() && !p.all[i].system() },
	} {
		for i := range p.all {
			if p.exceeds(p.t.BudgetMessages, p.t.BudgetTokens) && goes(i) {
				p.gone[i] = true
				if pass == 1 {
					p.from = i + 1
				}
			}
		}
		if pass == 1 && p.exceeds(p.t.BudgetMessages, p.t.BudgetTokens) {
			p.from = len(p.all)
		}
	}
}

// model plays a table and returns what happens to each record, and whether there is a marker. MarkerCost is what the
// policy must set aside for its marker.
func model(t *mnemetest.Table, markerCost uint64, missing bool) (becomes []string, marker bool, ledger uint64) {
	p := play(t, markerCost)
	becomes = slices.Repeat([]string{keeps}, len(t.Records))
	for i := range t.Records {
		if t.Records[i].Role == mneme.System && !p.notices[i] {
			becomes[i] = drops
		}
	}
	if !missing && p.allFits() {
		return becomes, false, 0
	}
	for range p.all {
		p.arrive()
	}
	p.deepen(int64(newestTurn(t)))
	p.beside = p.marker
	p.force()
	for i, a := range p.all {
		if p.gone[i] {
			setAll(becomes, a, drops)
		} else if i == p.question && i != p.newestUser() && p.pasted(i) {
			setAll(becomes, a, truncates)
		}
	}
	p.leaveQuestions(becomes)
	lost, gone := false, false
	for _, a := range p.all {
		lost = lost || !a.system() && becomes[a.first] == drops
		gone = gone || !a.system() && (becomes[a.first] == drops || becomes[a.first] == compresses)
	}
	if !gone {
		p.ledger = 0
	}
	return becomes, p.marker > 0 && (lost || missing), p.ledger
}

func newestTurn(t *mnemetest.Table) uint32 {
	for _, r := range slices.Backward(t.Records) {
		if r.Role != mneme.System {
			return placeOf(r)
		}
	}
	return 0
}

func setAll(becomes []string, a atom, what string) {
	for i := a.first; i <= a.last; i++ {
		becomes[i] = what
	}
}

// allFits reports whether the whole table is within both bounds and the depth.
func (p *played) allFits() bool {
	messages, tokens := p.sum(func(i int) bool { return !p.all[i].system() || p.notices[p.all[i].first] })
	if !within(messages, p.t.BudgetMessages) || !within(tokens, p.t.BudgetTokens) {
		return false
	}
	deep := *p
	deep.gone, deep.arrived = make([]bool, len(p.all)), len(p.all)
	deep.deepen(int64(newestTurn(p.t)))
	return !slices.Contains(deep.gone, true)
}

// leaveQuestions keeps the questions of dropped turns, from the newest on, until there is no room for the next.
func (p *played) leaveQuestions(becomes []string) {
	_, tokens := p.window()
	room := p.questionsTokens
	if b := uint64(p.t.BudgetTokens); b > 0 {
		p.ledger = min(p.ledger, b-min(b, tokens))
		room = min(room, b-min(b, tokens+p.ledger))
	}
	for end := len(p.all) - 1; end >= 0; {
		first := end
		if p.gone[end] && !p.all[end].question() && !p.all[end].stays() {
			for first > 0 && p.gone[first-1] && !p.all[first-1].stays() && !p.all[first-1].question() &&
				p.turn(first-1) == p.turn(end) && first != p.from {
				first--
			}
		}
		cost := p.questionOf(first, end)
		if cost > room {
			return
		}
		if cost > 0 {
			room -= cost
			for i := first; i <= end; i++ {
				if p.all[i].question() {
					setAll(becomes, p.all[i], keeps)
				} else {
					setAll(becomes, p.all[i], compresses)
				}
			}
		}
		end = first - 1
	}
}

// questionOf returns the tokens of the question that can remain of the atoms from first to last; 0 if none can.
func (p *played) questionOf(first, last int) (tokens uint64) {
	if !p.gone[first] || p.all[first].stays() || p.turn(first) == p.inside || p.from < len(p.all) && p.turn(p.from) == p.turn(first) {
		return 0
	}
	asks := false
	for _, a := range p.all[first : last+1] {
		for _, r := range a.records {
			if a.question() {
				tokens += uint64(r.Tokens)
			} else {
				tokens += uint64(r.CompressedTokens)
			}
			asks = asks || r.Role == mneme.User || a.question()
		}
	}
	if !asks {
		return 0
	}
	if p.all[first].question() {
		return tokens
	}
	return min(tokens, 32+12)
}

// roomForNotices marks the system-class records for which there is room beside the mandatory records: the summary,
// memories and the others, in this order, up to the first that does not fit.
func roomForNotices(t *mnemetest.Table) []bool {
	kept, used, notices := make([]bool, len(t.Records)), uint64(0), []int(nil)
	for _, a := range atoms(t) {
		for i, r := range a.records {
			switch {
			case a.system():
				notices = append(notices, a.first+i)
			case a.must():
				used += uint64(r.Tokens)
			}
		}
	}
	worth := func(i int) int {
		return slices.Index([]mneme.Kind{mneme.Summary, mneme.Memory, mneme.Marker}, t.Records[i].Kind)
	}
	slices.SortStableFunc(notices, func(a, b int) int { return worth(a) - worth(b) })
	for _, i := range notices {
		if used += uint64(t.Records[i].Tokens); t.BudgetTokens > 0 && used > uint64(t.BudgetTokens) {
			break
		}
		kept[i] = true
	}
	return kept
}

// fits reports whether the kept records and some extra tokens are within the budget.
func fits(t *mnemetest.Table, kept []bool, extraTokens uint64) bool {
	messages, tokens := uint64(0), extraTokens
	for i, r := range t.Records {
		if kept[i] {
			tokens += uint64(r.Tokens)
			if r.Role != mneme.System && !r.Flags.Has(mneme.Compressed) {
				messages++
			}
		}
	}
	return (t.BudgetMessages == 0 || messages <= uint64(t.BudgetMessages)) &&
		(t.BudgetTokens == 0 || tokens <= uint64(t.BudgetTokens))
}
