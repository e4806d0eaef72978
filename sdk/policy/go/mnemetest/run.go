package mnemetest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// The sizes of the request and plan buffers for which a host creates instances.
const (
	usualRequest, usualPlan     = 64 << 10, 32 << 10
	longestRequest, longestPlan = 512 << 10, 256 << 10
)

// Result is the result of a call.
type Result struct {
	Ops  []Op
	Plan []byte // the encoded Ops
	Log  []LogLine
}

// LogLine is one line that the policy wrote.
type LogLine struct {
	Level mneme.Level
	Line  string
}

// Run calls a policy with a table. The error is the policy's own, or it means that the request or the plan is larger
// than a host accepts, or that Table.Check refuses the plan.
func Run(policy mneme.Policy, t *Table) (Result, error) {
	request, size := t.Encode(), usualPlan
	if len(request) > usualRequest || t.long() {
		size = longestPlan
	}
	if len(request) > longestRequest {
		return Result{}, fmt.Errorf("mnemetest: request of %d bytes, a host takes %d", len(request), longestRequest)
	}
	h, buffer := host{table: t}, Buffer(size)
	n, err := mneme.Run(policy, request, buffer, &h)
	if err != nil {
		return Result{Log: h.log}, err
	}
	result := Result{Plan: buffer[:n], Log: h.log}
	if result.Ops, err = Decode(result.Plan); err != nil {
		return result, err
	}
	return result, t.Check(result.Ops)
}

// host implements the host functions with the table.
type host struct {
	table *Table
	log   []LogLine
}

func (h *host) Text(record, offset int, buf []byte) int {
	if record < 0 || record >= len(h.table.Records) {
		return -1
	}
	return copyFrom(h.table.Records[record].Text, offset, buf)
}

// copyFrom copies a text from an offset. A host traps if the offset is negative.
func copyFrom(text string, offset int, buf []byte) int {
	if offset < 0 {
		panic("mnemetest: a negative offset")
	}
	copy(buf, text[min(offset, len(text)):])
	return len(text)
}

func (h *host) Tokens(text string) int { return h.table.tokens(text) }

func (h *host) Find(record int, needle string) int {
	if record < 0 || record >= len(h.table.Records) {
		return -1
	}
	return strings.Index(h.table.Records[record].Text, needle)
}

func (h *host) Search(record, call, from int, needle string) int {
	text := ""
	switch {
	case record < 0 || record >= len(h.table.Records):
		return -2
	case call == mneme.InText:
		text = h.table.Records[record].Text
	default:
		c := h.call(record, call)
		if c == nil {
			return -2
		}
		text = c.Arguments
	}
	at := strings.Index(text[min(from, len(text)):], needle)
	if at < 0 {
		return -1
	}
	return from + at
}

func (h *host) Args(record, call, offset int, buf []byte) int {
	c := h.call(record, call)
	if c == nil {
		return -1
	}
	return copyFrom(c.Arguments, offset, buf)
}

func (h *host) Name(record, call int, buf []byte) int {
	c := h.call(record, call)
	if c == nil {
		return -1
	}
	return copyFrom(c.Name, 0, buf)
}

func (h *host) call(record, call int) *CallOf {
	if record < 0 || record >= len(h.table.Records) || call < 0 || call >= len(h.table.Records[record].Calls) {
		return nil
	}
	return &h.table.Records[record].Calls[call]
}

func (h *host) Score(record int, query string) int {
	if record < 0 || record >= len(h.table.Records) {
		return -1
	}
	return h.table.score(h.table.Records[record].Text, query)
}

func (h *host) JSON(record int, pointer string, buf []byte) int {
	if record < 0 || record >= len(h.table.Records) || h.table.Records[record].Spec == "" {
		return -1
	}
	return lookUp(h.table.Records[record].Spec, pointer, buf)
}

// lookUp copies what a JSON pointer names.
func lookUp(text, pointer string, buf []byte) int {
	if !json.Valid([]byte(text)) {
		return -2
	}
	found := json.RawMessage(text)
	parts := strings.Split(pointer, "/")
	if parts[0] != "" {
		return -1
	}
	for _, part := range parts[1:] {
		if found = member(found, strings.NewReplacer("~1", "/", "~0", "~").Replace(part)); found == nil {
			return -1
		}
	}
	var s string
	if found[0] == '"' && json.Unmarshal(found, &s) == nil {
		return copyFrom(s, 0, buf)
	}
	return copyFrom(string(found), 0, buf)
}

// member returns a member of an object or an element of an array, or nil.
func member(text json.RawMessage, name string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) == nil {
		return object[name]
	}
	var array []json.RawMessage
	at, err := strconv.Atoi(name)
	if json.Unmarshal(text, &array) != nil || err != nil || strconv.Itoa(at) != name || at < 0 || at >= len(array) {
		return nil
	}
	return array[at]
}

func (h *host) Log(level mneme.Level, line string) {
	h.log = append(h.log, LogLine{Level: level, Line: strings.Clone(line)})
}
