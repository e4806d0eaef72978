package rank

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DateMark begins the terms of dates, which are the same for all spellings of a date. No word begins with it.
const DateMark = "#"

// Term returns the term of a date that has a month and another part, or "" for any other.
func (d Date) Term() string {
	switch {
	case d.Month == 0 || d.Year == 0 && d.Day == 0:
		return ""
	case d.Day == 0:
		return fmt.Sprintf("%s%04d-%02d", DateMark, d.Year, d.Month)
	case d.Year == 0:
		return fmt.Sprintf("%s%02d-%02d", DateMark, d.Month, d.Day)
	}
	return fmt.Sprintf("%s%04d-%02d-%02d", DateMark, d.Year, d.Month, d.Day)
}

// DateTerms returns the terms of the dates that a text names. A date is found by its day, by its month, and by its day
// in any year.
func DateTerms(text string) (terms []string) {
	for _, d := range Dates(text) {
		for _, part := range []Date{d, {Year: d.Year, Month: d.Month}, {Month: d.Month, Day: d.Day}} {
			if term := part.Term(); term != "" && !slices.Contains(terms, term) {
				terms = append(terms, term)
			}
		}
	}
	return terms
}

// numericDate is a date in digits: 7.5.2023, 05/07/2023, 7-5-23.
var numericDate = regexp.MustCompile(`\b(\d{1,2})([./-])(\d{1,2})([./-])(\d{4}|\d{2})\b`)

// markedDate is a date with marked year, month and day, as in Chinese and Japanese: 2023年5月7日.
var markedDate = regexp.MustCompile(`(\d{4})年(\d{1,2})月(?:(\d{1,2})日)?`)

// numericDates returns the dates in digits whose year comes last, and those with marked parts. If slashes leave open
// which part is the month, it returns both.
func numericDates(text string) (out []Date) {
	if strings.Contains(text, "年") { // Regular expressions are slow, so they run only if they can match.
		for _, m := range markedDate.FindAllStringSubmatch(text, -1) {
			d := Date{Year: yearNumber(m[1]), Month: time.Month(number(m[2], 2)), Day: number(m[3], 2)}
			if d.Year != 0 && validDay(int(d.Month), max(d.Day, 1)) {
				out = append(out, d)
			}
		}
	}
	for run := range numericRuns(text) {
		out = append(out, datesOfRun(run)...)
	}
	return out
}

// shortestNumeric is the length of the shortest date in digits: 7.5.23.
const shortestNumeric = 6

// numericRuns returns the runs of digits and separators that may contain a date in digits, each with the adjacent
// bytes, which show whether a word continues there.
func numericRuns(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, separators := 0, 0
		for i := 0; i <= len(text); i++ {
			if i < len(text) {
				switch c := text[i]; {
				case '0' <= c && c <= '9':
					continue
				case c == '.', c == '/', c == '-':
					separators++
					continue
				}
			}
			if separators >= 2 && i-from >= shortestNumeric && !yield(text[max(from-1, 0):min(i+1, len(text))]) {
				return
			}
			from, separators = i+1, 0
		}
	}
}

func datesOfRun(run string) (out []Date) {
	for _, m := range numericDate.FindAllStringSubmatch(run, -1) {
		a, _ := strconv.Atoi(m[1])
		b, _ := strconv.Atoi(m[3])
		year, _ := strconv.Atoi(m[5])
		if len(m[5]) == 2 {
			if m[2] == "-" {
				continue // it occurs too often to be a date
			}
			year += 2000
		}
		if m[2] != m[4] || year < 1900 || year > 2199 {
			continue
		}
		if validDay(b, a) {
			out = append(out, Date{year, time.Month(b), a})
		}
		if m[2] == "/" && a != b && validDay(a, b) {
			out = append(out, Date{year, time.Month(a), b})
		}
	}
	return out
}

func validDay(month, day int) bool { return month >= 1 && month <= 12 && day >= 1 && day <= 31 }
