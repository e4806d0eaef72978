package records

import (
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// boundForms are the ways to write a time that bounds a search, apart from a day alone. Without a zone it is UTC.
var boundForms = [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04",
	"2006-01-02 15:04:05.999999999", "2006-01-02 15:04"}

// ParseBound reads an inclusive bound in time: RFC 3339, with or without a zone, or a day, which as the last bound is
// meant to its end. Empty is no bound.
func ParseBound(field, text string, last bool) (*time.Time, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		if last {
			at = at.AddDate(0, 0, 1).Add(-time.Millisecond) // records keep milliseconds
		}
		return &at, nil
	}
	// A "+" that was not escaped in a URL arrives as a space.
	if zone := len(text) - len(" 01:00"); zone > len(time.DateTime)-1 && text[zone] == ' ' {
		text = text[:zone] + "+" + text[zone+1:]
	}
	for _, form := range boundForms {
		if at, err := time.Parse(form, text); err == nil {
			at = at.UTC()
			return &at, nil
		}
	}
	return nil, fault.InvalidField(field, "invalid_time", "must be a time as 2026-03-05T14:30:00Z or a day as 2026-03-05")
}

// ToTheMillisecond is a time as records keep it.
func ToTheMillisecond(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
