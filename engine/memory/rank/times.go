package rank

import (
	"slices"
	"strings"
	"time"
)

// Times are the days that a query names.
type Times struct {
	Dates []Date
	Spans []Span
}

// TimesOf returns the days that a query names, and the remaining words: without those that name the days, and without
// those that only ask what happened.
func TimesOf(query string, now time.Time) (t Times, rest string) {
	dates, spans, counting := Relative(query, now)
	t = Times{append(Dates(query), dates...), spans}
	var left []string
	for _, w := range wordsOf(query) {
		w = strings.TrimPrefix(w, "l'")
		if !namesDay(w) && !asksWhatHappened[w] && !slices.Contains(counting, w) {
			left = append(left, w)
		}
	}
	return t, strings.Join(left, " ")
}

// asksWhatHappened are words of questions about all that happened at a time.
var asksWhatHappened = wordSet(`happen happens happened happening go goes going went on do does did doing done talk talks talked
	talking discuss discussed discussing say said tell told mention mentioned speak spoke event events thing things anything
	everything something
	passieren passiert passierte machen mache machst gemacht machte machten besprechen besprochen besprachen los war
	faire fait faites fais parler parlé parlons passé passer
	pasar pasó pasado hacer hice hizo hicimos hablar hablé hablamos`)

// namesDay reports whether a word is one of those that name days.
func namesDay(w string) bool {
	_, day := relativeDays[w]
	_, weekday := weekdays[w]
	_, unit := units[w]
	_, shift := shifts[w]
	_, behind := shiftsBehind[w]
	return day || weekday || unit || shift || behind || monthOf(w) != 0 || dayNumber(w) > 0 || yearNumber(w) != 0 ||
		w == "ago" || w == "vor" || w == "hace" || isNumericDate(w)
}

// isNumericDate reports whether a word consists of digits, like the parts of a date in digits.
func isNumericDate(w string) bool {
	return strings.IndexFunc(w, func(r rune) bool { return r < '0' || r > '9' }) < 0 && number(w, 4) >= 0 && len(w) <= 4
}

// Days returns the named days as spans that do not overlap, latest first. A day or a month without a year is the latest
// one that is not after now.
func (t Times) Days(now time.Time) (out []Span) {
	for _, d := range t.Dates {
		if s, ok := d.span(now.UTC()); ok {
			out = append(out, s)
		}
	}
	out = append(out, t.Spans...)
	slices.SortFunc(out, func(a, b Span) int { return int(b.To) - int(a.To) })
	merged := out[:0]
	for _, s := range out {
		if n := len(merged); n > 0 && s.To >= merged[n-1].From {
			merged[n-1].From = min(merged[n-1].From, s.From)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

// span returns the days that a date means.
func (d Date) span(now time.Time) (Span, bool) {
	from := func(year int) time.Time { return time.Date(year, max(d.Month, 1), max(d.Day, 1), 0, 0, 0, 0, time.UTC) }
	begin := from(d.Year)
	if d.Year == 0 {
		if d.Month == 0 {
			return Span{}, false
		}
		if begin = from(now.Year()); begin.After(now) {
			begin = from(now.Year() - 1)
		}
	}
	end := begin
	switch {
	case d.Month == 0:
		end = begin.AddDate(1, 0, -1)
	case d.Day == 0:
		end = begin.AddDate(0, 1, -1)
	}
	return Span{dayOf(begin), dayOf(end)}, true
}

// Bounds returns the first and the last moment of a span.
func (s Span) Bounds() (first, last time.Time) {
	first = time.Unix(int64(s.From)*86400, 0).UTC()
	return first, time.Unix((int64(s.To)+1)*86400, 0).UTC().Add(-time.Nanosecond)
}

// Share returns the part Date of the score of something at a time.
func (t Times) Share(at time.Time) float64 {
	r := Ranking{Request: Request{Dates: t.Dates, Spans: t.Spans, Weights: Default}}
	return r.date(&Candidate{known: true, day: dayOf(at)})
}
