package align

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Content is the part of a message's content by which versions of it are recognised.
type Content struct {
	Role Role
	Call string // the ids of its calls, or the id of the call that it answers
	Text string
}

// Role is the author of a message.
type Role byte

// A message is the user's, a reply of the model, a message of the model that calls tools, or the result of a tool.
const (
	User   Role = 'u'
	Reply  Role = 'a'
	Call   Role = 'c'
	Result Role = 't'
)

// Side is a list of messages: a stored line or a request.
type Side interface {
	Hashes() []Hash
	Role(i int) Role
	// Size returns the length of a message's text in characters, or 64 for a message that names calls. It is at most 200.
	Size(i int) int
	// Content returns the content of a message. It is called only for messages that differ.
	Content(i int) Content
}

// Line is a stored line: the messages of one agent, including those that the client has removed.
type Line interface {
	Side
	Turn(i int) uint32
	Living(i int) bool // false if the client has removed the message
	Edits(i int) int   // how often the message was changed
	Edge() Edge
	// Same reports whether a request of the same kind began the line.
	Same() bool
}

// Edge is the end of the part of a line that its client no longer sends. The client sends nothing of [From, To). Moves
// counts the requests in which To has moved forward.
type Edge struct {
	From  int `json:"from"`
	To    int `json:"to"`
	Moves int `json:"moves"`
}

// The weights of the rule. They are tuned on synthetic conversations.
const (
	enough    = 32  // characters that must agree for a request to belong to a line
	counted   = 200 // the most characters of one message that count
	callSize  = 64  // the number of characters that a call id counts for
	version   = .5  // share of words that makes a message a version of another
	retried   = .8  // share of words that makes a first question the same question
	manyAsked = 3   // this many questions missing at once show that the client trims its history
	habit     = 3   // this many moves of the edge show that the client trims its history
	ownEdits  = 2   // the number of changes that it takes
)

// OwnBefore is the index before which a message that keeps changing is the client's own text.
const OwnBefore = 8

// Run is a run of messages: [From, To).
type Run struct{ From, To int }

// Aligned says how a request relates to a stored line.
type Aligned struct {
	Case Case
	// Keep is how many messages of the line the request covers. The later ones are superseded. New is the first message of
	// the request after them.
	Keep, New int
	Pairs     []Pair
	Changes   []Pair // stored messages, and the messages of the request that are new versions of them
	Missing   []Run  // stored messages before Keep that the request leaves out
	Own       []int  // messages of the request before New that are the client's own text and not part of the line
	// Loss is the number of messages that would be superseded, changed or removed.
	Loss int
}

// Rank orders the lines that a request may belong to. Lower is better.
func (a *Aligned) Rank() float64 { return float64(a.Loss)/2 - float64(a.score()) }

func (a *Aligned) score() int { return max(1, len(a.Pairs)) }

// aligner compares a request with a line.
type aligner struct {
	line    Line
	request Side
	s, r    []Hash
	out     *Aligned
}

// region is a part of the line and a part of the request between two pairs.
type region struct{ a, b, c, d int }

// Compare determines how a request relates to a stored line. It returns nil if the request does not belong to it. Any
// request belongs to an empty line.
func Compare(line Line, request Side) *Aligned {
	m := &aligner{line: line, request: request, s: line.Hashes(), r: request.Hashes()}
	if len(m.s) == 0 {
		return &Aligned{Case: New}
	}
	m.out = &Aligned{Pairs: Align(m.s, m.r)}
	if len(m.out.Pairs) == 0 {
		if m.asksAgain() && m.line.Same() && m.livingTurns() == 1 {
			return m.anew()
		}
		return nil
	}
	last := m.out.Pairs[len(m.out.Pairs)-1]
	m.out.Keep, m.out.New = last.Stored+1, last.Request+1
	regions := m.regions()
	if whole := len(regions) == 0 && m.out.Keep == len(m.s); whole && m.modelSpoke() {
		m.out.Case = Extend
		return m.out
	}
	if again, ok := m.belongs(regions); again || !ok {
		if again {
			return m.anew()
		}
		return nil
	}
	for _, g := range regions {
		if !m.settle(g) {
			m.out.Keep, m.out.New = g.a, g.c
			break
		}
	}
	m.end()
	return m.out
}

