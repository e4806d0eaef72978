package engine

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
)

// parsedTurn is a turn before it has its place in a session.
type parsedTurn struct {
	agent, delegation string
	messages          []chat.Parsed
	skipped           []Skipped
	created           []time.Time // per message, where a file says it; nil: now
	headers           []header    // what the messages alone tell; see measure
}

// parseTurn checks everything about a turn that does not depend on its session.
func parseTurn(req *TurnRequest) (*parsedTurn, error) {
	if err := checkID("session_id", req.SessionID); err != nil {
		return nil, err
	}
	t := &parsedTurn{agent: req.Agent, skipped: []Skipped{}}
	if req.Agent != "" {
		if err := checkID("agent", req.Agent); err != nil {
			return nil, err
		}
	}
	if req.DelegationID != nil {
		if t.delegation = *req.DelegationID; t.delegation != "" {
			if err := checkID("delegation_id", t.delegation); err != nil {
				return nil, err
			}
		}
	}
	format, err := parseFormat(req.Format, false)
	if err != nil {
		return nil, err
	}
	if len(req.Messages) == 0 {
		return nil, invalidField("messages", "empty_turn", "must hold at least one message")
	}
	if t.messages, err = parseMessages(format, req.Messages, &t.skipped); err != nil {
		return nil, err
	}
	if len(t.messages) > maxTurnMessages {
		return nil, errorf(TooLarge, "turn_too_large", "a turn holds at most %d messages, this one %d", maxTurnMessages,
			len(t.messages))
	}
	return t, nil
}

// parseFormat reads a format's name; flat text is for output only.
func parseFormat(name string, output bool) (chat.Format, error) {
	if name == "" {
		return chat.OpenAIChat, nil
	}
	f, ok := chat.ParseFormat(name)
	if !ok || f == chat.Text && !output {
		return 0, invalidField("format", "invalid_value", "must be %s, %s or %s", chat.OpenAIChat, chat.AnthropicMessages,
			chat.OpenAIResponses)
	}
	return f, nil
}

// parseMessages reads posted messages; every faulty one is named by its index.
func parseMessages(f chat.Format, in []json.RawMessage, skipped *[]Skipped) ([]chat.Parsed, error) {
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
	refusal := &Error{Kind: Invalid, Code: "invalid_messages", Detail: bad[0].Error()}
	if len(bad) > 1 {
		refusal.Detail += fmt.Sprintf(" (and %d more)", len(bad)-1)
	}
	for i := range bad {
		refusal.Fields = append(refusal.Fields, FieldError{Index: &bad[i].Index, Code: bad[i].Code, Detail: bad[i].Detail})
	}
	return refusal
}
