package rank

import (
	"slices"
	"testing"
	"time"
)

// Relative dates are counted from a Wednesday, 2026-11-25.
func TestRelative(t *testing.T) {
	now := time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)
	monday := dayOf(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC))
	for query, want := range map[string]Date{
		"what did she say yesterday?": {2026, 11, 24}, "heute": {2026, 11, 25}, "ayer": {2026, 11, 24},
		"three days ago": {2026, 11, 22}, "vor 30 Tagen": {2026, 10, 26}, "a year ago": {2025, 0, 0},
		"last month": {2026, 10, 0}, "next month": {2026, 12, 0}, "two months ago": {2026, 9, 0},
		"11 months ago": {2025, 12, 0}, "last year": {2025, 0, 0}, "letztes Jahr": {2025, 0, 0},
		"l'été de l'année dernière": {2025, 0, 0}, "il y a deux ans": {2024, 0, 0}, "el mes pasado": {2026, 10, 0},
		"last Wednesday": {2026, 11, 18}, "on Wednesday": {2026, 11, 25}, "last Thursday": {2026, 11, 19},
		"am Montag": {2026, 11, 23}, "next Friday": {2026, 11, 27},
	} {
		if dates, spans, _ := Relative(query, now); !slices.Equal(dates, []Date{want}) || len(spans) > 0 {
			t.Errorf("%q means %v %v, want %v", query, dates, spans, want)
		}
	}
	for query, from := range map[string]uint16{"last week": monday - 7, "this week": monday, "next week": monday + 7,
		"two weeks ago": monday - 14, "letzte Woche": monday - 7, "la semaine dernière": monday - 7} {
		if dates, spans, _ := Relative(query, now); !slices.Equal(spans, []Span{{from, from + 6}}) || len(dates) > 0 {
			t.Errorf("%q means %v %v, want from %d", query, dates, spans, from)
		}
	}
	for _, query := range []string{"good morning", "am Morgen", "a week of holidays", "Monday meetings", "ten days", ""} {
		if dates, spans, _ := Relative(query, now); len(dates)+len(spans) > 0 {
			t.Errorf("%q means %v %v", query, dates, spans)
		}
	}
}

func TestDateTerms(t *testing.T) {
	for text, want := range map[string][]string{
		"7.5.2023": {"#2023-05-07", "#2023-05", "#05-07"}, "on May 7": {"#05-07"}, "in May 2023": {"#2023-05"},
		"13/05/2023": {"#2023-05-13", "#2023-05", "#05-13"}, "version 1.2.3": nil, "5/7/2023": {"#2023-07-05", "#2023-07",
			"#07-05", "#2023-05-07", "#2023-05", "#05-07"}, "1.5.23": {"#2023-05-01", "#2023-05", "#05-01"},
		"99.99.2023 and 3-4-05": nil,
	} {
		if got := DateTerms(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
