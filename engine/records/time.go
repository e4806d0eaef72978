package records

import (
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// ToTheMillisecond is a time as records keep it.
func ToTheMillisecond(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// TimeOf is a time that records keep in milliseconds since 1970.
func TimeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// Day numbers the days since 1970. Decisions lie by day, so that retention removes whole ranges and a session's
// decisions are found with one range a day.
func Day(t time.Time) uint16 { return uint16(t.Unix() / 86400) }

// ExpiredRange covers the entries of the expiry index up to now; limit bounds how many come.
func ExpiredRange(now time.Time, limit int) store.Range {
	rng := Expiry.Before(now)
	rng.Limit = limit
	return rng
}

// SplitExpiry gives the key of the record that an entry of the expiry index names.
func SplitExpiry(key []byte) []byte {
	_, of, _ := Expiry.Split(key)
	return of
}

// boundForms are the ways to write a time that bounds a search, apart from a day alone. Without a zone it is UTC.
var boundForms = [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00",
	"2006-01-02T15:04", "2006-01-02 15:04:05.999999999", "2006-01-02 15:04"}

// ParseBound reads an inclusive bound in time: RFC 3339, with or without a zone, or a day. A day as the last bound ends
// with the day's last millisecond. Empty is no bound. It answers invalid_time.
func ParseBound(field, text string, last bool) (*time.Time, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		if last {
			at = at.AddDate(0, 0, 1).Add(-time.Millisecond)
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
	return nil, fault.InvalidField(field, "invalid_time",
		"must be a time as 2026-03-05T14:30:00Z or a day as 2026-03-05")
}
