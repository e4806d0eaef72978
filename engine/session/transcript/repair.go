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

// ModeRepair stores what can be stored of messages with gaps.
const ModeRepair = "repair"

// Parser reads posted messages.
type Parser func(chat.Format, []json.RawMessage) ([]chat.Parsed, []chat.Skipped, error)

// ParserFor gives what reads posted messages in a mode. It answers invalid_value.
func ParserFor(mode string) (Parser, error) {
	switch mode {
	case "":
		return ParseMessages, nil
	case ModeRepair:
		return ParseRepaired, nil
	}
	return nil, fault.InvalidField("mode", "invalid_value", "must be repair, or left out")
}

// ParseRepaired is ParseMessages for messages that may have gaps: what comes twice is left out and stands under what
// was skipped. Results without calls are for Repair.
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

// SortSkipped puts what was skipped in the order in which it was posted.
func SortSkipped(skipped []chat.Skipped) []chat.Skipped {
	slices.SortStableFunc(skipped, func(a, b chat.Skipped) int {
		return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Index, b.Index))
	})
	return skipped
}

// Repair makes a turn one that can be stored behind an extent with these open calls, and says what it changed.
func (svc *Service) Repair(ctx context.Context, tenant string, t *Turn, behind Extent, open *OpenCalls) (
	*Turn, []chat.Skipped, error) {
	return t.repair(open, func(id string) (bool, error) { return svc.called(ctx, tenant, behind, id) })
}

// calledWithin is how many of a session's newest messages are looked at for a call that is answered already.
const calledWithin = 256

// called tells whether one of the newest messages that live makes a call of an id.
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

// Repair makes the next turn of a file one that can be stored, and says what it changed. It answers invalid_turn where
// nothing of the turn can be.
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

// repair gives a turn that can be stored behind these open calls: a result that answers none is kept as a note of the
// assistant's, and one for a call that is answered already is left out. called tells whether the session made a call of
// an id before. The turn itself stays as it is.
func (t *Turn) repair(open *OpenCalls, called func(id string) (bool, error)) (*Turn, []chat.Skipped, error) {
	out := &Turn{Agent: t.Agent, Delegation: t.Delegation, Superseded: t.Superseded}
	calls := OpenCalls{Calls: slices.Clone(open.Calls)}
	var skipped []chat.Skipped
	made := map[string]bool{} // calls of this turn
	for i := range t.Messages {
		m := t.Messages[i]
		if m.Delegation == "" {
			m.Delegation = t.Delegation // as it will be stored
		}
		problem := calls.Follow(&m.Message, new(Header), t.Superseded)
		for j := range m.Calls {
			made[m.Calls[j].ID] = true
		}
		if problem == nil {
			out.Messages = append(out.Messages, t.Messages[i])
			continue
		}
		before, err := called(m.CallID)
		if err != nil {
			return nil, nil, err
		}
		if problem.Code == CodeNoOpenCall && (before || made[m.CallID]) {
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
		out.Messages = append(out.Messages, note(&t.Messages[i]))
	}
	if skipped == nil {
		return t, nil, nil
	}
	return out, skipped, nil
}

// note is a message of the assistant that says what a result without its call said.
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

// OwnNames puts the own names of tools in place of the mapped ones that windows showed the model. It gives those that
// it found.
func (t *Turn) OwnNames(own callid.Own) callid.Own {
	var found callid.Own
	for i := range t.Messages {
		for _, name := range t.Messages[i].OwnNames(own) {
			found.Learn(name)
		}
	}
	if found != nil {
		t.headers = nil // they name tools
		t.known = nil
	}
	return found
}

// Names notes the names of the tools that the turn's messages call, where formats do not allow them.
func (t *Turn) Names(own *callid.Own) {
	for i := range t.Messages {
		for j := range t.Messages[i].Calls {
			own.Learn(t.Messages[i].Calls[j].Name)
		}
	}
}
