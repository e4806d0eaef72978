package window

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// boundReminder is a reminder that an earlier window put before a message, with those of its memories that still exist.
type boundReminder struct {
	*reminder.Bound
	recalled []reminder.Recalled
	whole    bool // all of its memories still exist
	again    bool // it is from the previous window, and not yet stored with the message
}

// bind finds the reminders that earlier windows put before the considered messages, so that this window repeats them at
// the same places. Memories that were deleted since are left out. A replay leaves out the same ones; if more have been
// deleted, it fails with memory_purged.
func (s *Memories) bind(ctx context.Context) error {
	s.earlier = nil
	add := func(at int32, b *boundReminder) {
		if s.earlier == nil {
			s.earlier = map[int32]*boundReminder{}
		}
		if s.earlier[at] == nil {
			s.earlier[at] = b
		}
	}
	for i, r := range s.Rows[:s.Stored] {
		if b := r.Reminder; b != nil && b.Before == r.Seq {
			add(int32(i), &boundReminder{Bound: b})
		} else if b != nil {
			if at := cache.IndexOf(s.Rows, b.Before); at >= 0 && s.Rows[at].Role == plan.RoleUser {
				add(int32(at), &boundReminder{Bound: b})
			}
		}
	}
	if at, b := s.newestRow(), s.shownBefore(); at >= 0 && b != nil && s.Rows[at].Seq == b.Before {
		add(int32(at), &boundReminder{Bound: b, again: true})
	}
	if len(s.earlier) == 0 {
		return nil
	}
	if err := s.loadBound(ctx); err != nil {
		return err
	}
	maps.DeleteFunc(s.earlier, func(_ int32, b *boundReminder) bool { return len(b.recalled) == 0 })
	if b := s.boundNewest(); b != nil {
		s.Found = b.recalled
	}
	return nil
}

// shownBefore returns the reminder that the previous window put before the pending message, if that is still the newest
// question, or nil. A replay reads from its decision whether the reminder was repeated.
func (s *Memories) shownBefore() *reminder.Bound {
	switch {
	case s.again != nil && s.again.Again:
		return &s.again.Bound
	case s.Before == nil:
		return nil
	}
	b := s.Before
	if at := s.newestRow(); at < s.Stored || s.digestOf(at) != b.Of || s.Ask != nil && b.Asked != s.askedFor() {
		return nil
	}
	return b
}

// askedFor returns a hash of the request for memories.
func (s *Memories) askedFor() uint64 {
	raw, err := json.Marshal(s.Ask)
	if err != nil { // impossible, because it was decoded from JSON
		panic(err)
	}
	return hashOf(raw)
}

