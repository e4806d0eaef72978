package transcript

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/callid"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"

	"github.com/seed-0906e6bc/mneme/engine/message/align"
)

// ModeRepair stores as much as possible of messages that have gaps.
const ModeRepair = "repair"

// Parser parses posted messages.
type Parser func(chat.Format, []json.RawMessage) ([]chat.Parsed, []chat.Skipped, error)

// ParserFor returns the parser for a mode. It returns invalid_value.
func ParserFor(mode string) (Parser, error) {
	switch mode {
	case "":
		return ParseMessages, nil
	case ModeRepair:
		return ParseRepaired, nil
	}
	return nil, fault.InvalidField("mode", "invalid_value", "must be repair, or left out")
}

// ParseRepaired is ParseMessages for messages that may have gaps: it leaves out duplicates and lists them as skipped.
// Results without calls are handled by Repair.
func ParseRepaired(f chat.Format, in []json.RawMessage) ([]chat.Parsed, []chat.Skipped, error) {
	posted := chat.Repair(f, in)
	parsed, skipped, err := ParseMessages(f, posted.Messages)
	for i := range parsed {
		parsed[i].Index = posted.At[parsed[i].Index]
	}
	for i := range skipped {
		skipped[i].Index = posted.At[skipped[i].Index]
	}
	if known, ok := fault.As(err); ok {
		for i := range known.Fields {
			if at := known.Fields[i].Index; at != nil {
				*at = posted.At[*at]
			}
		}
	}
	return parsed, SortSkipped(append(skipped, posted.Skipped...)), err
}

// SortSkipped sorts skipped elements in the order in which they were posted.
func SortSkipped(skipped []chat.Skipped) []chat.Skipped {
	slices.SortStableFunc(skipped, func(a, b chat.Skipped) int {
		return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Index, b.Index))
	})
	return skipped
}

// Repair returns a turn that can be stored after an extent with these open calls, and a list of what it changed.
func (svc *Service) Repair(ctx context.Context, tenant string, t *Turn, behind Extent, open *OpenCalls) (
	*Turn, []chat.Skipped, error) {
	return t.repair(open, func(id string) (bool, error) { return svc.called(ctx, tenant, behind, id) })
}

// calledWithin is how many of a session's newest messages are searched for a call that has been answered.
const calledWithin = 256

// called reports whether one of the newest living messages makes a call with the given id.
func (svc *Service) called(ctx context.Context, tenant string, x Extent, id string) (bool, error) {
	for last := x.Messages; last > 0 && x.Messages-last < calledWithin; {
		first := last - min(last, BodiesAtOnce) + 1
		bodies, err := svc.ReadBodies(ctx, tenant, x.Incarnation, first, last)
		if err != nil {
			return false, err
		}
		for i, body := range bodies {
			_, m, err := ParseBody(body)
			if err != nil || x.Superseded.Message(first+uint64(i)) {
				continue
			}
			if slices.ContainsFunc(m.Calls, func(c chat.Call) bool { return c.ID == id }) {
				return true, nil
			}
		}
		last = first - 1
	}
	return false, nil
}

// Repair returns a form of the next turn of a file that can be stored, and a list of what it changed. It returns
// invalid_turn if nothing of the turn can be stored.
func (f *History) Repair(at Place, t *Turn) (*Turn, []chat.Skipped, error) {
	open := &f.Open
	if !at.Superseded && f.kept != nil { // as Take will open them again
		open = &OpenCalls{Calls: f.kept}
	}
	t.Superseded = at.Superseded
	out, skipped, err := t.repair(open, func(id string) (bool, error) { return f.called[id], nil })
	if err != nil {
		return nil, nil, err
	}
	if len(out.Messages) == 0 && !at.Superseded {
		return nil, nil, fault.InvalidField("turns", "invalid_turn", "turn %d has nothing that can be stored", at.Turn)
	}
	for i := range skipped {
		skipped[i].Turn = at.Turn
	}
	if f.called == nil {
		f.called = map[string]bool{}
	}
	for i := range out.Messages {
		for _, call := range out.Messages[i].Calls {
			f.called[call.ID] = true
		}
	}
	return out, skipped, nil
}

