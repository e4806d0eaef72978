package window

import (
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Put adds the memories to a table of items: earlier reminders at their former places, and as many of the memories
// found as fit into room, in one message before the newest question. If that message belongs at the front of the
// window, Put returns it as notice instead. newest is the index of the newest user message that the viewer may see, or
// -1. room and budget are in tokens; a budget of 0 means no limit.
func (s *Memories) Put(items []plan.Item, newest int, room, budget uint64) (notice *plan.Item) {
	s.reminders = nil
	s.remind(items, budget)
	if s.Ask == nil || len(s.Found) == 0 || s.boundNewest() != nil {
		return nil
	}
	if s.blanked {
		s.putBlank(items, newest)
		return nil
	}
	asSystem := s.Ask.AsSystem()
	text, tokens := reminder.Fit(s.Found, s.style(), room, func(text string) uint32 { return s.Counter.Scaled(s.Counter.Count(text)) },
		func(text string) uint32 { return s.saidTokens(text, asSystem) })
	if text == "" {
		return nil
	}
	shown := reminder.Message{ID: "memories", Text: text, Tokens: tokens, AsSystem: asSystem,
		Reason: fmt.Sprintf("recalled: %d of the %d memories found fit", len(reminder.Shown(s.Found)), len(s.Found))}
	if newest >= 0 && !s.Ask.first() {
		s.putBefore(&items[newest], shown)
		return nil
	}
	it := plan.NoticeItem(plan.KindMemory, text, tokens, -1, shown.Reason)
	return &it
}

// putBlank puts the reminder of a replay before its question, although memories in it are blank. The decision knows which
// memories the reminder shows, and its tokens.
func (s *Memories) putBlank(items []plan.Item, newest int) {
	if s.again == nil || newest < 0 {
		return // no memory had room
	}
	for i := range s.Found {
		s.Found[i].Shown = slices.Contains(s.again.Memories, s.Found[i].Memory)
	}
	s.putBefore(&items[newest], reminder.Message{ID: "memories", Text: s.found(), AsSystem: s.again.AsSystem,
		Tokens: s.saidWords(int(s.again.Words), s.again.AsSystem),
		Reason: fmt.Sprintf("recalled: %d of the %d memories found fit", len(reminder.Shown(s.Found)), len(s.Found))})
}

// found returns the text of a reminder of the memories found that are shown, before guards change it.
func (s *Memories) found() string {
	var shown []reminder.Recalled
	for _, m := range s.Found {
		if m.Shown {
			shown = append(shown, m)
		}
	}
	return reminder.Text(shown, s.style())
}

// putBefore puts a message before the user message of an item.
func (s *Memories) putBefore(it *plan.Item, m reminder.Message) {
	if s.reminders == nil {
		s.reminders = map[int32]*reminder.Message{}
	}
	s.reminders[it.Row] = &m
	it.Tokens += m.Tokens
}

// Of returns the reminder that is put before an item's message, as a part of it, or nil.
func (s *Memories) Of(it *plan.Item) *reminder.Message {
	if len(s.reminders) == 0 || it.Change != plan.Unchanged && it.Change != plan.Retexted {
		return nil
	}
	return s.reminders[it.Row]
}

// saidTokens returns the tokens of a message with the given text that Mneme itself adds.
func (s *Memories) saidTokens(text string, asSystem bool) uint32 {
	if asSystem {
		return s.Counter.NoticeTokens(text)
	}
	return s.Counter.Plain(plan.RoleUser, text)
}

// saidWords is saidTokens for a text of which the tokens are known.
func (s *Memories) saidWords(words int, asSystem bool) uint32 {
	const any = "x" // any text that is not blank
	if asSystem {
		return s.Counter.Scaled(s.Counter.NoticeWords(any) - s.Counter.Count(any) + words)
	}
	return s.Counter.Scaled(s.Counter.PlainWords(plan.RoleUser, any) - s.Counter.Count(any) + words)
}

// Tokens returns the tokens of the reminders in a window of these items, and how many of them are before pending
// messages.
func (s *Memories) Tokens(items []plan.Item) (all, pending uint64) {
	if len(s.reminders) == 0 {
		return 0, 0
	}
	for i := range items {
		if shown := s.Of(&items[i]); shown != nil {
			all += uint64(shown.Tokens)
			if items[i].Flags&plan.FlagPending != 0 {
				pending += uint64(shown.Tokens)
			}
		}
	}
	return all, pending
}

// ShowsFound reports whether a window of these items includes the memories found for the newest question.
func (s *Memories) ShowsFound(items []plan.Item) bool {
	if at := s.newestRow(); at >= 0 && s.reminders[int32(at)] != nil {
		return true
	}
	return slices.ContainsFunc(items, func(it plan.Item) bool {
		return it.Change == plan.Notice && it.Kind == plan.KindMemory
	})
}

// Reminds reports whether the table has any reminder.
func (s *Memories) Reminds() bool { return len(s.reminders) > 0 }

// style returns the style of new reminders. A replay uses the style of the original window.
func (s *Memories) style() uint8 {
	if s.again != nil {
		return s.again.Style
	}
	if s.minTrust != "" {
		return reminder.TrustStyle
	}
	return reminder.Style
}
