package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// The limits of conditions.
const (
	maxConditions     = 64
	maxConditionDepth = 8
)

// Conditions constrain the values of a JSON object by name. The condition of a name is an object of operators, all of
// which must hold, an object of names with their own conditions, or any other JSON, which the value must equal. A
// missing name has the value null.
//
//	$eq $ne           equal, not equal
//	$gt $gte $lt $lte order, between two numbers or two strings; false for anything else
//	$in               equal to one of a list
//
// The rules are those of the filters of LangGraph's BaseStore.
type Conditions map[string]json.RawMessage

// condition is a parsed condition.
type condition func(v any) bool

// read parses the conditions. It returns invalid_value or too_many for the field if they are invalid, and a nil
// condition if there are none.
func (c Conditions) read(field string) (condition, error) {
	left := maxConditions
	return c.readAll(field, maxConditionDepth, &left)
}

func (c Conditions) readAll(field string, depth int, left *int) (condition, error) {
	if len(c) == 0 {
		return nil, nil
	}
	if *left -= len(c); *left < 0 || depth == 0 {
		return nil, fault.InvalidField(field, "too_many", "must be at most %d conditions, nested at most %d deep",
			maxConditions, maxConditionDepth)
	}
	all := map[string]condition{}
	for name, raw := range c {
		if strings.HasPrefix(name, "$") {
			return nil, errOperator(field, name)
		}
		one, err := readCondition(field, raw, depth, left)
		if err != nil {
			return nil, err
		}
		all[name] = one
	}
	return func(v any) bool {
		object, ok := v.(map[string]any)
		for name, holds := range all {
			if !ok || !holds(object[name]) {
				return false
			}
		}
		return true
	}, nil
}

func readCondition(field string, raw json.RawMessage, depth int, left *int) (condition, error) {
	want, err := decodeAny(raw)
	if err != nil {
		return nil, fault.InvalidField(field, "invalid_value", "must be JSON")
	}
	parts, ok := want.(map[string]any)
	if !ok || len(parts) == 0 {
		return func(v any) bool { return equal(v, want) }, nil
	}
	var nested Conditions
	if err := json.Unmarshal(raw, &nested); err != nil {
		return nil, fault.InvalidField(field, "invalid_value", "must be JSON")
	}
	isOperator := func(name string) bool { return strings.HasPrefix(name, "$") }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(parts)), isOperator) {
		return nested.readAll(field, depth-1, left)
	}
	var all []condition
	for name, operand := range parts {
		one := operator(name, operand)
		if one == nil && !slices.Contains(operators, name) {
			return nil, errOperator(field, name)
		}
		if one == nil {
			return nil, fault.InvalidField(field, "invalid_value", "%s: $gt, $gte, $lt and $lte take a number or a text, "+
				"$in takes a list", name)
		}
		all = append(all, one)
	}
	return func(v any) bool {
		return !slices.ContainsFunc(all, func(holds condition) bool { return !holds(v) })
	}, nil
}

// operators are the operators of conditions.
var operators = []string{"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in"}

// errOperator reports a name that is not an operator, or an operator in the wrong place.
func errOperator(field, name string) error {
	return fault.InvalidField(field, "unknown_operator", "%s cannot be here; the condition of a name is JSON that it "+
		"equals, or an object of %s alone; all conditions must hold, there is no $or", name, strings.Join(operators, ", "))
}

// operator returns the condition of an operator, or nil if there is no such operator or it does not accept the operand.
func operator(name string, operand any) condition {
	order := func(fits func(int) bool) condition {
		if _, ok := compare(operand, operand); !ok {
			return nil
		}
		return func(v any) bool {
			c, ok := compare(v, operand)
			return ok && fits(c)
		}
	}
	switch name {
	case "$eq":
		return func(v any) bool { return equal(v, operand) }
	case "$ne":
		return func(v any) bool { return !equal(v, operand) }
	case "$gt":
		return order(func(c int) bool { return c > 0 })
	case "$gte":
		return order(func(c int) bool { return c >= 0 })
	case "$lt":
		return order(func(c int) bool { return c < 0 })
	case "$lte":
		return order(func(c int) bool { return c <= 0 })
	case "$in":
		if list, ok := operand.([]any); ok {
			return func(v any) bool {
				return slices.ContainsFunc(list, func(one any) bool { return equal(v, one) })
			}
		}
	}
	return nil
}

// compare orders two numbers or two strings. 64-bit integers are compared exactly.
func compare(a, b any) (order int, ok bool) {
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return cmp.Compare(a, b), ok
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return 0, false
		}
		m, errM := strconv.ParseInt(a.String(), 10, 64)
		n, errN := strconv.ParseInt(b.String(), 10, 64)
		if errM == nil && errN == nil {
			return cmp.Compare(m, n), true
		}
		x, _ := strconv.ParseFloat(a.String(), 64) // one that is too large is infinite
		y, _ := strconv.ParseFloat(b.String(), 64)
		return cmp.Compare(x, y), true
	}
	return 0, false
}

// equal reports whether two JSON values are the same.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			if other, ok := b[name]; !ok || !equal(v, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case string, json.Number:
		order, ok := compare(a, b)
		return ok && order == 0
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b // booleans and null
}

// decodeAny decodes JSON and keeps numbers as they are written.
func decodeAny(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return v, d.Decode(&v)
}
