package rank

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

// Date is a date as far as a query names it. Parts that are 0 are left open.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// months are the names of the months in the languages that most stemmed texts are in, with English and German
// abbreviations.
var months = [12][]string{
	{"january", "januar", "janvier", "enero", "gennaio", "janeiro", "januari", "jan"},
	{"february", "februar", "février", "febrero", "febbraio", "fevereiro", "februari", "feb"},
	{"march", "märz", "mars", "marzo", "março", "maart"},
	{"april", "avril", "abril", "aprile", "apr"},
	{"may", "mai", "mayo", "maggio", "maio", "mei"},
	{"june", "juni", "juin", "junio", "giugno", "junho", "jun"},
	{"july", "juli", "juillet", "julio", "luglio", "julho", "jul"},
	{"august", "août", "agosto", "augustus", "augusti", "aug"},
	{"september", "septembre", "septiembre", "settembre", "setembro", "sep", "sept"},
	{"october", "oktober", "octobre", "octubre", "ottobre", "outubro", "oct", "okt"},
	{"november", "novembre", "noviembre", "novembro", "nov"},
	{"december", "dezember", "décembre", "diciembre", "dicembre", "dezembro", "desember", "dec", "dez"},
}

// ambiguous are names of months that are also other words. Such a word counts as a month only with a day, with a year
// or after one of the words that introduce a month.
var ambiguous = []string{"may", "march", "mars", "mai", "mei", "jan", "august", "april", "june", "sep", "jun", "dec"}

// introductions are words that introduce a month.
var introductions = []string{"in", "of", "last", "this", "next", "since", "until", "by", "during", "early", "late",
	"mid", "before", "after"}

// links are words that may appear between a day and its month, and between a month and its year.
var links = []string{"of", "de", "del", "di"}

// Dates returns the dates that a text names: 2023-05-07, 2023-05, 2023, May 2023, 7 May, May 7th 2023, 7th of May, 7 de
// mayo de 2023, 7.5.2023, 5/7/2023, 2023年5月7日.
func Dates(query string) []Date {
	words := strings.FieldsFunc(strings.ToLower(query), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	out := numericDates(query)
	used := make([]bool, len(words)+3)
	word := func(i int) string {
		if i < 0 || i >= len(words) || used[i] {
			return ""
		}
		return words[i]
	}
	// First a year with a month in digits, and perhaps a day: 2023-05, 2023-05-07.
	for i := range words {
		year, month := yearNumber(word(i)), number(word(i+1), 2)
		if year == 0 || month < 1 || month > 12 || len(word(i+1)) != 2 {
			continue
		}
		d := Date{Year: year, Month: time.Month(month)}
		used[i], used[i+1] = true, true
		if day := number(word(i+2), 2); day >= 1 && day <= 31 && len(word(i+2)) == 2 {
			d.Day, used[i+2] = day, true
		}
		out = append(out, d)
	}
	// Then names of months with a day before or after them, and perhaps a year.
	for i := range words {
		month := monthOf(word(i))
		if month == 0 {
			continue
		}
		d := Date{Month: month}
		before, behind := i-1, i+1
		if slices.Contains(links, word(before)) && dayNumber(word(before-1)) > 0 {
			before--
		}
		if day := dayNumber(word(before)); day > 0 {
			d.Day, used[before] = day, true
		} else if day := dayNumber(word(behind)); day > 0 {
			d.Day, used[behind] = day, true
			behind++
		}
		if slices.Contains(links, word(behind)) && yearNumber(word(behind+1)) != 0 {
			behind++
		}
		if d.Year = yearNumber(word(behind)); d.Year != 0 {
			used[behind] = true
		}
		introduced := i > 0 && slices.Contains(introductions, words[i-1])
		if d.Day == 0 && d.Year == 0 && !introduced && slices.Contains(ambiguous, words[i]) {
			continue
		}
		used[i] = true
		out = append(out, d)
	}
	// Finally the years that are left.
	for i := range words {
		year := yearNumber(word(i))
		if year != 0 && !slices.ContainsFunc(out, func(d Date) bool { return d.Year == year && d.Day != 0 }) {
			out = append(out, Date{Year: year})
		}
	}
	return out
}

// monthNames maps names to months.
var monthNames = func() map[string]time.Month {
	out := map[string]time.Month{}
	for i, names := range months {
		for _, name := range names {
			out[name] = time.Month(i + 1)
		}
	}
	return out
}()

func monthOf(word string) time.Month { return monthNames[word] }

// IsMonth reports whether a word is the name of a month.
func IsMonth(word string) bool { return monthOf(word) != 0 }

// yearNumber parses a year from 1900 to 2199. It returns 0 if the word is not one.
func yearNumber(word string) int {
	if year := number(word, 4); year >= 1900 && year <= 2199 {
		return year
	}
	return 0
}

// number parses a number of at most so many digits. It returns 0 if the word is not one.
func number(word string, digits int) int {
	if word == "" || len(word) > digits {
		return 0
	}
	n := 0
	for _, r := range word {
		if r < '0' || r > '9' {
			return 0
		}
		n = 10*n + int(r-'0')
	}
	return n
}

// dayNumber parses 7, 07 and 7th. It returns 0 if the word is not a day.
func dayNumber(word string) int {
	for _, suffix := range []string{"st", "nd", "rd", "th"} {
		word = strings.TrimSuffix(word, suffix)
	}
	if n := number(word, 2); n <= 31 {
		return n
	}
	return 0
}

// bestMatch is the largest result of matchOf.
const bestMatch = 2

// matchOf returns how well a day, counted since 1970, matches the best of some dates. A matching month counts 1, its
// year and its day another half each, and a year without a month a half.
func matchOf(dates []Date, day uint16) float64 {
	if len(dates) == 0 { // the usual case, checked for every candidate
		return 0
	}
	y, m, d := time.Unix(int64(day)*86400, 0).UTC().Date()
	best := 0.0
	for _, date := range dates {
		match := 0.0
		switch {
		case date.Year != 0 && date.Year != y, date.Month != 0 && date.Month != m:
			continue
		case date.Month == 0:
			match = .5
		default:
			match = 1
			if date.Year != 0 {
				match += .5
			}
			if date.Day == d {
				match += .5
			}
		}
		best = max(best, match)
	}
	return best
}