// CompareFrom is Compare for a client whose own history begins at an index of the line, after messages that it has never
// sent.
func CompareFrom(line Line, request Side, begins int) *Aligned {
	s, r := line.Hashes(), request.Hashes()
	if begins <= 0 || begins >= len(s) || len(r) == 0 || r[0] == s[0] {
		return Compare(line, request)
	}
	a := Compare(&rest{line, begins}, request)
	if a == nil {
		return Compare(line, request)
	}
	for _, list := range [][]Pair{a.Pairs, a.Changes} {
		for i := range list {
			list[i].Stored += begins
		}
	}
	for i := range a.Missing {
		a.Missing[i].From += begins
		a.Missing[i].To += begins
	}
	a.Keep += begins
	a.Missing = append([]Run{{0, begins}}, a.Missing...)
	if a.Case == Extend {
		a.Case = Tail
	}
	return a
}

// rest is a line without its first messages.
type rest struct {
	Line
	from int
}

func (l *rest) Hashes() []Hash        { return l.Line.Hashes()[l.from:] }
func (l *rest) Role(i int) Role       { return l.Line.Role(l.from + i) }
func (l *rest) Size(i int) int        { return l.Line.Size(l.from + i) }
func (l *rest) Content(i int) Content { return l.Line.Content(l.from + i) }
func (l *rest) Turn(i int) uint32     { return l.Line.Turn(l.from + i) }
func (l *rest) Living(i int) bool     { return l.Line.Living(l.from + i) }
func (l *rest) Edits(i int) int       { return l.Line.Edits(l.from + i) }

func (l *rest) Edge() Edge {
	e := l.Line.Edge()
	return Edge{max(0, e.From-l.from), max(0, e.To-l.from), e.Moves}
}

// anew returns the result for a request that begins its line again.
func (m *aligner) anew() *Aligned { return &Aligned{Case: Diverge, Loss: 1} }

// regions returns the parts between pairs, and before the first one.
func (m *aligner) regions() (out []region) {
	i, j := 0, 0
	for _, p := range m.out.Pairs {
		if p.Stored > i || p.Request > j {
			out = append(out, region{i, p.Stored, j, p.Request})
		}
		i, j = p.Stored+1, p.Request+1
	}
	return out
}

func (m *aligner) modelSpoke() bool {
	return slices.ContainsFunc(m.out.Pairs, func(p Pair) bool { return m.line.Role(p.Stored) != User })
}

func (m *aligner) livingTurns() int { return m.turnsBefore(len(m.s)) }

// turnsBefore counts the turns before an index that are not removed, up to 2.
func (m *aligner) turnsBefore(at int) (n int) {
	last := uint32(0)
	for i := range at {
		if t := m.line.Turn(i); m.line.Living(i) && t != last {
			if n++; n > 1 {
				break
			}
			last = t
		}
	}
	return n
}

// asksAgain reports whether the request ends with the line's last question, or a version of it.
func (m *aligner) asksAgain() bool {
	end := len(m.r) - 1
	if end < 0 || m.request.Role(end) != User {
		return false
	}
	for i := len(m.s) - 1; i >= 0; i-- {
		if m.line.Role(i) == User {
			return m.alike(i, end, retried)
		}
	}
	return false
}

// alike reports whether two messages share at least the given share of their words.
func (m *aligner) alike(stored, request int, share float64) bool {
	if m.s[stored] == m.r[request] {
		return true
	}
	got, _ := similar(m.line.Content(stored).Text, m.request.Content(request).Text)
	return got >= share
}

