package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// The types of settings, as in the manifest.
const (
	settingInteger = "integer"
	settingNumber  = "number"
	settingBoolean = "boolean"
	settingString  = "string"
)

// ConfigError says what is wrong with one key of a config.
type ConfigError struct{ Key, Problem string }

func (e *ConfigError) Error() string { return fmt.Sprintf("config %q: %s", e.Key, e.Problem) }

// Config validates a JSON object against the manifest's schema, applies the defaults, and returns the entries sorted by
// key. Keys that are neither given nor have a default are left out. Empty input means the empty object. Each wrong key
// has its own *ConfigError, all joined: first the unknown keys, then the others, each group in order. Input that is not
// an object is another error.
func (m *Manifest) Config(raw json.RawMessage) ([]ConfigEntry, error) {
	given := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, fmt.Errorf("config is not a JSON object: %w", err)
		}
	}
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if _, ok := m.Schema[key]; !ok {
			problems = append(problems, &ConfigError{key, "is not a setting of this policy"})
		}
	}
	entries := make([]ConfigEntry, 0, len(m.Schema))
	for _, key := range slices.Sorted(maps.Keys(m.Schema)) {
		s := m.Schema[key]
		value, ok := given[key]
		if !ok {
			value = s.Default
		}
		if value == nil {
			continue
		}
		v, err := s.value(value)
		if err != nil {
			problems = append(problems, &ConfigError{key, err.Error()})
			continue
		}
		entries = append(entries, ConfigEntry{Key: key, Value: v})
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return entries, nil
}

// Check checks that the schema is usable: limits, enums and defaults must obey their own rules.
func (m *Manifest) Check() error {
	for _, key := range slices.Sorted(maps.Keys(m.Schema)) {
		s := m.Schema[key]
		if err := s.check(); err != nil {
			return fmt.Errorf("config %q: %w", key, err)
		}
	}
	return nil
}

// check checks that the values in a setting's schema have its type, and that the default obeys its rules.
func (s *Setting) check() error {
	switch s.Type {
	case settingInteger, settingNumber:
		for _, bound := range []*json.Number{s.Minimum, s.Maximum} {
			if bound == nil {
				continue
			}
			if _, err := s.parse(json.RawMessage(*bound)); err != nil {
				return fmt.Errorf("bound %w", err)
			}
		}
	case settingBoolean, settingString:
		if s.Minimum != nil || s.Maximum != nil {
			return fmt.Errorf("type %q takes no minimum or maximum", s.Type)
		}
	default:
		return fmt.Errorf("type %q is not integer, number, boolean or string", s.Type)
	}
	for i, e := range s.Enum {
		if _, err := s.parse(e); err != nil {
			return fmt.Errorf("enum value %d %w", i, err)
		}
	}
	if s.Default != nil {
		if _, err := s.value(s.Default); err != nil {
			return fmt.Errorf("default %w", err)
		}
	}
	return nil
}

// value parses a JSON value as the setting's type, and checks it against the limits and the enum.
func (s *Setting) value(raw json.RawMessage) (any, error) {
	v, err := s.parse(raw)
	if err != nil {
		return nil, err
	}
	if s.Minimum != nil {
		if low, err := s.parse(json.RawMessage(*s.Minimum)); err != nil || less(v, low) {
			return nil, fmt.Errorf("is %s, less than %s", raw, *s.Minimum)
		}
	}
	if s.Maximum != nil {
		if high, err := s.parse(json.RawMessage(*s.Maximum)); err != nil || less(high, v) {
			return nil, fmt.Errorf("is %s, more than %s", raw, *s.Maximum)
		}
	}
	if len(s.Enum) == 0 {
		return v, nil
	}
	for _, e := range s.Enum {
		if one, err := s.parse(e); err == nil && one == v {
			return v, nil
		}
	}
	return nil, fmt.Errorf("is %s, not one of %s", raw, bytes.Join(rawBytes(s.Enum), []byte(", ")))
}

// parse parses a JSON value as the setting's type: an int64, float64, bool or string.
func (s *Setting) parse(raw json.RawMessage) (any, error) {
	wrong := fmt.Errorf("is %s, not of type %s", raw, s.Type)
	switch s.Type {
	case settingInteger:
		v, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return nil, wrong
		}
		return v, nil
	case settingNumber:
		v, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, wrong
		}
		return v, nil
	case settingBoolean:
		var v *bool
		if err := json.Unmarshal(raw, &v); err != nil || v == nil {
			return nil, wrong
		}
		return *v, nil
	default:
		var v *string
		if err := json.Unmarshal(raw, &v); err != nil || v == nil {
			return nil, wrong
		}
		return *v, nil
	}
}

// less compares two values that parse returned for one numeric setting.
func less(a, b any) bool {
	if x, ok := a.(int64); ok {
		return cmp.Less(x, b.(int64))
	}
	return cmp.Less(a.(float64), b.(float64))
}

func rawBytes(values []json.RawMessage) [][]byte {
	bs := make([][]byte, len(values))
	for i, v := range values {
		bs[i] = v
	}
	return bs
}
