package records

import (
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// ToTheMillisecond returns a time with the precision of records.
func ToTheMillisecond(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// TimeOf returns the time for milliseconds since 1970, as records store it.
func TimeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// Day returns the number of days since 1970. The keys of decisions contain the day, so that retention removes whole
// ranges and a session's decisions are found with one range per day.
func Day(t time.Time) uint16 { return uint16(t.Unix() / 86400) }

// ExpiredRange covers the entries of the expiry index up to now; limit bounds their number.
func ExpiredRange(now time.Time, limit int) store.Range {
	rng := Expiry.Before(now)
	rng.Limit = limit
	return rng
}

// SplitExpiry returns the key of the record that an entry of the expiry index names.
func SplitExpiry(key []byte) []byte {
	_, of, _ := Expiry.Split(key)
	return of
}

// boundForms are the accepted formats of a time that bounds a search, in addition to a plain date. Times without a
// zone are UTC.
var boundForms = [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00",
	"2006-01-02T15:04", "2006-01-02 15:04:05.999999999", "2006-01-02 15:04"}

// ParseBound parses an inclusive time bound: RFC 3339, with or without a zone, or a date. If last is set, a date
// means the last millisecond of that day. An empty text is no bound. It fails with invalid_time.
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
	// An unescaped "+" in a URL arrives as a space.
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
