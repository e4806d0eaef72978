package memory

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// maxValue is the maximum size of a value as JSON, in bytes.
const maxValue = 256 << 10

// ID returns the memory's full name: its namespace and key. It identifies the memory where the namespace is not given
// separately.
func (m *Memory) ID() string { return ID(m.Namespace, m.Key) }

// Time returns the memory's time in lists and in recall: when what it says happened, if known, and otherwise when it
// was last changed.
func (m *Memory) Time() time.Time {
	if m.OccurredAt != nil {
		return *m.OccurredAt
	}
	return m.UpdatedAt
}

// placed returns the memory's time as used in the index by time, which begins in 1970.
func (m *Memory) placed() time.Time { return records.TimeOf(max(0, m.Time().UnixMilli())) }

// size returns the number of bytes that count against the quota: those of the content, the value and the metadata.
func (m *Memory) size() int {
	n := len(m.Content) + len(m.Value)
	for name, v := range m.Metadata {
		n += len(name) + len(v)
	}
	return n
}

// completeExtra checks occurred_at, metadata and value against their limits, and normalises them. A memory with a value
// and no content gets a content that says the value in words.
func (s *Spec) completeExtra() error {
	if s.OccurredAt != nil {
		at := records.ToTheMillisecond(*s.OccurredAt)
		if at.Year() < 1 || at.UnixMilli() >= maxPlaced {
			return fault.InvalidField("occurred_at", "out_of_range", "must be between the years 1 and 2248")
		}
		s.OccurredAt = &at
	}
	var err error
	if s.Metadata, err = ident.CheckMetadata("metadata", s.Metadata); err != nil {
		return err
	}
	if string(s.Value) == "null" {
		s.Value = nil
	}
	if len(s.Value) == 0 {
		return nil
	}
	var tidy bytes.Buffer
	if json.Compact(&tidy, s.Value) != nil {
		return fault.InvalidField("value", "invalid_value", "must be JSON")
	}
	if s.Value = tidy.Bytes(); len(s.Value) > maxValue {
		return fault.InvalidField("value", "too_long", "has %d bytes as JSON, and the limit is %d", len(s.Value), maxValue)
	}
	if s.Content == "" {
		s.Content = contentOf(s.Value)
	}
	return nil
}