// belongs reports whether a request belongs to a line, or begins it again. A request that shares only, say, a word of
// thanks does not belong to it.
func (m *aligner) belongs(regions []region) (again, ok bool) {
	agree := 0
	for _, p := range m.out.Pairs {
		if agree += m.line.Size(p.Stored); agree >= enough {
			break
		}
	}
	versions := 0
	for _, g := range regions {
		if agree >= enough || g.b-g.a != g.d-g.c {
			continue
		}
		for k := range g.b - g.a {
			if share, common := similar(m.line.Content(g.a+k).Text, m.request.Content(g.c+k).Text); share >= version {
				agree += common
			}
		}
	}
	if !m.modelSpoke() {
		return m.belongsByQuestions(regions, agree)
	}
	if agree >= enough || len(regions) == 0 && m.out.Keep == len(m.s) || 2*agree >= m.longer() {
		return false, true
	}
	for _, g := range regions {
		if g.b-g.a != g.d-g.c {
			continue
		}
		for k := range g.b - g.a {
			x, y := m.line.Content(g.a+k), m.request.Content(g.c+k)
			if share, _ := similar(x.Text, y.Text); x.Role == y.Role && (share >= version || strings.Contains(x.Text, y.Text)) {
				versions++
			}
		}
	}
	return false, 3*(len(m.out.Pairs)+versions) >= 2*len(m.s)
}

// belongsByQuestions decides for a request in which none of the model's messages match: a retry, or an edited first
// question.
func (m *aligner) belongsByQuestions(regions []region, agree int) (again, ok bool) {
	if m.livingTurns() != 1 || !m.line.Same() {
		return false, false
	}
	if len(regions) > 0 {
		return m.asksAgain(), false
	}
	e, f := m.out.Keep, m.out.New
	if f == len(m.r) {
		return false, true
	}
	if e == len(m.s) {
		return false, false
	}
	x, y := m.line.Content(e), m.request.Content(f)
	share, _ := similar(x.Text, y.Text)
	return false, x.Role == y.Role && (share >= retried || x.Role != User && agree >= enough)
}

// longer returns the text length of the longer side.
func (m *aligner) longer() int {
	length := func(side Side, n int) (all int) {
		for i := range n {
			all += utf8.RuneCountInString(side.Content(i).Text)
		}
		return all
	}
	return max(length(m.line, len(m.s)), length(m.request, len(m.r)))
}

// begins reports whether an index is the line's beginning, or the end of its first turn.
func (m *aligner) begins(at int) bool { return at == 0 || at <= 2 && m.turnsBefore(at) <= 1 }

// Begins reports whether an index of a line is its beginning, or the end of its first turn.
func Begins(line Line, at int) bool { return (&aligner{line: line}).begins(at) }

// settle finds which messages of a region are versions of stored ones, which are the client's own, and which stored
// ones are missing. It returns false if the model's messages differ: then the request rewrites the line from there.
func (m *aligner) settle(g region) bool {
	edge := m.line.Edge()
	cut := func(t int) bool { return edge.From <= t && t < edge.To }
	var alive, free []int
	for t := g.a; t < g.b; t++ {
		if m.line.Living(t) && !cut(t) {
			alive = append(alive, t)
		}
	}
	got := map[int]int{} // by stored message, its version in the request
	own, from := m.out.Own, g.a
	for q := g.c; q < g.d; q++ {
		t := m.versionOf(q, g, from, alive, cut)
		if t < 0 && m.request.Role(q) == Result { // Results of one message may stand in any order.
			t = m.answerTo(q, g, got)
		}
		switch {
		case t >= 0 && m.line.Edits(t) >= ownEdits && t < OwnBefore:
			own, from = append(own, q), max(from, t+1)
		case t >= 0:
			got[t], from = q, max(from, t+1)
		case m.request.Role(q) != User && g.a > 0:
			return false
		default:
			free = append(free, q)
		}
	}
	free = m.leftOver(g, got, alive, free)
	m.out.Own = append(own, free...)
	slices.Sort(m.out.Own)
	for t := g.a; t < g.b; t++ {
		if q, ok := got[t]; ok {
			m.out.Changes = append(m.out.Changes, Pair{t, q})
			continue
		}
		if n := len(m.out.Missing); n > 0 && m.out.Missing[n-1].To == t && t > g.a {
			m.out.Missing[n-1].To++
		} else {
			m.out.Missing = append(m.out.Missing, Run{t, t + 1})
		}
	}
	return true
}

// answerTo returns the stored result of a region that answers the same call as a result of the request, if it has no
// version yet; otherwise -1.
func (m *aligner) answerTo(q int, g region, got map[int]int) int {
	call := m.request.Content(q).Call
	for t := g.a; t < g.b; t++ {
		if _, taken := got[t]; !taken && m.line.Role(t) == Result && m.line.Content(t).Call == call {
			return t
		}
	}
	return -1
}