func hashOf(b []byte) uint64 {
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// loadBound reads the memories of the bound reminders, each once.
func (s *Memories) loadBound(ctx context.Context) error {
	var names []reminder.Memory
	places := map[reminder.Memory]int{}
	for _, b := range s.earlier {
		for _, m := range b.Memories {
			if err := s.reached(m); s.replay && err != nil {
				return err
			}
			if _, ok := places[m]; !ok {
				places[m] = len(names)
				names = append(names, m)
			}
		}
	}
	at := records.TimeOf(s.At)
	alive := &at // Expired memories are left out, except in a replay of a window that had them.
	if s.replay {
		alive = nil
	}
	found, err := s.svc.memories.Versions(ctx, s.Tenant, s.Project, names, alive)
	if err != nil {
		return err
	}
	for _, row := range slices.Sorted(maps.Keys(s.earlier)) {
		b := s.earlier[row]
		b.whole = true
		for _, m := range b.Memories {
			rec := found[places[m]]
			switch {
			case slices.Contains(s.Forgotten, m): // it was already deleted when the window was made
				b.whole = false
			case !s.shows(m):
				b.whole, s.Forgotten = false, append(s.Forgotten, m)
			case rec != nil:
				r := recalled(rec)
				r.Shown = true
				b.recalled = append(b.recalled, r)
			case s.replay && s.blank:
				b.recalled = append(b.recalled, reminder.Recalled{Memory: m, Shown: true})
			case s.replay:
				return purged(m)
			default:
				b.whole, s.Forgotten = false, append(s.Forgotten, m)
			}
		}
	}
	return nil
}

// shows reports whether a window may repeat a memory of an earlier one. It leaves out memories that were recalled in
// another namespace, and those that the caller's key does not reach.
func (s *Memories) shows(m reminder.Memory) bool {
	if s.replay {
		return true
	}
	namespace, _ := ident.SplitFullName(m.Key)
	return s.viewer.Reaches(namespace) && (s.Ask == nil || ident.Below(namespace, s.within()))
}

// remind puts the bound reminders before their messages. It drops the reminder of the newest question, which is
// mandatory, if that takes more than half of the budget that the question leaves.
func (s *Memories) remind(items []plan.Item, budget uint64) {
	if len(s.earlier) == 0 {
		return
	}
	newest := s.newestRow()
	for i := range items {
		it := &items[i]
		b := s.earlier[it.Row]
		if b == nil || it.Role != plan.RoleUser || it.Change != plan.Unchanged {
			continue
		}
		m := reminder.Message{ID: "memories", Text: reminder.Text(b.recalled, b.Style), AsSystem: b.AsSystem,
			Reason: "shown_again: as in the window that they were recalled for"}
		if int(it.Row) != newest {
			m.ID += ":" + transcript.MessageID(s.Session, it.Seq)
		}
		if b.whole && int(b.Encoding) == s.Counter.Encoding {
			m.Tokens = s.saidWords(int(b.Words), b.AsSystem)
		} else {
			m.Tokens = s.saidTokens(m.Text, b.AsSystem)
		}
		own := uint64(it.Tokens)
		if int(it.Row) == newest && budget > 0 && uint64(m.Tokens) > (budget-min(own, budget))/2 {
			continue
		}
		s.putBefore(it, m)
	}
}

// newestRow returns the index of the newest considered user message that the viewer may see, or -1.
func (s *Memories) newestRow() int {
	for i, r := range slices.Backward(s.Rows) {
		if r.Role == plan.RoleUser && s.Visible(r) {
			return i
		}
	}
	return -1
}

// boundNewest returns the reminder that is bound to the newest user message. If it is nil, memories are recalled for
// that message.
func (s *Memories) boundNewest() *boundReminder {
	if at := s.newestRow(); at >= 0 {
		return s.earlier[int32(at)]
	}
	return nil
}

// digestOf returns a hash of a considered message as it was posted, or 0 if it cannot be read.
func (s *Memories) digestOf(at int) uint64 {
	m, err := s.Body(s.Rows[at])
	if err != nil {
		return 0
	}
	return hashOf(m.Raw)
}

// Current returns what the decision stores about a reminder before the newest user message. It returns nil if there is
// no such reminder, or if it is stored with the message.
func (s *Memories) Current() *reminder.Current {
	at := s.newestRow()
	if at < 0 || s.reminders[int32(at)] == nil {
		return nil
	}
	out, of := &reminder.Current{Pending: -1}, uint64(0)
	if at >= s.Stored {
		out.Pending, of = int(s.Posted[at-s.Stored]), s.digestOf(at)
	}
	if b := s.earlier[int32(at)]; b != nil {
		out.Bound, out.Again = *b.Bound, b.again
		if !b.again {
			return nil
		}
		return out
	}
	shown := s.reminders[int32(at)]
	out.Bound = reminder.Bound{Before: s.Rows[at].Seq, AsSystem: shown.AsSystem, Words: uint32(s.Counter.Count(s.found())),
		Encoding: uint8(s.Counter.Encoding), Style: s.style(), Memories: reminder.Shown(s.Found), Of: of, Asked: s.askedFor()}
	return out
}
