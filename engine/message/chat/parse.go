package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Parsed is one message and the index of the posted element that it came from. For a message made of several Responses
// items, that is the first one.
type Parsed struct {
	Message
	Index int
}

// CodeSystemNotStored is the code of a skipped system or developer message.
const CodeSystemNotStored = "system_not_stored"

// The codes of what ParsePosted repairs.
const (
	CodeDuplicateCall   = "duplicate_call"   // a call whose id is already used in the message, or before its result
	CodeDuplicateResult = "duplicate_result" // a second result for one call
	CodeDuplicateItem   = "duplicate_item"   // a Responses item whose id was already posted
	CodeOrphanResult    = "orphan_result"    // a result that answers no call is kept as a note
)

// Skipped is a posted element that is not stored unchanged, and the reason. Turn is its turn in a file with many turns.
type Skipped struct {
	Turn   uint32 `json:"turn,omitempty"`
	Index  int    `json:"index"`
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
}

// The stable codes of a FieldError.
const (
	CodeMalformed        = "malformed_message"
	CodeInvalidUTF8      = "invalid_utf8"
	CodeDuplicateField   = "duplicate_field"
	CodeUnknownRole      = "unknown_role"
	CodeWrongFormat      = "wrong_format" // a message that is evidently of another format
	CodeUnknownItem      = "unknown_item"
	CodeMissingCallID    = "missing_call_id"      // an assistant's call without an id
	CodeMissingCallName  = "missing_call_name"    // an assistant's call without a name
	CodeMissingAnswerID  = "missing_tool_call_id" // a result that does not say which call it answers
	CodeDuplicateCallID  = "duplicate_call_id"    // one message calls, or answers, the same id twice
	CodeTooManyCalls     = "too_many_calls"
	CodeTooLarge         = "message_too_large"
	CodeMisplacedBlock   = "misplaced_block" // a block that its role cannot hold
	CodeReasoningAlone   = "reasoning_alone" // a reasoning item without the item it belongs to
	CodeInvalidField     = "invalid_field"   // an own field has the wrong type
	CodeInvalidID        = "invalid_id"
	CodeInvalidTags      = "invalid_tags"
	CodeInvalidCreatedAt = "invalid_created_at"
	CodeInvalidA2A       = "invalid_a2a"
)

// FieldError says why a posted element was rejected. Detail says how to fix it.
type FieldError struct {
	Index  int
	Code   string
	Detail string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("message %d: %s: %s", e.Index, e.Code, e.Detail)
}

// problem is a FieldError without an index.
type problem struct{ code, detail string }

// Parse reads posted messages (items, for OpenAIResponses). The messages keep the posted order, except that the results
// of an Anthropic message come before its other blocks. If there is any error, nothing must be stored. Every posted
// element is checked, so that a client sees all of its mistakes at once. The messages alias the posted bytes.
func Parse(f Format, in []json.RawMessage) ([]Parsed, []Skipped, []FieldError) {
	return parse(f, in, nil)
}

// ParsePosted is like Parse, for what a client posts: it also rejects what is evidently of another format.
func ParsePosted(f Format, in []json.RawMessage) ([]Parsed, []Skipped, []FieldError) {
	return parse(f, in, checkFormat)
}

func parse(f Format, in []json.RawMessage, check func(Format, *object) *problem) ([]Parsed, []Skipped, []FieldError) {
	p := parser{msgs: make([]Parsed, 0, len(in))}
	for i, raw := range in {
		raw = bytes.TrimSpace(raw)
		if !utf8.Valid(raw) {
			p.fail(i, &problem{CodeInvalidUTF8, "must be valid UTF-8; encode the text again before sending it"})
			continue
		}
		if !rawjson.Valid(raw) {
			p.fail(i, &problem{CodeMalformed, "must be valid JSON"})
			continue
		}
		o, bad := readObject(raw)
		if bad != nil {
			p.fail(i, bad)
			continue
		}
		if check != nil {
			bad = check(f, &o)
		}
		switch {
		case bad != nil:
		case f == AnthropicMessages:
			bad = p.anthropic(i, &o)
		case f == OpenAIResponses:
			bad = p.item(i, &o)
		default:
			bad = p.openai(i, &o)
		}
		if bad != nil {
			p.fail(i, bad)
			p.group.held = nil // the item that they belong to may be this one
		}
	}
	p.closeGroup()
	slices.SortStableFunc(p.errs, func(a, b FieldError) int { return a.Index - b.Index })
	return p.msgs, p.skipped, p.errs
}

// parser collects what Parse returns.
type parser struct {
	msgs    []Parsed
	skipped []Skipped
	errs    []FieldError
	copied  int   // bytes of fields that were copied when one posted message became several
	group   group // the Responses items that may become one message
}

func (p *parser) fail(index int, bad *problem) {
	p.errs = append(p.errs, FieldError{Index: index, Code: bad.code, Detail: bad.detail})
}

// role reads a message's role; tool says whether the format has the role tool. If done is true, the message is not
// stored: bad says what is wrong with its role, or it is a system or developer message, which role records as skipped.
func (p *parser) role(index int, o *object, tool bool) (r plan.Role, done bool, bad *problem) {
	name, _ := rawjson.String(o.Get("role"))
	switch {
	case name == "user":
		return plan.RoleUser, false, nil
	case name == "assistant":
		return plan.RoleAssistant, false, nil
	case name == "tool" && tool:
		return plan.RoleTool, false, nil
	case name == "system" || name == "developer":
		p.skipped = append(p.skipped, Skipped{Index: index, Code: CodeSystemNotStored})
		return plan.RoleSystem, true, nil
	}
	known := "user, assistant, system or developer"
	if tool {
		known = "user, assistant, tool, system or developer"
	}
	if value := o.Get("role"); value != nil {
		return 0, true, &problem{CodeUnknownRole, "role " + quoteValue(value) + " is unknown; use " + known}
	}
	return 0, true, &problem{CodeUnknownRole, "role is missing; use " + known}
}

// RoleName returns a role's name in the APIs.
func RoleName(r plan.Role) string {
	switch r {
	case plan.RoleUser:
		return "user"
	case plan.RoleAssistant:
		return "assistant"
	case plan.RoleTool:
		return "tool"
	}
	return "system"
}

// addCall checks a call and adds it.
func (m *Message) addCall(c Call) *problem {
	if c.ID == "" {
		return &problem{CodeMissingCallID, "a tool call needs an id, so that its result can answer it"}
	}
	if c.Name == "" {
		return &problem{CodeMissingCallName, "the tool call " + quoteForDetail([]byte(c.ID)) + " needs a name"}
	}
	m.Calls = append(m.Calls, c)
	m.Kind = plan.KindCall
	return nil
}

// maxCalls limits the calls of one message, because no turn can contain more results.
const maxCalls = 4096

// checkCalls rejects a message that uses one call id twice, or that makes too many calls.
func (m *Message) checkCalls() *problem {
	if len(m.Calls) > maxCalls {
		return &problem{CodeTooManyCalls,
			fmt.Sprintf("a message may make at most %d calls, this one makes %d", maxCalls, len(m.Calls))}
	}
	if len(m.Calls) < 2 {
		return nil
	}
	seen := make(map[string]bool, len(m.Calls))
	for i := range m.Calls {
		if seen[m.Calls[i].ID] {
			return duplicateCall(m.Calls[i].ID)
		}
		seen[m.Calls[i].ID] = true
	}
	return nil
}

func duplicateCall(id string) *problem {
	return &problem{CodeDuplicateCallID,
		"the id " + quoteForDetail([]byte(id)) + " appears twice in one message; give each call its own"}
}
