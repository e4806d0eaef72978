// Package branches drives a memory server with sessions that are rewound, continued and forked, and compares it with a
// model of what must be left of them.
package branches

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
)

// Server is the server under test. Each method fails the test if the server refuses something that it must accept.
type Server interface {
	// Post adds messages; a negative rewindTo means no rewind. ok is false if the server refuses the messages because a
	// result answers no open call.
	Post(session string, messages []json.RawMessage, continues bool, rewindTo int) (turn int, ok bool)
	Rewind(session string, to int)
	Fork(session string, at int, as string)
	Delete(session string)
	// Marks returns the marks in the living messages of a session, and in all stored ones, by number.
	Marks(session string) (living, stored []int)
	// Counts returns the numbers of living turns and messages of a session, and its last turn.
	Counts(session string) (turns, messages, last int)
	// Window returns the marks in a window of everything up to a turn, or of the whole session if the turn is negative.
	// It keeps the decision for a later replay.
	Window(session string, asOf int) []int
	// Ask makes a window with the default pipeline and a small budget, and a summary if one is due.
	Ask(session string)
	// Summarise makes a new summary of the session. Summary returns the marks in it.
	Summarise(session string)
	Summary(session string) []int
	// Recall returns the marks of the messages that are found by a word.
	Recall(word string) []int
	// Copy exports a session and imports it under another name.
	Copy(session, as string)
}

var mark = regexp.MustCompile(`#(\d+)`)

// Marks returns the marks in a text, in order.
func Marks(text string) (out []int) {
	for _, m := range mark.FindAllStringSubmatch(text, -1) {
		n := 0
		_, _ = fmt.Sscan(m[1], &n)
		out = append(out, n)
	}
	return out
}

// Word returns a word that only the message with the given mark contains.
func Word(mark int) string { return fmt.Sprintf("zebra%dx", mark) }

type message struct {
	turn         int
	mark         int
	call         string // the id of the call that it makes
	result       string // the id of the call that it answers
	dead, absent bool
}

type session struct {
	turns    int // assigned numbers
	messages []*message
}

func (s *session) living(upto int) (out []*message) {
	for _, m := range s.messages {
		if !m.dead && (upto < 0 || m.turn <= upto) {
			out = append(out, m)
		}
	}
	return out
}

// open reports whether the call with an id waits for its result.
func (s *session) open(id string) bool {
	n := 0
	for _, m := range s.living(-1) {
		switch id {
		case m.call:
			n++
		case m.result:
			n--
		}
	}
	return n > 0
}

func (s *session) last() int {
	living := s.living(-1)
	if len(living) == 0 {
		return 0
	}
	return living[len(living)-1].turn
}

func (s *session) rewind(to int) {
	for _, m := range s.messages {
		m.dead = m.dead || m.turn > to
	}
}

// Drive makes random requests to a server and reports where the server differs from the model.
type Drive struct {
	server   Server
	r        *rand.Rand
	sessions map[string]*session
	marks    int
	made     int
	Log      []string // the requests so far
}

// New returns a Drive without sessions.
func New(server Server, seed uint64) *Drive {
	return &Drive{server: server, r: rand.New(rand.NewPCG(seed, 7)), sessions: map[string]*session{}}
}

