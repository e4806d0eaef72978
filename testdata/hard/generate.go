package hard

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Knobs shape a transcript.
type Knobs struct {
	Seed        uint64
	Format      Format
	Messages    int  // the approximate number of stored messages; at least one turn is made
	Longest     int  // the approximate length of the longest text, in bytes; 0 means 4,000
	Delegations bool // messages of delegations and between agents
}

// generator writes one transcript step by step.
type generator struct {
	r     *rand.Rand
	knobs Knobs
	out   *Transcript
	turn  *Turn
	open  []openCall // in order of calling
	ids   []string   // ids used before, to be used again
	calls int
}

type openCall struct {
	call  Call
	asked *Message
}

// Generate returns the transcript that the knobs describe.
func Generate(k Knobs) *Transcript {
	if k.Longest == 0 {
		k.Longest = 4000
	}
	if k.Format == "" {
		k.Format = Chat
	}
	g := &generator{r: rand.New(rand.NewPCG(k.Seed, 0x6d6e656d65)), knobs: k, out: &Transcript{Format: k.Format}}
	for len(g.out.Turns) == 0 || len(g.out.Messages) < k.Messages {
		g.writeTurn()
	}
	return g.out
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *generator) writeTurn() {
	g.out.Turns = append(g.out.Turns, Turn{Number: len(g.out.Turns) + 1, Format: g.knobs.Format})
	g.turn = &g.out.Turns[len(g.out.Turns)-1]
	if g.chance(30) {
		g.turn.Agent = []string{"main", "planner", "Agent.7"}[g.r.IntN(3)]
	}
	if g.knobs.Delegations && g.chance(10) {
		g.turn.Delegation = g.delegation("")
	}
	home := g.turn.Delegation
	if g.chance(90) {
		g.say("user", home)
	}
	moves := 1 + g.r.IntN(6)
	if g.chance(3) {
		moves += g.r.IntN(60)
	}
	for range moves {
		g.move(home, 0)
	}
	if len(g.turn.Messages) == 0 {
		g.say("assistant", home)
	}
	encode(g.r, g.turn)
}

func (g *generator) move(delegation string, depth int) {
	switch n := g.r.IntN(100); {
	case n < 12:
		g.say("user", delegation)
	case n < 40:
		g.say("assistant", delegation)
	case n < 75:
		g.call(delegation)
	case n < 88:
		g.answerLate()
	case g.knobs.Delegations && depth < 3:
		g.delegate(delegation, depth)
	default:
		g.say("assistant", delegation)
	}
}

// say adds a message without calls.
func (g *generator) say(role, delegation string) *Message {
	m := g.add(&Message{Role: role, Delegation: delegation, Parts: g.parts(role)})
	if role == "assistant" && g.chance(15) {
		m.Own.Reasoning = prose(g.r, 12)
	}
	return m
}

// call adds an assistant message with calls and answers all, some or none of them, in any order.
func (g *generator) call(delegation string) {
	m := &Message{Role: "assistant", Delegation: delegation}
	if g.chance(30) {
		m.Parts = g.parts("assistant")
	}
	for range 1 + min(g.r.IntN(4), g.r.IntN(6)) {
		if c := (Call{g.callID(), g.tool(), arguments(g.r)}); !slices.ContainsFunc(m.Calls, sameID(c.ID)) {
			m.Calls = append(m.Calls, c)
		}
	}
	g.add(m)
	mine := slices.Clone(m.Calls)
	for _, c := range mine {
		g.open = append(g.open, openCall{c, m})
	}
	g.r.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
	if g.chance(15) {
		mine = mine[:g.r.IntN(len(mine)+1)]
	}
	for _, c := range mine {
		if g.chance(5) {
			g.say("user", delegation) // someone interrupts
		}
		g.answer(g.newestOpen(c.ID))
	}
}

// answerLate answers a call left open earlier, if there is one.
func (g *generator) answerLate() {
	if len(g.open) == 0 {
		return
	}
	id := g.open[g.r.IntN(len(g.open))].call.ID
	i := g.newestOpen(id)
	if g.turn.Delegation != "" && g.open[i].asked.Delegation != g.turn.Delegation {
		return // in a turn with a delegation, a message cannot belong to none
	}
	g.answer(i)
}

