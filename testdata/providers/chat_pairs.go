package providers

import (
	"fmt"
	"slices"
	"strings"
)

// eachMessage turns a check of one message into a rule.
func eachMessage(check func(*chatRequest, int, object) *Refusal) func(*chatRequest) *Refusal {
	return func(r *chatRequest) *Refusal {
		for i, m := range r.messages {
			if refusal := check(r, i, m); refusal != nil {
				return refusal
			}
		}
		return nil
	}
}

// eachCall turns a check of one tool call into a rule. For an empty list of calls, the check gets nil and the list's
// position.
func eachCall(check func(*chatRequest, string, object) *Refusal) func(*chatRequest) *Refusal {
	return eachMessage(func(r *chatRequest, i int, m object) *Refusal {
		calls, is := m["tool_calls"].([]any)
		if is && len(calls) == 0 {
			return check(r, fmt.Sprintf("messages[%d].tool_calls", i), nil)
		}
		for j, call := range objects(calls) {
			if refusal := check(r, fmt.Sprintf("messages[%d].tool_calls[%d]", i, j), call); refusal != nil {
				return refusal
			}
		}
		return nil
	})
}

// chatPairs checks that every call is answered exactly once, in any order, immediately after its message, and that
// nothing else is answered.
func chatPairs(r *chatRequest) *Refusal {
	var open []string
	behind := 0
	missing := func() *Refusal {
		if len(open) == 0 {
			return nil
		}
		return refuse("An assistant message with 'tool_calls' must be followed by tool messages responding to each "+
			"'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", ")).
			at("messages.[%d].role", behind)
	}
	for i, m := range r.messages {
		if m.str("role") == "tool" {
			at := slices.Index(open, m.str("tool_call_id"))
			if at < 0 {
				return refuse("Invalid parameter: messages with role 'tool' must be a response to a preceeding "+
					"message with "+
					"'tool_calls'.").at("messages.[%d].role", i)
			}
			open = slices.Delete(open, at, at+1)
			behind = i + 1
			continue
		}
		behind = i
		if refusal := missing(); refusal != nil {
			return refusal
		}
		for _, call := range objects(m.list("tool_calls")) {
			open = append(open, call.str("id"))
		}
	}
	behind = len(r.messages)
	return missing()
}