// repair returns a turn that can be stored after these open calls. A result that answers no call becomes a note by the
// assistant, and one for a call that has been answered is left out. called reports whether the session made a call with
// the given id before. The original turn is not changed.
func (t *Turn) repair(open *OpenCalls, called func(id string) (bool, error)) (*Turn, []chat.Skipped, error) {
	out := &Turn{Agent: t.Agent, Delegation: t.Delegation, Superseded: t.Superseded, blobs: t.blobs}
	calls := OpenCalls{Calls: slices.Clone(open.Calls)}
	var skipped []chat.Skipped
	made := map[string]bool{} // calls of this turn
	for i := range t.Messages {
		m := t.Messages[i]
		if m.Delegation == "" {
			m.Delegation = t.Delegation // as it will be stored
		}
		if t.Removed[i] {
			if out.Removed == nil {
				out.Removed = map[int]bool{}
			}
			out.Removed[len(out.Messages)] = true
		}
		problem := calls.Follow(&m.Message, new(Header), t.Superseded)
		for j := range m.Calls {
			made[m.Calls[j].ID] = true
		}
		if problem == nil {
			out.copyName(t, i)
			out.Messages = append(out.Messages, t.Messages[i])
			continue
		}
		before, err := called(m.CallID)
		if err != nil {
			return nil, nil, err
		}
		if problem.Code == CodeNoOpenCall && (before || made[m.CallID]) {
			delete(out.Removed, len(out.Messages))
			skipped = append(skipped, chat.Skipped{Index: m.Index, Code: chat.CodeDuplicateResult,
				Reason: "the call " + m.CallID + " has its result already"})
			continue
		}
		why, _, _ := strings.Cut(problem.Detail, ";")
		skipped = append(skipped, chat.Skipped{Index: m.Index, Code: chat.CodeOrphanResult,
			Reason: why + "; it is kept as a note"})
		if out.said == nil {
			out.said = map[int]align.Hash{}
		}
		out.said[len(out.Messages)] = align.Of(&t.Messages[i].Message)
		out.copyName(t, i)
		out.Messages = append(out.Messages, note(&t.Messages[i]))
	}
	if skipped == nil {
		return t, nil, nil
	}
	return out, skipped, nil
}

// note returns a message of the assistant that contains what a result without its call said.
func note(of *chat.Parsed) chat.Parsed {
	text := "[result of the call " + of.CallID + ", which is not in this conversation]\n" + of.Flat()
	m := chat.Message{Role: plan.RoleAssistant, Text: text}
	raw := json.RawMessage(chat.JSON(of.Format, &m, chat.Options{}))
	parsed, _, _ := chat.Parse(of.Format, []json.RawMessage{raw})
	out := parsed[0]
	out.Index, out.Agent, out.Delegation, out.Tags = of.Index, of.Agent, of.Delegation, of.Tags
	out.CreatedAt = of.CreatedAt
	return out
}

// OwnNames replaces the mapped tool names that windows showed the model by the tools' own names. It returns the names
// that it found.
func (t *Turn) OwnNames(own callid.Own) callid.Own {
	var found callid.Own
	for i := range t.Messages {
		for _, name := range t.Messages[i].OwnNames(own) {
			found.Learn(name)
		}
	}
	if found != nil {
		t.headers = nil // they contain tool names
		t.known = nil
	}
	return found
}

// Names records those names of tools called by the turn's messages that formats do not allow.
func (t *Turn) Names(own *callid.Own) {
	for i := range t.Messages {
		for j := range t.Messages[i].Calls {
			own.Learn(t.Messages[i].Calls[j].Name)
		}
	}
}