func (g *generator) answer(i int) {
	o := g.open[i]
	g.open = slices.Delete(g.open, i, i+1)
	g.add(&Message{
		Role: "tool", Delegation: o.asked.Delegation, Atom: o.asked.Seq, CallID: o.call.ID, Parts: g.parts("tool"),
	})
}

func (g *generator) newestOpen(id string) int {
	for i := len(g.open) - 1; ; i-- {
		if g.open[i].call.ID == id {
			return i
		}
	}
}

// delegate gives a task to another agent, lets it work, and takes its answer.
func (g *generator) delegate(delegation string, depth int) {
	inner := g.delegation(delegation)
	if g.turn.Delegation != "" {
		inner = g.turn.Delegation
	}
	g.between("main", "researcher", "user", inner)
	for range 1 + g.r.IntN(4) {
		g.move(inner, depth+1)
	}
	g.between("researcher", "main", "assistant", delegation)
}

func (g *generator) between(from, to, role, delegation string) {
	m := &Message{Role: role, Delegation: delegation, From: from, To: to, Parts: []Part{{Text: prose(g.r, 8)}}}
	g.add(m)
}

func (g *generator) delegation(outer string) string {
	name := fmt.Sprintf("del_%d", 1+g.r.IntN(3))
	if outer != "" && len(outer) < 20 {
		return outer + "." + name
	}
	return name
}

func (g *generator) add(m *Message) *Message {
	if g.knobs.Format == Responses {
		g.separate(m)
	}
	m.Seq, m.Turn = len(g.out.Messages)+1, g.turn.Number
	if m.Atom == 0 {
		m.Atom = m.Seq
	}
	m.Agent = g.turn.Agent
	if g.chance(20) {
		m.Agent = []string{"researcher", "writer", "a:b@c.d-e_f"}[g.r.IntN(3)]
	}
	g.own(m)
	g.out.Messages = append(g.out.Messages, m)
	g.turn.Messages = append(g.turn.Messages, m)
	return m
}

// separate keeps two assistant messages apart, because as lists of items they would be read as one.
func (g *generator) separate(m *Message) {
	if n := len(g.turn.Messages); n > 0 && m.Role == "assistant" && g.turn.Messages[n-1].Role == "assistant" {
		g.add(&Message{Role: "user", Delegation: m.Delegation, Parts: []Part{{Text: "go on"}}})
	}
}

func (g *generator) own(m *Message) {
	if g.chance(10) {
		m.Own.Tags = []string{"t1", "läbel", "with space"}[:1+g.r.IntN(3)]
	}
	if g.chance(10) {
		m.Own.Metadata = []byte(`{"k":[1,2.50,{"role":"system"}],"content":null}`)
	}
	if g.chance(10) {
		m.Own.CreatedAt = []string{"2024-02-29T12:00:00Z", "2031-01-01T00:00:00.123+14:00", "2019-06-01T10:20:30"}[g.r.IntN(3)]
	}
}

func (g *generator) parts(role string) []Part {
	if g.chance(3) {
		return nil
	}
	if !g.chance(20) {
		return []Part{{Text: text(g.r, g.knobs.Longest)}}
	}
	var out []Part
	for range 1 + g.r.IntN(3) {
		if role == "user" && g.chance(40) {
			out = append(out, Part{Image: fmt.Sprintf("https://example.com/%d.png", g.r.IntN(1000))})
		} else {
			out = append(out, Part{Text: text(g.r, g.knobs.Longest)})
		}
	}
	return out
}

func (g *generator) callID() string {
	if len(g.ids) > 0 && g.chance(15) {
		return g.ids[g.r.IntN(len(g.ids))]
	}
	g.calls++
	id := fmt.Sprintf("call_%d", g.calls)
	g.ids = append(g.ids, id)
	return id
}

func (g *generator) tool() string {
	return []string{"search", "get_user_details", "book_flight", "think", "transfer-to-human"}[g.r.IntN(5)]
}

func sameID(id string) func(Call) bool { return func(c Call) bool { return c.ID == id } }
