package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// arguments are the arguments of one call, as a model wrote them. Models make mistakes: they write numbers as strings,
// optional arguments as null, a single tag without a list. What has only one possible meaning is accepted. Faults are
// collected, so that one response names them all.
type arguments struct {
	values map[string]json.RawMessage
	known  []string // the arguments read so far, which in the end are those of the tool
	faults []fault.FieldError

	within  []string // the namespace that limits the call
	session string   // the model's session
}

// readArguments reads an object, or a string that contains one. Empty input means no arguments.
func readArguments(raw json.RawMessage) (*arguments, error) {
	var inner string
	if json.Unmarshal(raw, &inner) == nil {
		raw = json.RawMessage(strings.TrimSpace(inner))
	}
	a := &arguments{values: map[string]json.RawMessage{}}
	if len(raw) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(raw, &a.values); err != nil {
		return nil, fault.InvalidField("arguments", "invalid_arguments",
			"must be one JSON object with the tool's arguments by name (%v)", err)
	}
	return a, nil
}

// take returns an argument's JSON, or nil if it is missing.
func (a *arguments) take(name string) json.RawMessage {
	a.known = append(a.known, name)
	if v := a.values[name]; string(v) != "null" {
		return v
	}
	return nil
}

// fault records what is wrong with an argument.
func (a *arguments) fault(name, code, format string, args ...any) {
	a.faults = append(a.faults, fault.FieldError{Field: name, Code: code, Detail: fmt.Sprintf(format, args...)})
}

// text reads a string. A number or a boolean is accepted as it is written.
func (a *arguments) text(name string) string {
	v := a.take(name)
	if v == nil {
		return ""
	}
	s, ok := scalar(v)
	if !ok {
		a.fault(name, "wrong_type", "must be a string")
	}
	return s
}

// scalar returns a string's text, or a number or boolean as it is written.
func scalar(v json.RawMessage) (s string, ok bool) {
	if json.Unmarshal(v, &s) == nil {
		return s, true
	}
	return string(v), v[0] != '{' && v[0] != '['
}

// number reads a number, or a string that contains one. It returns nil if the argument is missing.
func (a *arguments) number(name string) *float64 {
	v := a.take(name)
	if v == nil {
		return nil
	}
	s, _ := scalar(v)
	if s = strings.TrimSpace(s); s == "" {
		return nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		a.fault(name, "wrong_type", "must be a number")
		return nil
	}
	return &n
}

// boolean reads true or false, or a string that contains one of them. It returns nil if the argument is missing.
func (a *arguments) boolean(name string) *bool {
	v := a.take(name)
	if v == nil {
		return nil
	}
	s, _ := scalar(v)
	b, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(s)))
	if err != nil {
		a.fault(name, "wrong_type", "must be true or false")
		return nil
	}
	return &b
}

// texts reads a list of strings. A single string is a list with items separated by commas.
func (a *arguments) texts(name string) []string {
	v := a.take(name)
	if v == nil {
		return nil
	}
	var items []json.RawMessage
	if json.Unmarshal(v, &items) != nil {
		s, ok := scalar(v)
		if !ok {
			a.fault(name, "wrong_type", "must be a list of strings")
		}
		var out []string
		for item := range strings.SplitSeq(s, ",") {
			if item = strings.TrimSpace(item); item != "" {
				out = append(out, item)
			}
		}
		return out
	}
	out := make([]string, 0, len(items))
	for _, item := range items {
		s, ok := scalar(item)
		if !ok || string(item) == "null" {
			a.fault(name, "wrong_type", "must be a list of strings")
			return nil
		}
		out = append(out, s)
	}
	return out
}

// namespace reads a namespace, outermost part first. The default is the namespace that limits the call, and others must
// be within that.
func (a *arguments) namespace() []string {
	namespace := a.texts("namespace")
	if len(namespace) == 0 {
		return a.within
	}
	if err := ident.CheckStoredNamespace("namespace", namespace); err != nil {
		a.fault("namespace", "invalid_value", "must be at most 16 names of 1 to 128 bytes, outermost first")
	} else if n := len(a.within); len(namespace) < n || !slices.Equal(namespace[:n], a.within) {
		a.fault("namespace", "out_of_range", "must begin with %s, or be left out", strings.Join(a.within, ", "))
	}
	return namespace
}

// version reads if_version. It returns nil if that is missing.
func (a *arguments) version() *int {
	n := a.number("if_version")
	if n == nil {
		return nil
	}
	if *n < 0 || *n != float64(int(*n)) {
		a.fault("if_version", "out_of_range", "must be a version that was shown, or 0 for a memory that does not exist")
		return nil
	}
	version := int(*n)
	return &version
}

// clearable are the fields that memory_store can clear.
var clearable = []string{"expires_at", "occurred_at", "tags"}

