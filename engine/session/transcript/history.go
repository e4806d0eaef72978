package transcript

import (
	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// History follows the turns of a file in order, including those that a rewind took back.
type History struct {
	Turns      uint32 // numbers used so far
	Superseded Runs
	Absent     Runs // of those, the turns without messages
	Removed    Runs // of those, the turns and messages that a client removed
	Open       OpenCalls
	messages   uint64
	// kept are the calls that were open before the current run of superseded turns. They are open again after it.
	kept []OpenCall
	// called are the ids of all calls so far. It is used to repair turns.
	called map[string]bool
}

// Place says where messages of a file belong: to which turn, whether they continue it, and whether it is superseded, or
// removed too.
type Place struct {
	Turn                uint32
	Continues           bool
	Superseded, Removed bool
}

// Take adds the next turn of a file. It returns invalid_turn if the turn cannot follow the previous ones.
func (f *History) Take(ft Place, t *Turn) error {
	first, run := f.messages+1, f.lastRun()
	t.Superseded, t.Continues = ft.Superseded, 0
	switch {
	case !ft.Continues && ft.Turn != f.Turns+1:
		return fault.InvalidField("turns", "invalid_turn",
			"turn numbers must go up from 1 without a gap; where %d should be the file says %d", f.Turns+1, ft.Turn)
	case ft.Removed && (!ft.Superseded || len(t.Messages) == 0):
		return fault.InvalidField("turns", "invalid_turn", "turn %d is removed and must be superseded, with its messages", ft.Turn)
	case ft.Continues && ft.Superseded && (run == nil || run.Messages[1]+1 != first || ft.Turn < run.Turns[0] ||
		ft.Turn > run.Turns[1]):
		return fault.InvalidField("turns", "invalid_turn",
			"turn %d is superseded, so it may only follow turns that are superseded with it", ft.Turn)
	case ft.Continues && !ft.Superseded && (ft.Turn == 0 || ft.Turn != f.Superseded.LastTurn(f.Turns)):
		return fault.InvalidField("turns", "invalid_turn",
			"only the newest turn that lives may go on; that is %d, the file says %d", f.Superseded.LastTurn(f.Turns), ft.Turn)
	case ft.Continues:
		t.Continues = ft.Turn
	}
	f.Turns = max(f.Turns, ft.Turn)
	f.messages += uint64(len(t.Messages))
	switch {
	case !ft.Superseded && f.kept != nil:
		f.Open.Calls, f.kept = f.kept, nil
	case ft.Superseded && f.kept == nil:
		f.kept = append([]OpenCall{}, f.Open.Calls...)
	}
	if ft.Superseded {
		r := Run{Turns: [2]uint32{ft.Turn, ft.Turn}, Messages: [2]uint64{first, f.messages}}
		f.Superseded = f.Superseded.Join(r)
		if len(t.Messages) == 0 {
			f.Absent = f.Absent.Join(r)
		}
		if ft.Removed {
			f.Removed = f.Removed.Join(r)
		}
	} else if err := f.takeRemoved(ft, t, first); err != nil {
		return err
	}
	if len(f.Superseded) > Max {
		return fault.InvalidField("turns", "invalid_turn", "at most %d runs of superseded turns may be kept apart", Max)
	}
	return nil
}

// takeRemoved notes the messages of a living turn that a client removed. first is the number of the turn's first message.
// It returns invalid_turn if these are all of its messages, or calls without their results or the other way round.
func (f *History) takeRemoved(ft Place, t *Turn, first uint64) error {
	called := map[string]bool{}
	whole := true
	for i := range t.Removed {
		m := &t.Messages[i]
		for j := range m.Calls {
			called[m.Calls[j].ID] = true
		}
	}
	answered := 0
	for i := range t.Messages {
		if id := t.Messages[i].CallID; id != "" && called[id] != t.Removed[i] {
			whole = false
		} else if id != "" && t.Removed[i] {
			answered++
		}
	}
	if !whole || answered < len(called) || len(t.Removed) > 0 && len(t.Removed) == len(t.Messages) {
		return fault.InvalidField("turns", "invalid_turn",
			"turn %d: removed messages must be some of a turn's, and calls among them must have their results there", ft.Turn)
	}
	for i := range t.Messages {
		if t.Removed[i] {
			seq := first + uint64(i)
			f.Superseded, f.Removed = f.Superseded.Join(Part(ft.Turn, seq, seq)), f.Removed.Join(Part(ft.Turn, seq, seq))
		}
	}
	return nil
}

func (f *History) lastRun() *Run {
	if n := len(f.Superseded); n > 0 {
		return &f.Superseded[n-1]
	}
	return nil
}

// End ends the last run of superseded turns.
func (f *History) End() {
	if f.kept != nil {
		f.Open.Calls, f.kept = f.kept, nil
	}
}
