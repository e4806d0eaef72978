package memory

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// The limits of metadata.
const (
	maxMetadata      = 64       // names
	maxMetadataBytes = 16 << 10 // of names and values
	maxMetadataName  = 128      // bytes
	maxValue         = 256 << 10
)

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
	if err := s.completeMetadata(); err != nil {
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

// completeMetadata removes names whose value is null, as if they were absent.
func (s *Spec) completeMetadata() error {
	kept := map[string]json.RawMessage{}
	size := 0
	for name, raw := range s.Metadata {
		if name == "" || len(name) > maxMetadataName || !printable(name) || name[0] == '$' {
			return fault.InvalidField("metadata", "invalid_value",
				"each name must be 1 to %d bytes without control characters, and not begin with $", maxMetadataName)
		}
		raw = bytes.TrimSpace(raw)
		if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' {
			return fault.InvalidField("metadata", "invalid_value",
				"%s: must be a string, a number or a boolean; put arrays and objects into value", name)
		}
		if string(raw) != "null" {
			kept[name], size = raw, size+len(name)+len(raw)
		}
	}
	if len(kept) > maxMetadata {
		return fault.InvalidField("metadata", "too_many", "there are %d names, and the limit is %d", len(kept),
			maxMetadata)
	}
	if size > maxMetadataBytes {
		return fault.InvalidField("metadata", "too_long", "has %d bytes, and the limit is %d", size, maxMetadataBytes)
	}
	s.Metadata = kept
	if len(kept) == 0 {
		s.Metadata = nil
	}
	return nil
}
