package session

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// ParsedTurn is a turn before it has its place in a session.
type ParsedTurn struct {
	Agent, Delegation string
	Messages          []chat.Parsed
	skipped           []Skipped
	created           []time.Time // per message, where a file says it; nil: now
	headers           []Header    // what the messages alone tell; see measure
}

// parseTurn checks everything about a turn that does not depend on its session.
func parseTurn(req *TurnRequest) (*ParsedTurn, error) {
	if err := ident.CheckID("session_id", req.SessionID); err != nil {
		return nil, err
	}
	t := &ParsedTurn{Agent: req.Agent, skipped: []Skipped{}}
	if req.Agent != "" {
		if err := ident.CheckID("agent", req.Agent); err != nil {
			return nil, err
		}
	}
	if req.DelegationID != nil {
		if t.Delegation = *req.DelegationID; t.Delegation != "" {
			if err := ident.CheckID("delegation_id", t.Delegation); err != nil {
				return nil, err
			}
		}
	}
	format, err := ParseFormat(req.Format, false)
	if err != nil {
		return nil, err
	}
	if len(req.Messages) == 0 {
		return nil, fault.InvalidField("messages", "empty_turn", "must hold at least one message")
	}
	if t.Messages, err = ParseMessages(format, req.Messages, &t.skipped); err != nil {
		return nil, err
	}
	if len(t.Messages) > maxTurnMessages {
		return nil, fault.Errorf(fault.TooLarge, "turn_too_large", "a turn holds at most %d messages, this one %d", maxTurnMessages,
			len(t.Messages))
	}
	return t, nil
}

// ParseFormat reads a format's name; flat text is for output only.
func ParseFormat(name string, output bool) (chat.Format, error) {
	if name == "" {
		return chat.OpenAIChat, nil
	}
	f, ok := chat.ParseFormat(name)
	if !ok || f == chat.Text && !output {
		return 0, fault.InvalidField("format", "invalid_value", "must be %s, %s or %s", chat.OpenAIChat, chat.AnthropicMessages,
			chat.OpenAIResponses)
	}
	return f, nil
}

// ParseMessages reads posted messages; every faulty one is named by its index.
func ParseMessages(f chat.Format, in []json.RawMessage, skipped *[]Skipped) ([]chat.Parsed, error) {
	parsed, left, bad := chat.Parse(f, in)
	if len(bad) > 0 {
		return nil, refuseMessages(bad)
	}
	for _, s := range left {
		*skipped = append(*skipped, Skipped{Index: s.Index, Code: s.Code})
	}
	return parsed, nil
}

func refuseMessages(bad []chat.FieldError) error {
	refusal := &fault.Error{Kind: fault.Invalid, Code: "invalid_messages", Detail: bad[0].Error()}
	if len(bad) > 1 {
		refusal.Detail += fmt.Sprintf(" (and %d more)", len(bad)-1)
	}
	for i := range bad {
		refusal.Fields = append(refusal.Fields, fault.FieldError{Index: &bad[i].Index, Code: bad[i].Code, Detail: bad[i].Detail})
	}
	return refusal
}