func (d *Drive) names() []string {
	var out []string
	for name := range d.sessions {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (d *Drive) say(format string, args ...any) { d.Log = append(d.Log, fmt.Sprintf(format, args...)) }

// Step makes one request and checks the session that it changed.
func (d *Drive) Step() error {
	names := d.names()
	if len(names) == 0 || len(names) < 4 && d.r.IntN(8) == 0 {
		d.made++
		name := fmt.Sprintf("s%d", d.made)
		d.sessions[name] = new(session)
		return d.post(name)
	}
	name := names[d.r.IntN(len(names))]
	s := d.sessions[name]
	switch n := d.r.IntN(24); {
	case n < 9:
		return d.post(name)
	case n < 12:
		to := d.r.IntN(s.turns + 1)
		if d.r.IntN(3) > 0 {
			to = max(0, s.last()-1)
		}
		d.say("rewind %s to %d", name, to)
		d.server.Rewind(name, to)
		before := s.living(-1)
		s.rewind(to)
		if len(before) > 0 {
			if err := d.recall(before[len(before)-1].mark); err != nil { // it must no longer be found, immediately
				return err
			}
		}
	case n < 13 && len(names) < 6:
		d.fork(name, s)
	case n < 14 && len(names) < 6:
		d.copy(name, s)
	case n < 16:
		d.say("ask %s", name)
		d.server.Ask(name)
	case n < 17:
		d.say("summarise %s", name)
		d.server.Summarise(name)
	case n < 19:
		at := d.r.IntN(s.turns + 1)
		d.say("window of %s as of %d", name, at)
		if got, want := d.server.Window(name, at), marks(s.living(at)); !slices.Equal(got, want) {
			return fmt.Errorf("%s as of turn %d shows %v, want %v", name, at, got, want)
		}
	case n < 20 && len(names) > 2:
		d.say("delete %s", name)
		d.server.Delete(name)
		delete(d.sessions, name)
		return nil
	case n < 22:
		return d.recall(d.r.IntN(d.marks + 1))
	}
	return d.check(name)
}

func (d *Drive) fork(name string, s *session) {
	d.made++
	as, at := fmt.Sprintf("s%d", d.made), d.r.IntN(s.turns+1)
	if d.r.IntN(2) == 0 {
		at = s.last()
	}
	d.say("fork %s at %d as %s", name, at, as)
	d.server.Fork(name, at, as)
	f, last := new(session), 0
	for i, m := range s.messages {
		if !m.dead && m.turn <= at {
			last = i + 1
		}
	}
	if at == s.turns {
		last = len(s.messages)
	}
	for _, m := range s.messages[:last] {
		c := *m
		c.absent = c.absent || c.dead
		f.messages, f.turns = append(f.messages, &c), max(f.turns, c.turn)
	}
	if at == s.turns {
		f.turns = s.turns
	}
	d.sessions[as] = f
}

func (d *Drive) copy(name string, s *session) {
	d.made++
	as := fmt.Sprintf("s%d", d.made)
	d.say("copy %s as %s", name, as)
	d.server.Copy(name, as)
	f := &session{turns: s.turns}
	for _, m := range s.messages {
		c := *m
		f.messages = append(f.messages, &c)
	}
	d.sessions[as] = f
}

// post adds a turn, or a part of one, sometimes after a rewind.
func (d *Drive) post(name string) error {
	s := d.sessions[name]
	rewindTo, continues := -1, d.r.IntN(4) == 0
	after := &session{turns: s.turns}
	for _, m := range s.messages {
		c := *m
		after.messages = append(after.messages, &c)
	}
	if d.r.IntN(6) == 0 {
		rewindTo = max(0, s.last()-1)
		after.rewind(rewindTo)
	}
	turn := after.turns + 1
	if last := after.last(); continues && last > 0 {
		turn = last
	}
	var out []json.RawMessage
	lawful := true
	add := func(m *message, body string, args ...any) {
		m.turn, m.mark = turn, d.marks
		args = append([]any{d.marks, Word(d.marks)}, args...)
		out = append(out, json.RawMessage(fmt.Sprintf(body, args...)))
		d.marks++
		after.messages = append(after.messages, m)
	}
	for range 1 + d.r.IntN(3) {
		id := fmt.Sprintf("c%d", d.r.IntN(3))
		switch d.r.IntN(6) {
		case 0, 1:
			add(&message{}, `{"role":"user","content":"question #%d %s"}`)
		case 2:
			add(&message{}, `{"role":"assistant","content":"answer #%d %s"}`)
		case 3, 4:
			add(&message{call: id}, `{"role":"assistant","content":"look #%d %s","tool_calls":[{"id":%q,"type":"function",`+
				`"function":{"name":"look","arguments":"{}"}}]}`, id)
		case 5:
			lawful = lawful && after.open(id)
			add(&message{result: id}, `{"role":"tool","content":"found #%d %s","tool_call_id":%q}`, id)
		}
	}
	d.say("post to %s, continues %t, rewind to %d: %s", name, continues, rewindTo, out)
	got, ok := d.server.Post(name, out, continues, rewindTo)
	if ok != lawful {
		return fmt.Errorf("%s took a turn: %t, want %t", name, ok, lawful)
	}
	if !ok {
		if len(s.messages) == 0 && s.turns == 0 {
			delete(d.sessions, name)
			return nil
		}
		return d.check(name)
	}
	if got != turn {
		return fmt.Errorf("%s got turn %d, want %d", name, got, turn)
	}
	after.turns = max(after.turns, turn)
	d.sessions[name] = after
	return d.check(name)
}

// recall searches for a message by its word. It must be found in each session in which it is living, and nowhere else.
func (d *Drive) recall(n int) error {
	d.say("recall #%d", n)
	lives := map[int]int{} // the number of sessions
	for _, s := range d.sessions {
		for _, m := range s.living(-1) {
			lives[m.mark]++
		}
	}
	found := map[int]int{}
	for _, m := range d.server.Recall(Word(n)) { // its neighbours may be found too
		if found[m]++; found[m] > lives[m] {
			return fmt.Errorf("asked for #%d, recall gives #%d, which lives %d times", n, m, lives[m])
		}
	}
	if found[n] != lives[n] {
		return fmt.Errorf("#%d is found %d times and lives %d times", n, found[n], lives[n])
	}
	return nil
}

// Check compares all sessions with the model.
func (d *Drive) Check() error {
	for _, name := range d.names() {
		if err := d.check(name); err != nil {
			return err
		}
	}
	for range 20 {
		if err := d.recall(d.r.IntN(d.marks + 1)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Drive) check(name string) error {
	s := d.sessions[name]
	living := s.living(-1)
	var stored []int
	for _, m := range s.messages {
		if !m.absent {
			stored = append(stored, m.mark)
		}
	}
	turns := map[int]bool{}
	for _, m := range living {
		turns[m.turn] = true
	}
	if gotLiving, gotStored := d.server.Marks(name); !slices.Equal(gotLiving, marks(living)) || !slices.Equal(gotStored, stored) {
		return fmt.Errorf("%s lists %v, and %v in all, want %v and %v", name, gotLiving, gotStored, marks(living), stored)
	}
	if t, m, last := d.server.Counts(name); t != len(turns) || m != len(living) || last != s.last() {
		return fmt.Errorf("%s counts %d turns and %d messages up to turn %d, want %d and %d up to %d", name, t, m, last,
			len(turns), len(living), s.last())
	}
	if got := d.server.Window(name, -1); !slices.Equal(got, marks(living)) {
		return fmt.Errorf("%s shows %v, want %v", name, got, marks(living))
	}
	for _, n := range d.server.Summary(name) {
		if !slices.ContainsFunc(living, func(m *message) bool { return m.mark == n }) {
			return fmt.Errorf("the summary of %s tells of #%d, which is superseded", name, n)
		}
	}
	return nil
}

func marks(of []*message) []int {
	var out []int
	for _, m := range of {
		out = append(out, m.mark)
	}
	slices.Sort(out)
	return out
}
