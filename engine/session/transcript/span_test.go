package transcript

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// model lists a session's messages one by one: the turn of each, and whether it is superseded.
type model struct {
	turn  []uint32
	dead  []bool
	turns uint32 // numbers assigned
	runs  Runs
}

func (m *model) living() (turns []uint32, messages []uint64) {
	for i, dead := range m.dead {
		if dead {
			continue
		}
		messages = append(messages, uint64(i)+1)
		if len(turns) == 0 || turns[len(turns)-1] != m.turn[i] {
			turns = append(turns, m.turn[i])
		}
	}
	return turns, messages
}

func (m *model) say(turn uint32, n int) {
	for range n {
		m.turn, m.dead = append(m.turn, turn), append(m.dead, false)
	}
}

// rewind supersedes the living turns after a given one.
func (m *model) rewind(to uint32) {
	first := -1
	for i := range m.turn {
		if !m.dead[i] && m.turn[i] > to {
			if first < 0 {
				first = i
			}
			m.dead[i] = true
		}
	}
	if first >= 0 {
		m.runs = m.runs.Add(Run{Turns: [2]uint32{m.turn[first], m.turns},
			Messages: [2]uint64{uint64(first) + 1, uint64(len(m.turn))}})
	}
}

// remove supersedes the messages of a part of a turn from one index to another, if they are living.
func (m *model) remove(from, to int) {
	first, last, all := from, to, true
	for ; first > 0 && m.turn[first-1] == m.turn[from]; first-- {
	}
	for ; last+1 < len(m.turn) && m.turn[last+1] == m.turn[from]; last++ {
	}
	for i, turn := range m.turn {
		if from <= i && i <= to && (m.dead[i] || turn != m.turn[from]) {
			return
		}
		all = all && (turn != m.turn[from] || m.dead[i] || from <= i && i <= to) &&
			(turn != m.turn[from] || first <= i && i <= last)
	}
	for i := from; i <= to; i++ {
		m.dead[i] = true
	}
	r := Part(m.turn[from], uint64(from)+1, uint64(to)+1)
	if all {
		r = Run{Turns: [2]uint32{m.turn[from], m.turn[from]}, Messages: [2]uint64{uint64(first) + 1, uint64(last) + 1}}
	}
	m.runs = m.runs.Insert(r)
}

// restore makes some messages of a living turn that were removed living again.
func (m *model) restore(from, to int) {
	for i := from; i <= to; i++ {
		if !m.runs.Part(uint64(i)+1) || m.turn[i] != m.turn[from] {
			return
		}
	}
	for i := from; i <= to; i++ {
		m.dead[i] = false
	}
	m.runs = m.runs.Without(Part(m.turn[from], uint64(from)+1, uint64(to)+1))
}

// TestRuns compares Runs with a list of all messages after random turns, continuations and rewinds, and after messages
// were removed and restored.
func TestRuns(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := new(model)
		for range 40 {
			turns, _ := m.living()
			switch n := r.IntN(16); {
			case n < 5:
				m.turns++
				m.say(m.turns, 1+r.IntN(4))
			case n < 7 && len(turns) > 0:
				m.say(turns[len(turns)-1], 1+r.IntN(3))
			case n < 10 && m.turns > 0:
				m.rewind(r.Uint32N(m.turns + 1))
			case m.turns > 0:
				from := r.IntN(len(m.turn))
				m.remove(from, min(from+r.IntN(3), len(m.turn)-1))
				from = r.IntN(len(m.turn))
				m.restore(from, min(from+r.IntN(2), len(m.turn)-1))
			}
			if err := m.check(); err != nil {
				t.Fatalf("seed %d: %v\nturns %v\ndead %v\nruns %v", seed, err, m.turn, m.dead, m.runs)
			}
		}
	}
}