// versionOf returns the first stored message at or after from that a message of the request is a version of, or -1.
func (m *aligner) versionOf(q int, g region, from int, alive []int, cut func(int) bool) int {
	is := m.request.Content(q)
	first := -1
	fits := func(t int) bool {
		x := m.line.Content(t)
		return x.Role == is.Role && x.Call == is.Call && !cut(t)
	}
	for t := from; t < g.b; t++ {
		if !fits(t) {
			continue
		}
		if first < 0 {
			first = t
		}
		if share, _ := similar(m.line.Content(t).Text, is.Text); share >= version {
			return t
		}
	}
	if n := q - g.c; len(alive) == g.d-g.c && alive[n] >= from && fits(alive[n]) {
		return alive[n]
	}
	if is.Role != User && g.a > 0 {
		return first
	}
	return -1
}

// leftOver pairs what remains of a region on both sides from its end backwards, if little remains. It returns what
// still remains of the request.
func (m *aligner) leftOver(g region, got map[int]int, alive, free []int) []int {
	over := slices.DeleteFunc(slices.Clone(alive), func(t int) bool { _, ok := got[t]; return ok })
	if len(over) > 2 || len(over) != len(free) && m.begins(g.a) && g.a > 0 {
		return free
	}
	for len(over) > 0 && len(free) > 0 {
		t, q := over[len(over)-1], free[len(free)-1]
		x, y := m.line.Content(t), m.request.Content(q)
		if x.Role != y.Role || x.Call != y.Call || m.line.Edits(t) >= ownEdits {
			break
		}
		crosses := false
		for i, v := range got {
			crosses = crosses || (t < i) != (v > q)
		}
		if crosses {
			break
		}
		got[t] = q
		over, free = over[:len(over)-1], free[:len(free)-1]
	}
	return free
}

// end sets the case, depending on what remains after the last pair and what was found before it.
func (m *aligner) end() {
	o := m.out
	rest, behind := 0, len(m.s)-o.Keep
	for i := o.Keep; i < len(m.s); i++ {
		if m.line.Living(i) {
			rest++
		}
	}
	if behind > 0 && m.editsEnd(behind) {
		for k := range behind {
			o.Changes = append(o.Changes, Pair{o.Keep + k, o.New + k})
		}
		o.Keep, o.New, rest = len(m.s), o.New+behind, 0
	}
	switch {
	case rest > 0 && o.New == len(m.r):
		o.Case = Rewind
	case rest > 0:
		o.Case = Diverge
	case len(o.Changes) > 0:
		o.Case = Edit
	case slices.ContainsFunc(o.Missing, func(r Run) bool { return r.From > 0 }):
		o.Case = Gap
	case len(o.Own) > 0:
		o.Case = Front
	case len(o.Missing) > 0:
		o.Case = Tail
	default:
		o.Case = Extend
	}
	o.Loss = rest + len(o.Changes)
	for _, r := range o.Missing {
		o.Loss += r.To - r.From
	}
}

// editsEnd reports whether the line's last messages were edited and the request continues after them.
func (m *aligner) editsEnd(behind int) bool {
	o := m.out
	if behind > 2 || behind >= len(m.r)-o.New {
		return false
	}
	for k := range behind {
		x, y := m.line.Content(o.Keep+k), m.request.Content(o.New+k)
		if x.Role != y.Role || x.Call != y.Call {
			return false
		}
	}
	return m.line.Role(o.Keep) != User || behind == 2 && m.alike(o.Keep, o.New, version)
}

// Trims reports whether messages that are missing in [from, to) show that the client trims its history, rather than
// that someone deleted them.
func Trims(line Line, run Run) bool {
	edge := line.Edge()
	if run.To <= edge.To || !Begins(line, run.From) {
		return false
	}
	asked, follows := 0, false
	for i := max(run.From, edge.To); i < run.To; i++ {
		is := line.Role(i) == User && line.Living(i)
		if is && !follows { // Messages of the user's in a row, such as a question and its context, are one question.
			asked++
		}
		follows = is
	}
	return asked >= manyAsked || edge.Moves+1 >= habit
}

// Habit reports whether this many moves of an edge show that the client trims its history.
func Habit(moves int) bool { return moves >= habit }
