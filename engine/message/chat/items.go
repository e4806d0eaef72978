package chat

// This part of the package knows the types of items of OpenAI's Responses: which of them are calls, what answers each, and which
// the model wrote. Types that it does not know go by the form of their names.

import "strings"

// The types that have rules of their own.
const (
	itemMessage    = "message"
	ItemCall       = "function_call"
	itemOutput     = "function_call_output"
	itemReasoning  = "reasoning"
	itemReference  = "item_reference"
	itemCustomCall = "custom_tool_call"
	itemApproval   = "mcp_approval_request"
	itemApproved   = "mcp_approval_response"
	itemCompaction = "compaction"
)

const (
	callSuffix   = "_call"
	outputSuffix = "_output"
)

// Opaque tells whether a type of item is one that Mneme keeps without reading what it says. The empty type is none.
func opaqueItem(kind string) bool {
	switch kind {
	case "", itemMessage, ItemCall, itemOutput, itemReasoning:
		return false
	}
	return true
}

// named are calls whose types do not end in _call, or whose outputs' types are not their own and _output.
var named = map[string]string{
	"tool_search_call": "tool_search_output",
	"program":          "program_output",
	itemApproval:       itemApproved,
}

// OutputOf is the type of the item that answers a call of a type; empty where the type is no call's. A call names
// itself in IDField.
func OutputItemOf(call string) string {
	if output, ok := named[call]; ok {
		return output
	}
	if strings.HasSuffix(call, callSuffix) {
		return call + outputSuffix
	}
	return ""
}

// IsOutput tells whether items of a type answer calls.
func IsOutputItem(kind string) bool {
	return kind == itemApproved || strings.HasSuffix(kind, outputSuffix)
}

// IDField is the member in which a call names itself.
func itemIDField(call string) string {
	if call == itemApproval {
		return "id"
	}
	return "call_id"
}

// AnswerField is the member in which an output names its call.
func itemAnswerField(output string) string {
	if output == itemApproved {
		return "approval_request_id"
	}
	return "call_id"
}

// Tool is the name of the tool that a call of a type calls where the item does not name it.
func itemTool(call string) string { return strings.TrimSuffix(call, callSuffix) }

// alone are the types that belong to no message of the model, and may stand anywhere.
var alone = map[string]bool{itemCompaction: true, "compaction_trigger": true, "configuration_update": true,
	"additional_tools": true}

// Alone tells whether an item of a type, which neither calls nor answers by id, belongs to no other item.
func standaloneItem(kind string) bool {
	return alone[kind] || kind != "tool_search_output" && strings.HasSuffix(kind, outputSuffix)
}

// NeedsNext tells whether an item must be followed by the item that it led to: reasoning must, and a reference to it.
func needsNextItem(kind, id string) bool {
	return kind == itemReasoning || kind == itemReference && strings.HasPrefix(id, "rs_")
}

// arguments are the members that say what is to be done, in the calls of all types.
var arguments = [...]string{"arguments", "input", "action", "actions", "operation", "code"}

// Arguments are the members that may hold what a call of a type asks for, most likely first.
func itemArguments() []string { return arguments[:] }

// NoScreen is a picture of one pixel, for the screen that was never seen.
const NoScreen = "data:image/png;base64," +
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// Answer is what follows the id in an item that answers a call of a type with a text, which is given as a JSON string.
// It is false where no text can be an answer to such a call.
func ItemAnswer(call string, text []byte) (members string, ok bool) {
	switch call {
	case "shell_call":
		return `"output":[{"stdout":` + string(text) + `,"stderr":"","outcome":{"type":"exit","exit_code":0}}]`, true
	case "apply_patch_call":
		return `"status":"completed","output":` + string(text), true
	case "computer_call":
		return `"output":{"type":"computer_screenshot","image_url":"` + NoScreen + `"}`, true
	case "tool_search_call":
		return `"tools":[]`, true
	case "program":
		return `"result":` + string(text), true
	case ItemCall, itemCustomCall, "local_shell_call":
		return `"output":` + string(text), true
	}
	return "", false
}