func (m *model) check() error {
	turns, messages := m.living()
	last := uint64(len(m.turn))
	if !m.runs.Sound(m.turns, last) {
		return fmt.Errorf("they are not sound")
	}
	if got := uint64(len(messages)); last-m.runs.Messages(last) != got || m.turns-m.runs.Turns(m.turns) != uint32(len(turns)) {
		return fmt.Errorf("they count %d and %d", m.runs.Turns(m.turns), m.runs.Messages(last))
	}
	for i, turn := range turns {
		if got := m.runs.Place(turn); got != uint32(i)+1 {
			return fmt.Errorf("turn %d has place %d, want %d", turn, got, i+1)
		}
	}
	var segments []uint64
	for first, end := range m.runs.Living(last) {
		for n := end; n >= first; n-- {
			segments = append(segments, n)
		}
	}
	slices.Reverse(segments)
	if !slices.Equal(segments, messages) {
		return fmt.Errorf("living are %v, want %v", segments, messages)
	}
	for i, n := range messages {
		if got := m.runs.Nth(uint64(i)); got != n {
			return fmt.Errorf("message %d of the living is %d, want %d", i, got, n)
		}
	}
	for n := range last + 1 {
		at, found := slices.BinarySearch(messages, n)
		if n > 0 && m.runs.Message(n) != m.dead[n-1] {
			return fmt.Errorf("message %d is superseded: %t", n, m.dead[n-1])
		}
		want := uint64(0)
		if found {
			want = n
		} else if at > 0 {
			want = messages[at-1]
		}
		if got := m.runs.LastMessage(n); got != want {
			return fmt.Errorf("the newest living up to %d is %d, want %d", n, got, want)
		}
		if at < len(messages) && n > 0 {
			end := at
			for end+1 < len(messages) && messages[end+1] == messages[end]+1 {
				end++
			}
			if first, end2 := m.runs.Stretch(n); first != messages[at] || min(end2, last) != messages[end] {
				return fmt.Errorf("the first stretch from %d is %d to %d, want %d to %d", n, first, end2, messages[at],
					messages[end])
			}
		}
		if got, want := m.runs.Upto(n).Messages(n), m.runs.Messages(n); got != want {
			return fmt.Errorf("up to %d the shorter list counts %d, the whole %d", n, got, want)
		}
	}
	for n := range m.turns + 1 {
		at, found := slices.BinarySearch(turns, n)
		want := uint32(0)
		if found {
			want = n
		} else if at > 0 {
			want = turns[at-1]
		}
		if got := m.runs.LastTurn(n); got != want {
			return fmt.Errorf("the newest living turn up to %d is %d, want %d", n, got, want)
		}
	}
	return nil
}

// TestAddKeepsOthers checks that Add does not change its receiver.
func TestAddKeepsOthers(t *testing.T) {
	one := Runs{}.Add(Run{[2]uint32{3, 4}, [2]uint64{5, 8}})
	one = one.Add(Run{[2]uint32{6, 6}, [2]uint64{11, 12}})
	held := slices.Clone(one)
	two := one.Add(Run{[2]uint32{5, 7}, [2]uint64{9, 14}})
	three := one.Add(Run{[2]uint32{8, 8}, [2]uint64{20, 21}})
	if !one.Equal(held) || !two.Equal(Runs{{[2]uint32{3, 7}, [2]uint64{5, 14}}}) || len(three) != 3 {
		t.Fatalf("%v became %v and %v", one, two, three)
	}
}

// TestUnsound expects Sound to refuse lists that no session can have.
func TestUnsound(t *testing.T) {
	for _, rs := range []Runs{
		{{[2]uint32{3, 1}, [2]uint64{1, 2}}},
		{{[2]uint32{2, 1}, [2]uint64{2, 1}}},
		{{[2]uint32{1, 0}, [2]uint64{1, 2}}},
		{{[2]uint32{2, 1}, [2]uint64{1, 2}}, {[2]uint32{2, 1}, [2]uint64{2, 3}}},
		{{[2]uint32{0, 1}, [2]uint64{1, 2}}},
		{{[2]uint32{1, 11}, [2]uint64{1, 2}}},
		{{[2]uint32{1, 1}, [2]uint64{1, 21}}},
		{{[2]uint32{1, 1}, [2]uint64{5, 3}}},
		{{[2]uint32{1, 1}, [2]uint64{1, 2}}, {[2]uint32{1, 2}, [2]uint64{4, 5}}},
		{{[2]uint32{1, 1}, [2]uint64{3, 4}}, {[2]uint32{2, 2}, [2]uint64{4, 5}}},
		make(Runs, Max+1),
	} {
		if rs.Sound(10, 20) {
			t.Errorf("%v counts as sound", rs)
		}
	}
	if empty := (Runs{{[2]uint32{3, 3}, [2]uint64{5, 4}}}); !empty.Sound(10, 20) || empty.Messages(9) != 0 || empty.Turns(9) != 1 {
		t.Error("a run without messages is sound and counts its turn")
	}
}
