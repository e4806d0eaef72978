package chat_test

import (
	"encoding/json"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

func TestCallsAndOutputs(t *testing.T) {
	for call, output := range map[string]string{
		"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output",
		"local_shell_call": "local_shell_call_output", "shell_call": "shell_call_output",
		"apply_patch_call": "apply_patch_call_output", "computer_call": "computer_call_output",
		"tool_search_call": "tool_search_output", "program": "program_output",
		"mcp_approval_request": "mcp_approval_response", "not_yet_invented_call": "not_yet_invented_call_output",
		"message": "", "reasoning": "", "compaction": "", "mcp_list_tools": "",
	} {
		if got := chat.OutputItemOf(call); got != output || output != "" && !chat.IsOutputItem(output) {
			t.Errorf("%s is answered by %q, not by %q", call, got, output)
		}
	}
}

// The answer to a call of any type that needs an output is valid JSON.
func TestAnswers(t *testing.T) {
	answered := 0
	for _, call := range []string{"function_call", "custom_tool_call", "local_shell_call", "shell_call",
		"apply_patch_call", "computer_call", "tool_search_call", "program", "mcp_approval_request", "later_call"} {
		members, ok := chat.ItemAnswer(call, []byte(`"text"`))
		if !ok {
			continue
		}
		answered++
		if !json.Valid([]byte("{" + members + "}")) {
			t.Errorf("%s: %s", call, members)
		}
	}
	if answered != 8 {
		t.Errorf("%d types are answered", answered)
	}
}
