// Package items knows the types of items of OpenAI's Responses: which of them are calls, what answers each, and which
// the model wrote. Types that it does not know go by the form of their names.
package items

import "strings"

// The types that have rules of their own.
const (
	Message    = "message"
	Call       = "function_call"
	Output     = "function_call_output"
	Reasoning  = "reasoning"
	Reference  = "item_reference"
	Custom     = "custom_tool_call"
	Approval   = "mcp_approval_request"
	Approved   = "mcp_approval_response"
	Compaction = "compaction"
)

const (
	callSuffix   = "_call"
	outputSuffix = "_output"
)

// Opaque tells whether a type of item is one that Mneme keeps without reading what it says. The empty type is none.
func Opaque(kind string) bool {
	switch kind {
	case "", Message, Call, Output, Reasoning:
		return false
	}
	return true
}

// named are calls whose types do not end in _call, or whose outputs' types are not their own and _output.
var named = map[string]string{
	"tool_search_call": "tool_search_output",
	"program":          "program_output",
	Approval:           Approved,
}

// OutputOf is the type of the item that answers a call of a type; empty where the type is no call's. A call names
// itself in IDField.
func OutputOf(call string) string {
	if output, ok := named[call]; ok {
		return output
	}
	if strings.HasSuffix(call, callSuffix) {
		return call + outputSuffix
	}
	return ""
}

// IsOutput tells whether items of a type answer calls.
func IsOutput(kind string) bool { return kind == Approved || strings.HasSuffix(kind, outputSuffix) }

// IDField is the member in which a call names itself.
func IDField(call string) string {
	if call == Approval {
		return "id"
	}
	return "call_id"
}

// AnswerField is the member in which an output names its call.
func AnswerField(output string) string {
	if output == Approved {
		return "approval_request_id"
	}
	return "call_id"
}

// Tool is the name of the tool that a call of a type calls where the item does not name it.
func Tool(call string) string { return strings.TrimSuffix(call, callSuffix) }

// alone are the types that belong to no message of the model, and may stand anywhere.
var alone = map[string]bool{Compaction: true, "compaction_trigger": true, "configuration_update": true,
	"additional_tools": true}

// Alone tells whether an item of a type, which neither calls nor answers by id, belongs to no other item.
func Alone(kind string) bool {
	return alone[kind] || kind != "tool_search_output" && strings.HasSuffix(kind, outputSuffix)
}

// NeedsNext tells whether an item must be followed by the item that it led to: reasoning must, and a reference to it.
func NeedsNext(kind, id string) bool {
	return kind == Reasoning || kind == Reference && strings.HasPrefix(id, "rs_")
}

// arguments are the members that say what is to be done, in the calls of all types.
var arguments = [...]string{"arguments", "input", "action", "actions", "operation", "code"}

// Arguments are the members that may hold what a call of a type asks for, most likely first.
func Arguments() []string { return arguments[:] }

// NoScreen is a picture of one pixel, for the screen that was never seen.
const NoScreen = "data:image/png;base64," +
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// Answer is what follows the id in an item that answers a call of a type with a text, which is given as a JSON string.
// It is false where no text can be an answer to such a call.
func Answer(call string, text []byte) (members string, ok bool) {
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
	case Call, Custom, "local_shell_call":
		return `"output":` + string(text), true
	}
	return "", false
}