// patch reads the fields of a memory from the arguments of memory_store. Fields that are missing or null are not in the
// patch.
func (a *arguments) patch(now time.Time) memory.Patch {
	fields := map[string]any{}
	if a.take("content") != nil {
		fields["content"] = a.text("content")
	}
	if category := a.category(); category != "" {
		fields["category"] = category
	}
	if tags := a.texts("tags"); tags != nil {
		fields["tags"] = tags
	}
	if n := a.number("importance"); n != nil {
		fields["importance"] = *n
	}
	if standing := a.boolean("standing"); standing != nil {
		fields["standing"] = *standing
	}
	for _, name := range []string{"expires_at", "occurred_at"} {
		last := name == "expires_at"
		at, err := records.ParseBound(name, a.bound(name, now, last), last)
		if err == nil && at != nil { // an error is already recorded
			fields[name] = at
		}
	}
	for _, name := range a.texts("clear") {
		switch _, said := fields[name]; {
		case !slices.Contains(clearable, name):
			a.fault("clear", "invalid_value", "can name %s", strings.Join(clearable, ", "))
		case said:
			a.fault("clear", "invalid_value", "names %s, which is given a value, too", name)
		default:
			fields[name] = nil
		}
	}
	patch := memory.Patch{}
	for name, v := range fields {
		raw, err := json.Marshal(v)
		if err != nil {
			a.fault(name, "invalid_value", "must be a number, a text or a list")
		}
		patch[name] = raw
	}
	return patch
}

// limit reads how many memories are requested.
func (a *arguments) limit(usual int) int {
	if n := a.number("limit"); n != nil && *n >= 1 {
		return int(min(*n, maxLimit))
	}
	return usual
}

// category reads a category in lower or upper case.
func (a *arguments) category() string {
	return strings.ToLower(strings.TrimSpace(a.text("category")))
}

// bound reads a time bound as a model may write it, and returns it in the form that records.ParseBound reads.
func (a *arguments) bound(name string, now time.Time, last bool) string {
	s := strings.ToLower(strings.TrimSpace(a.text(name)))
	if at, ok := sayTime(s, now); ok {
		return at
	}
	s = strings.ToUpper(s) // T and Z
	if _, err := records.ParseBound(name, s, last); err != nil {
		a.fault(name, "invalid_time",
			"must be a day as %s, a time as %s, or such as: yesterday, 3 days ago; now it is %s",
			now.Format(time.DateOnly), now.Format("2006-01-02T15:04:05Z"), now.Format("Monday, 2006-01-02 15:04 UTC"))
	}
	return s
}

// sayTime parses a time relative to the present, such as yesterday or 3 days ago, because a model has no clock.
func sayTime(s string, now time.Time) (string, bool) {
	switch s {
	case "now":
		return now.Format(time.RFC3339Nano), true
	case "today":
		return now.Format(time.DateOnly), true
	case "yesterday":
		return now.AddDate(0, 0, -1).Format(time.DateOnly), true
	}
	word := strings.Fields(s)
	if len(word) != 3 || word[2] != "ago" {
		return "", false
	}
	n, err := strconv.Atoi(word[0])
	if word[0] == "a" || word[0] == "an" || word[0] == "one" {
		n, err = 1, nil
	}
	if err != nil || n < 0 || n > 36_500 {
		return "", false
	}
	switch strings.TrimSuffix(word[1], "s") {
	case "minute":
		return now.Add(-time.Duration(n) * time.Minute).Format(time.RFC3339Nano), true
	case "hour":
		return now.Add(-time.Duration(n) * time.Hour).Format(time.RFC3339Nano), true
	case "day":
		return now.AddDate(0, 0, -n).Format(time.DateOnly), true
	case "week":
		return now.AddDate(0, 0, -7*n).Format(time.DateOnly), true
	case "month":
		return now.AddDate(0, -n, 0).Format(time.DateOnly), true
	case "year":
		return now.AddDate(-n, 0, 0).Format(time.DateOnly), true
	}
	return "", false
}

// done returns an error for what was wrong, and for arguments that the tool does not have.
func (a *arguments) done() error {
	var unknown []string
	for name := range a.values {
		if !slices.Contains(a.known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		a.fault(name, "unknown_argument", "there is no such argument; there are %s", strings.Join(a.known, ", "))
	}
	if len(a.faults) == 0 {
		return nil
	}
	details := make([]string, len(a.faults))
	for i, f := range a.faults {
		details[i] = f.Field + ": " + f.Detail
	}
	return &fault.Error{Kind: fault.Invalid, Code: a.faults[0].Code, Detail: strings.Join(details, "; "),
		Fields: a.faults}
}

// key reads the key of a memory.
func (a *arguments) key() string {
	key := a.text("key")
	if key != "" && !ident.ValidID(key) { // Store rejects "." and ".."
		a.fault("key", "invalid_id", ident.IDRule)
	}
	return key
}
