package hard

import (
	"encoding/json"
	"fmt"
)

// Recorded reads a session recorded in openai.chat as a transcript: a turn starts at each user message. Contents are
// strings or null, as recorders write them.
func Recorded(messages []json.RawMessage) (*Transcript, error) {
	t := &Transcript{Format: Chat}
	open := map[string]int{} // call id to its message's Seq
	for i, raw := range messages {
		var m struct {
			Role       string  `json:"role"`
			Content    *string `json:"content"`
			ToolCallID string  `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		last := len(t.Turns) - 1
		if last < 0 || m.Role == "user" && len(t.Turns[last].Messages) > 0 {
			t.Turns = append(t.Turns, Turn{Number: len(t.Turns) + 1, Format: Chat})
			last++
		}
		turn := &t.Turns[last]
		turn.Input = append(turn.Input, raw)
		if m.Role == "system" {
			turn.Skipped = append(turn.Skipped, len(turn.Input)-1)
			continue
		}
		out := &Message{Seq: len(t.Messages) + 1, Turn: turn.Number, Role: m.Role, CallID: m.ToolCallID, Posted: raw}
		out.Atom = out.Seq
		if m.Content != nil {
			out.Parts = []Part{{Text: *m.Content}}
		}
		for _, c := range m.ToolCalls {
			out.Calls = append(out.Calls, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
			open[c.ID] = out.Seq
		}
		if m.Role == "tool" {
			seq, ok := open[m.ToolCallID]
			if !ok {
				return nil, fmt.Errorf("message %d answers no open call", i)
			}
			out.Atom = seq
			delete(open, m.ToolCallID)
		}
		turn.Messages = append(turn.Messages, out)
		t.Messages = append(t.Messages, out)
	}
	return t, nil
}
