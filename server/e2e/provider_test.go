package e2e

import (
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// checkProvider checks the window against the rules of its provider.
func (s *scene) checkProvider() {
	for _, fault := range providerFaults(s.ask.target(), s.win.Messages) {
		s.fault("provider: %s", fault)
	}
}

// providerFaults lists what the provider would refuse. Only the last atom may have a call without a result.
func providerFaults(format hard.Format, messages []json.RawMessage) []string {
	switch format {
	case hard.Anthropic:
		return anthropicFaults(messages)
	case hard.Responses:
		return responsesFaults(messages)
	default:
		return chatFaults(messages)
	}
}

// chatFaults checks that results follow their calls immediately, once each, with nothing in between.
func chatFaults(messages []json.RawMessage) (faults []string) {
	var open []string // ids that must be answered before anything else
	for i, raw := range messages {
		var m chatMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			return append(faults, sprintf("message %d: %v", i, err))
		}
		if m.Role != "tool" && len(open) > 0 {
			faults = append(faults, sprintf("message %d (%s) stands before the results of %v", i, m.Role, open))
			open = nil
		}
		switch m.Role {
		case "tool":
			at := slices.Index(open, m.ToolCallID)
			if at < 0 {
				faults = append(faults, sprintf("message %d answers %q, which no call before it left open", i,
					m.ToolCallID))
				continue
			}
			open = slices.Delete(open, at, at+1)
		case "assistant":
			for _, c := range m.ToolCalls {
				if c.ID == "" || c.Function.Name == "" || c.Type != "function" || slices.Contains(open, c.ID) {
					faults = append(faults, sprintf("message %d has an unusable call %+v", i, c))
				}
				open = append(open, c.ID)
			}
		case "user", "system":
			if len(m.ToolCalls) > 0 {
				faults = append(faults, sprintf("message %d: a %s calls tools", i, m.Role))
			}
		default:
			faults = append(faults, sprintf("message %d: role %q", i, m.Role))
		}
	}
	return faults
}

// anthropicFaults checks that roles alternate, beginning with a user, and that every call is answered in the next
// message, results first.
func anthropicFaults(messages []json.RawMessage) (faults []string) {
	bad := func(i int, format string, args ...any) {
		faults = append(faults, sprintf("message %d ", i)+sprintf(format, args...))
	}
	used := map[string]bool{}
	var open []string
	for i, raw := range messages {
		var m chatMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			bad(i, "is unreadable: %v", err)
			return faults
		}
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			bad(i, "is of role %q, want %q", m.Role, want)
		}
		list, err := anthropicElements(raw)
		if err != nil {
			bad(i, "is unreadable: %v", err)
			return faults
		}
		texts := false
		pending := open
		open = nil
		for _, e := range list {
			switch e.kind {
			case "text":
				texts = true
				if blank(e.text) {
					bad(i, "has an empty text")
				}
			case "image":
				texts = true
			case "call":
				var input map[string]json.RawMessage
				if json.Unmarshal([]byte(e.text), &input) != nil || input == nil {
					bad(i, "calls %s with input that is no object: %s", e.name, e.text)
				}
				if m.Role != "assistant" || e.id == "" || e.name == "" || used[e.id] {
					bad(i, "has an unusable or repeated call %q of %q", e.id, e.name)
				}
				used[e.id] = true
				open = append(open, e.id)
			case "result":
				if texts {
					bad(i, "has a result after a text")
				}
				at := slices.Index(pending, e.id)
				if at < 0 {
					bad(i, "answers %q, which the message before it did not call", e.id)
					continue
				}
				pending = slices.Delete(pending, at, at+1)
			}
		}
		if len(pending) > 0 && i < len(messages)-1 {
			bad(i, "does not answer %v", pending)
		} else if len(pending) > 0 && texts {
			bad(i, "has texts although %v of the last atom are still to come", pending)
		}
	}
	return faults
}

// responsesFaults checks that a run of calls is followed by the run of its outputs, and that a reasoning item stays
// with the item after it.
func responsesFaults(messages []json.RawMessage) (faults []string) {
	var open []string
	answering, reasoning := false, false
	for i, raw := range messages {
		var m responseItem
		if err := json.Unmarshal(raw, &m); err != nil {
			return append(faults, sprintf("item %d: %v", i, err))
		}
		if m.Type == "" {
			m.Type = "message"
		}
		if m.Type != "function_call_output" && len(open) > 0 && (answering || m.Type != "function_call") {
			faults = append(faults, sprintf("item %d (%s) stands before the outputs of %v", i, m.Type, open))
			open = nil
		}
		if reasoning && m.Type != "reasoning" && m.Type != "function_call" && m.Role != "assistant" {
			faults = append(faults, sprintf("item %d (%s) stands behind a reasoning item that is not its own", i,
				m.Type))
		}
		reasoning = m.Type == "reasoning"
		switch m.Type {
		case "function_call":
			answering = false
			if m.CallID == "" || m.Name == "" || slices.Contains(open, m.CallID) {
				faults = append(faults, sprintf("item %d is an unusable call %q", i, m.CallID))
			}
			open = append(open, m.CallID)
		case "function_call_output":
			answering = true
			at := slices.Index(open, m.CallID)
			if at < 0 {
				faults = append(faults, sprintf("item %d answers %q, which no call before it left open", i, m.CallID))
				continue
			}
			open = slices.Delete(open, at, at+1)
			if len(m.Output) == 0 || string(m.Output) == "null" {
				faults = append(faults, sprintf("item %d has no output", i))
			}
		case "message":
			if !slices.Contains([]string{"user", "assistant", "system", "developer"}, m.Role) {
				faults = append(faults, sprintf("item %d: role %q", i, m.Role))
			}
		case "reasoning":
		default:
			faults = append(faults, sprintf("item %d: type %q", i, m.Type))
		}
	}
	if reasoning {
		faults = append(faults, "the last item is a reasoning item")
	}
	return faults
}
