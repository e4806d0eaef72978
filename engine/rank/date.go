package rank

import (
	"strings"
	"time"
	"unicode"
)

// Date is a date that a query names, as far as it does: parts that are 0 are left open.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// months are their names in the languages that most stemmed texts are in; abbreviations are their first three letters
// in English and German.
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

// mentioned are the words before a month by which one that is also another word ("may", "march") is told to be meant.
var mentioned = []string{"in", "of", "last", "this", "next", "since", "until", "by", "during", "early", "late", "mid", "before", "after"}

// Dates reads the dates that a query names: 2023-05-07, 2023-05, 2023, May 2023, 7 May, May 7th 2023.
func Dates(query string) []Date {
	words := strings.FieldsFunc(strings.ToLower(query), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	var out []Date
	used := make([]bool, len(words)+3)
	word := func(i int) string {
		if i < 0 || i >= len(words) || used[i] {
			return ""
		}
		return words[i]
	}
	for i := range words {
		year := number(word(i), 4)
		if year < 1900 || year > 2199 {
			continue
		}
		// A year and a month with digits: 2023-05, 2023-05-07. Names of months come below.
		if month := number(word(i+1), 2); month >= 1 && month <= 12 && len(word(i+1)) == 2 {
			d := Date{Year: year, Month: time.Month(month)}
			used[i], used[i+1] = true, true
			if day := number(word(i+2), 2); day >= 1 && day <= 31 && len(word(i+2)) == 2 {
				d.Day, used[i+2] = day, true
			}
			out = append(out, d)
		}
	}
	for i := range words {
		month := monthOf(word(i))
		if month == 0 {
			continue
		}
		d := Date{Month: month}
		before, behind := i-1, i+1
		if day := dayNumber(word(before)); day > 0 {
			d.Day, used[before] = day, true
		} else if day := dayNumber(word(behind)); day > 0 {
			d.Day, used[behind] = day, true
			behind++
		}
		if year := number(word(behind), 4); year >= 1900 && year <= 2199 {
			d.Year, used[behind] = year, true
		}
		if ambiguous(words[i]) && d.Day == 0 && d.Year == 0 && !introduced(words, i) {
			continue
		}
		used[i] = true
		out = append(out, d)
	}
	for i := range words {
		if year := number(word(i), 4); year >= 1900 && year <= 2199 {
			out = append(out, Date{Year: year})
		}
	}
	return out
}

func monthOf(word string) time.Month {
	if len(word) < 3 {
		return 0
	}
	for i, names := range months {
		for _, name := range names {
			if word == name {
				return time.Month(i + 1)
			}
		}
	}
	return 0
}

// ambiguous tells whether a month's name is also another word.
func ambiguous(word string) bool {
	switch word {
	case "may", "march", "mars", "mai", "mei", "jan", "august", "april", "june", "sep", "jun", "dec":
		return true
	}
	return false
}

func introduced(words []string, i int) bool {
	for _, w := range mentioned {
		if i > 0 && words[i-1] == w {
			return true
		}
	}
	return false
}

// number reads a number of at most so many digits; 0: it is none.
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

// dayNumber reads 7, 07 and 7th.
func dayNumber(word string) int {
	for _, suffix := range []string{"st", "nd", "rd", "th"} {
		word = strings.TrimSuffix(word, suffix)
	}
	if n := number(word, 2); n <= 31 {
		return n
	}
	return 0
}

// matchOf tells how well a day matches the best of some dates: a month is 1, its year and its day half more each, a year
// alone is half.
func matchOf(dates []Date, day uint16) float64 {
	if len(dates) == 0 {
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
