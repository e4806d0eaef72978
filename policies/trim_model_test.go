package policies_test

import (
	"cmp"
	"slices"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// trimmed is what tool-pair-trim must answer.
type trimmed struct {
	kept   []bool // by record
	marker bool
}

// played is the rule of a cut read aloud: the table's atoms come one by one, and every sum is made anew.
type played struct {
	t        *mnemetest.Table
	all      []atom
	gone     []bool // by atom
	arrived  int    // atoms that have come
	from     int    // the cut, as an atom
	question int    // kept of the turn that is cut inside; -1: none
	share    float64
	// tokenShare is the share of the tokens where it is another one than that of the messages.
	tokenShare float64
	beside     uint64
	notices    []bool // by record: it has room
	room       float64
	roomed     bool
	bounded    bool
	// tokensShort says that the window exceeded its tokens, and not its messages, when the cut last moved.
	tokensShort bool
}

func (p *played) takes(count func(i int) bool) (messages, tokens uint64) {
	for i, a := range p.all[:p.arrived] {
		if !count(i) {
			continue
		}
		for k, r := range a.records {
			if a.system() && !p.notices[a.first+k] {
				continue
			}
			tokens += uint64(r.Tokens)
			if !a.system() && !a.question() {
				messages++
			}
		}
	}
	return messages, tokens
}

func (p *played) window() (messages, tokens uint64) {
	messages, tokens = p.takes(func(i int) bool { return !p.gone[i] })
	return messages, tokens + p.beside
}

func (p *played) exceeded() bool {
	messages, tokens := p.window()
	b := p.t
	return p.bounded && (b.BudgetMessages > 0 && messages > uint64(b.BudgetMessages) || b.BudgetTokens > 0 &&
		tokens > uint64(b.BudgetTokens))
}

// low is what a cut leaves of a bound.
func (p *played) low(bound uint32, share float64, staying uint64) uint64 {
	low := max(uint64(float64(bound)*share), 1)
	if staying < uint64(bound) {
		low = max(low, staying+(uint64(bound)-staying)/2)
	}
	return low
}

func (p *played) enough(messagesToo bool) bool {
	newest, user := -1, -1
	for i, a := range p.all[:p.arrived] {
		if !a.system() && !a.pinned() {
			newest = i
			if a.asks() && !a.question() {
				user = i
			}
		}
	}
	staysM, staysT := p.takes(func(i int) bool {
		a := p.all[i]
		return a.system() && !p.gone[i] || a.pinned() || i == newest || i == user || i == p.question
	})
	messages, tokens := p.window()
	if p.t.BudgetTokens > 0 && tokens > p.low(p.t.BudgetTokens, cmp.Or(p.tokenShare, p.share), staysT+p.beside) {
		return false
	}
	return !messagesToo || p.t.BudgetMessages == 0 || messages <= p.low(p.t.BudgetMessages, p.share, staysM)
}

func (p *played) questions() (tokens uint64) {
	_, tokens = p.takes(func(i int) bool { return p.all[i].question() && !p.all[i].stays() && !p.gone[i] })
	return tokens
}

// forget drops earlier questions but the newest atom's, oldest first.
func (p *played) forget(until func() bool) {
	for i := range p.arrived - 1 {
		if a := p.all[i]; a.question() && !a.stays() && !p.gone[i] && p.questions() > 0 && !until() {
			p.gone[i] = true
		}
	}
}

func (p *played) arrive() {
	newest := p.arrived
	p.arrived++
	if p.gone[newest] {
		return // a notice that is not counted here
	}
	if p.roomed && float64(p.questions()) > p.room && p.all[newest].question() && !p.all[newest].stays() {
		p.forget(func() bool { return p.questions() <= uint64(p.room)/2 })
	}
	if !p.exceeded() {
		return
	}
	messages, _ := p.window()
	p.tokensShort = p.t.BudgetMessages == 0 || messages <= uint64(p.t.BudgetMessages)
	if _, tokens := p.window(); p.t.BudgetTokens > 0 && tokens > uint64(p.t.BudgetTokens) {
		p.forget(func() bool { return p.enough(false) })
	}
	if p.exceeded() {
		p.move(newest)
	}
}

func (p *played) turn(i int) uint32 { return p.all[i].records[0].Turn }

// move moves the cut on over whole turns, and inside a turn that is long or the newest.
func (p *played) move(newest int) {
	last := uint32(0)
	for i := range p.arrived {
		if !p.all[i].system() {
			last = p.turn(i)
		}
	}
	inside, of := false, int64(-1)
	for ; p.from < newest; p.from++ {
		a := p.all[p.from]
		if a.system() || a.question() {
			continue
		}
		turn := p.turn(p.from)
		if of != int64(turn) {
			if p.question >= 0 && p.turn(p.question) != turn {
				p.gone[p.question], p.question = true, -1
			}
			if p.enough(true) || turn == last && !p.exceeded() {
				return
			}
			messages, tokens := p.takes(func(i int) bool {
				return i >= p.from && p.turn(i) == turn && !p.all[i].stays() && !p.all[i].question()
			})
			half := func(bound uint32) uint64 { return max(uint64(bound)/2, 1) }
			inside = turn == last || p.t.BudgetMessages > 0 && messages > half(p.t.BudgetMessages) ||
				p.t.BudgetTokens > 0 && tokens > half(p.t.BudgetTokens)
			of = int64(turn)
		} else if inside && p.enough(true) {
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

// model plays a table and says what is left of it. MarkerCost is what the policy must set aside for its marker.
func model(t *mnemetest.Table, markerCost uint64, missing bool) trimmed {
	marker, ok := t.Config["marker"].(bool)
	marker = marker || !ok
	p := &played{t: t, all: atoms(t), question: -1, share: 0.7, notices: roomForNotices(t), bounded: true}
	if share, ok := t.Config["low_water"].(float64); ok {
		p.share = share
	}
	p.gone = make([]bool, len(p.all))
	p.arrived = len(p.all)
	whole := !p.exceeded()
	_, questions := p.takes(func(i int) bool { return p.all[i].question() && !p.all[i].stays() })
	_, system := p.takes(func(i int) bool { return p.all[i].system() })
	_, full := p.takes(func(i int) bool { return !p.all[i].system() && (!p.all[i].question() || p.all[i].stays()) })
	if marker = marker && (missing || !whole || questions > 0); marker {
		messages, must := p.takes(func(i int) bool { return p.all[i].system() || p.all[i].must() })
		marker = (t.BudgetTokens == 0 || must+markerCost <= uint64(t.BudgetTokens)) &&
			(t.BudgetMessages == 0 || messages <= uint64(t.BudgetMessages))
		if marker {
			p.beside = markerCost
		}
	}
	if p.roomed = p.share < 1 && t.BudgetTokens > 0; p.roomed {
		of := max(uint64(float64(t.BudgetTokens)*0.175), 1)
		if full > of {
			of = max(uint64(float64(t.BudgetTokens)*0.7), 1)
		}
		p.room = max(float64(t.BudgetTokens)-float64(of+system+p.beside), 0)
	}
	p.bounded = !whole || missing
	if slices.ContainsFunc(p.all, func(a atom) bool { return a.system() && !p.notices[a.first] }) { // not all notices have room: those that do count from the start
		p.beside += system
		for i, a := range p.all {
			if a.system() {
				p.gone[i] = true
			}
		}
	}
	p.arrived = 0
	for range p.all {
		p.arrive()
	}
	p.force()
	out := trimmed{kept: make([]bool, len(t.Records))}
	left := false
	for i, a := range p.all {
		for r := a.first; r <= a.last; r++ {
			out.kept[r] = !p.gone[i]
			if a.system() {
				out.kept[r] = p.notices[r]
			}
		}
		left = left || p.gone[i] && !a.system()
	}
	out.marker = marker && (left || missing)
	return out
}

// force drops what else there is where the budget does not hold what is left.
func (p *played) force() {
	for _, goes := range []func(i int) bool{
		func(i int) bool { return p.all[i].question() && !p.all[i].stays() },
		func(i int) bool { return i >= p.from && !p.all[i].stays() },
		func(i int) bool { return i == p.question },
		func(i int) bool { return p.all[i].pinned() && !p.all[i].must() && !p.all[i].system() },
	} {
		for i := range p.all {
			if p.exceeded() && goes(i) {
				p.gone[i] = true
			}
		}
	}
}

// roomForNotices marks the system-class records that have room beside what must stay: summary, memories and the rest,
// in this order, up to the first that has none.
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

// fits tells whether the kept records and something more are within the budget.
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
