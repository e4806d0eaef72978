package chat

// This file describes the item types of OpenAI's Responses: which are calls, what answers each, and which the model
// wrote. Unknown types are classified by the form of their names.

import "strings"

// The types that need special rules.
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

// opaqueItem reports whether Mneme keeps items of a type without reading their content. The empty type is not one.
func opaqueItem(kind string) bool {
	switch kind {
	case "", itemMessage, ItemCall, itemOutput, itemReasoning:
		return false
	}
	return true
}

// named are calls whose types do not end in _call, or whose output types are not their own type plus _output.
var named = map[string]string{
	"tool_search_call": "tool_search_output",
	"program":          "program_output",
	itemApproval:       itemApproved,
}

// OutputOf is the type of the item that answers a call of this type, or empty if this type is not a call. A call's id
// is in IDField.
func OutputItemOf(call string) string {
	if output, ok := named[call]; ok {
		return output
	}
	if strings.HasSuffix(call, callSuffix) {
		return call + outputSuffix
	}
	return ""
}

// IsOutputItem reports whether items of a type answer calls.
func IsOutputItem(kind string) bool {
	return kind == itemApproved || strings.HasSuffix(kind, outputSuffix)
}

// itemIDField returns the member in which a call gives its id.
func itemIDField(call string) string {
	if call == itemApproval {
		return "id"
	}
	return "call_id"
}

// itemAnswerField returns the member in which an output names its call.
func itemAnswerField(output string) string {
	if output == itemApproved {
		return "approval_request_id"
	}
	return "call_id"
}

// itemTool returns the name of the tool that a call of a type calls if the item does not name it.
func itemTool(call string) string { return strings.TrimSuffix(call, callSuffix) }

// alone are the types that belong to no message of the model and may appear anywhere.
var alone = map[string]bool{itemCompaction: true, "compaction_trigger": true, "configuration_update": true,
	"additional_tools": true}

// standaloneItem reports whether an item of a type that neither makes nor answers a call belongs to no other item.
func standaloneItem(kind string) bool {
	return alone[kind] || kind != "tool_search_output" && strings.HasSuffix(kind, outputSuffix)
}

// needsNextItem reports whether an item must be followed by the item that it led to: this is true of reasoning and of a
// reference to it.
func needsNextItem(kind, id string) bool {
	return kind == itemReasoning || kind == itemReference && strings.HasPrefix(id, "rs_")
}

// arguments are the members with the arguments of a call, for calls of all types.
var arguments = [...]string{"arguments", "input", "action", "actions", "operation", "code"}

// itemArguments returns the members that may contain the arguments of a call, most likely first.
func itemArguments() []string { return arguments[:] }

// NoScreen is a one-pixel image, used for a missing screenshot.
const NoScreen = "data:image/png;base64," +
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// ItemAnswer returns what follows the id in an item that answers a call of a type with a text, given as a JSON string.
// It returns false if no text can answer such a call.
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
