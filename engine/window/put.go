package window

import (
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Put shows the memories in a table of items: earlier reminders where they stood, and what was found, as far as it fits
// into the room, as one message before the newest question. notice is that message where it stands in front of the
// window instead. newest is the item of the newest user message that the viewer may see, -1 where there is none. budget
// bounds the window, in tokens; 0 is no bound.
func (s *Shelf) Put(items []plan.Item, newest int, room, budget uint64) (notice *plan.Item) {
	s.reminders = nil
	s.remind(items, budget)
	if s.Ask == nil || len(s.Memories) == 0 || s.boundNewest() != nil {
		return nil
	}
	asSystem := s.Ask.AsSystem()
	text, tokens := reminder.Fit(s.Memories, s.style(), room, func(text string) uint32 { return s.Counter.Scaled(s.Counter.Count(text)) },
		func(text string) uint32 { return s.saidTokens(text, asSystem) })
	if text == "" {
		return nil
	}
	shown := reminder.Message{ID: "memories", Text: text, Tokens: tokens, AsSystem: asSystem,
		Reason: fmt.Sprintf("recalled: %d of the %d memories found fit", len(reminder.Shown(s.Memories)), len(s.Memories))}
	if newest >= 0 && !s.Ask.first() {
		s.putBefore(&items[newest], shown)
		return nil
	}
	it := plan.NoticeItem(plan.KindMemory, text, tokens, -1, shown.Reason)
	return &it
}

// putBefore shows a message before the user's message of an item of the table.
func (s *Shelf) putBefore(it *plan.Item, m reminder.Message) {
	if s.reminders == nil {
		s.reminders = map[int32]*reminder.Message{}
	}
	s.reminders[it.Row] = &m
	it.Tokens += m.Tokens
}

// Of is what stands before an item's message, as a part of it; nil where nothing does.
func (s *Shelf) Of(it *plan.Item) *reminder.Message {
	if len(s.reminders) == 0 || it.Change != plan.Unchanged && it.Change != plan.Retexted {
		return nil
	}
	return s.reminders[it.Row]
}

// saidTokens counts a message of Mneme's own.
func (s *Shelf) saidTokens(text string, asSystem bool) uint32 {
	if asSystem {
		return s.Counter.NoticeTokens(text)
	}
	return s.Counter.Plain(plan.RoleUser, text)
}

// saidWords is saidTokens for a text whose words are counted already.
func (s *Shelf) saidWords(words int, asSystem bool) uint32 {
	const any = "x" // any text that is not blank
	if asSystem {
		return s.Counter.Scaled(s.Counter.NoticeWords(any) - s.Counter.Count(any) + words)
	}
	return s.Counter.Scaled(s.Counter.PlainWords(plan.RoleUser, any) - s.Counter.Count(any) + words)
}

// Tokens are what a window of these items shows before its messages, as parts of them, and what of it before pending
// ones.
func (s *Shelf) Tokens(items []plan.Item) (all, pending uint64) {
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

// ShowsFound tells whether a window of these items shows what was found for the newest question.
func (s *Shelf) ShowsFound(items []plan.Item) bool {
	if at := s.newestRow(); at >= 0 && s.reminders[int32(at)] != nil {
		return true
	}
	return slices.ContainsFunc(items, func(it plan.Item) bool {
		return it.Change == plan.Notice && it.Kind == plan.KindMemory
	})
}

// Reminds tells whether the table has any such message.
func (s *Shelf) Reminds() bool { return len(s.reminders) > 0 }

// style is the style of a reminder that the window makes; a replay's is that of the window that it repeats.
func (s *Shelf) style() uint8 {
	if s.again != nil {
		return s.again.Style
	}
	return reminder.Style
}
