package decision

import "github.com/seed-0906e6bc/mneme/engine/plan"

// Parts are the tokens of each part of a prompt. Their sum is the context window if the request has one, and otherwise
// the budget plus the system prompt and the tools.
type Parts struct {
	System   uint64 `json:"system"`   // the request's own system prompt
	Tools    uint64 `json:"tools"`    // the list that the request names
	Summary  uint64 `json:"summary"`  // the running summary
	Memories uint64 `json:"memories"` // recalled ones
	Marker   uint64 `json:"marker"`   // the policies' notices about messages left out
	History  uint64 `json:"history"`  // stored messages, the format's additions and the beginning of the reply
	Pending  uint64 `json:"pending"`  // messages of the turn in flight
	Reserved uint64 `json:"reserved"` // reserve_tokens, if they limit the window
	Free     uint64 `json:"free"`     // room left in the window; 0 if nothing limits it
}

// Bounds are the limits of a prompt in its request, in tokens.
type Bounds struct {
	System, Tools   uint64
	Window, Reserve uint64 // context_window, or 0 if there is none, and reserve_tokens
	Budget          uint64 // for everything except system prompt and tools; 0 means no limit
}

// PartsOf returns the parts of a prompt. tokens are those of the window with its system prompt.
func PartsOf(items []plan.Item, tokens uint64, b Bounds) Parts {
	p := Parts{System: b.System, Tools: b.Tools}
	for i := range items {
		it := &items[i]
		n := uint64(it.Tokens)
		switch {
		case it.Role != plan.RoleSystem && it.Flags&plan.FlagPending != 0:
			p.Pending += n
		case it.Role != plan.RoleSystem:
		case it.Kind == plan.KindSummary:
			p.Summary += n
		case it.Kind == plan.KindMemory:
			p.Memories += n
		default:
			p.Marker += n
		}
	}
	p.History = tokens - p.System - p.Summary - p.Memories - p.Marker - p.Pending
	whole := b.Window
	if whole > 0 {
		p.Reserved = b.Reserve
	} else if whole = b.Budget; whole > 0 {
		whole += p.System + p.Tools
	}
	if used := tokens + p.Tools + p.Reserved; whole > used {
		p.Free = whole - used
	}
	return p
}

// Count counts the kinds of items in a window.
func (u *Usage) Count(items []plan.Item) {
	for i := range items {
		if it := &items[i]; it.Role != plan.RoleSystem {
			u.HistoryTokens += uint64(it.Tokens)
			if it.Flags&plan.FlagCompressed != 0 {
				u.CompressedMessages++
			}
		}
	}
}
