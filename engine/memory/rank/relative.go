package rank

import (
	"strings"
	"time"
)

// Span is a range of days that a query means, counted since 1970, inclusive.
type Span struct{ From, To uint16 }

// weekMatch is the score of a week that the query means: more than a month, less than a day.
const weekMatch = 1.5

// units are the units of relative dates: days, weeks, months and years, in English, German, French and Spanish.
var units = map[string]byte{"day": 'd', "days": 'd', "tag": 'd', "tage": 'd', "tagen": 'd', "jour": 'd', "jours": 'd',
	"día": 'd', "días": 'd', "week": 'w', "weeks": 'w', "woche": 'w', "wochen": 'w', "semaine": 'w', "semaines": 'w',
	"semana": 'w', "semanas": 'w', "month": 'm', "months": 'm', "monat": 'm', "monate": 'm', "monaten": 'm',
	"mois": 'm', "mes": 'm', "meses": 'm', "year": 'y', "years": 'y', "jahr": 'y', "jahre": 'y', "jahren": 'y',
	"an": 'y', "ans": 'y', "année": 'y', "año": 'y', "años": 'y'}

// relativeDays are words that mean a day, with its distance from today in days.
var relativeDays = map[string]int{"yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1, "gestern": -1, "vorgestern": -2,
	"heute": 0, "morgen": 1, "übermorgen": 2, "aujourd'hui": 0, "demain": 1, "ayer": -1, "anteayer": -2,
	"hoy": 0, "mañana": 1}

// shifts are words before a unit, with their distance from now in units.
var shifts = map[string]int{"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1, "letzte": -1, "letzten": -1,
	"letzter": -1, "letztes": -1, "vorige": -1, "vorigen": -1, "diese": 0, "diesen": 0, "dieser": 0, "dieses": 0,
	"nächste": 1, "nächsten": 1, "nächstes": 1, "cette": 0, "ce": 0, "esta": 0, "este": 0}

// shiftsBehind are words after a unit, with their distance from now.
var shiftsBehind = map[string]int{"dernier": -1, "dernière": -1, "passé": -1, "passée": -1, "prochain": 1, "prochaine": 1,
	"pasado": -1, "pasada": -1, "próximo": 1, "próxima": 1}

// numbers are small numbers as words.
var numbers = map[string]int{"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
	"einem": 1, "einer": 1, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6, "sieben": 7, "un": 1, "une": 1,
	"deux": 2, "trois": 3, "quatre": 4, "una": 1, "dos": 2, "tres": 3, "cuatro": 4}

// weekdays are the names of the days of the week.
var weekdays = map[string]time.Weekday{"monday": 1, "tuesday": 2, "wednesday": 3, "thursday": 4, "friday": 5, "saturday": 6,
	"sunday": 0, "montag": 1, "dienstag": 2, "mittwoch": 3, "donnerstag": 4, "freitag": 5, "samstag": 6, "sonntag": 0,
	"lundi": 1, "mardi": 2, "mercredi": 3, "jeudi": 4, "vendredi": 5, "samedi": 6, "dimanche": 0, "lunes": 1, "martes": 2,
	"miércoles": 3, "jueves": 4, "viernes": 5, "sábado": 6, "domingo": 0}

// Relative returns the dates that a query names relative to now: yesterday, last Monday, three days ago, last week, vor
// zwei Monaten, il y a deux ans, el año pasado. It also returns the words of durations of days or longer, such as
// three, days and ago, which have no other meaning in the query.
func Relative(query string, now time.Time) (dates []Date, spans []Span, counting []string) {
	words := wordsOf(query)
	word := func(i int) string {
		if i < 0 || i >= len(words) {
			return ""
		}
		return words[i]
	}
	for i, w := range words {
		words[i] = strings.TrimPrefix(w, "l'")
	}
	now = now.UTC()
	day := func(t time.Time) { dates = append(dates, Date{t.Year(), t.Month(), t.Day()}) }
	move := func(unit byte, by int) {
		switch unit {
		case 'd':
			day(now.AddDate(0, 0, by))
		case 'w':
			monday := now.AddDate(0, 0, 7*by-(int(now.Weekday())+6)%7)
			spans = append(spans, Span{dayOf(monday), dayOf(monday.AddDate(0, 0, 6))})
		case 'm':
			t := time.Date(now.Year(), now.Month()+time.Month(by), 1, 0, 0, 0, 0, time.UTC)
			dates = append(dates, Date{Year: t.Year(), Month: t.Month()})
		case 'y':
			dates = append(dates, Date{Year: now.Year() + by})
		}
	}
	for i, w := range words {
		if by, ok := relativeDays[w]; ok && !(w == "morgen" && shiftsMorning(word(i-1))) {
			day(now.AddDate(0, 0, by))
			continue
		}
		if d, ok := weekdays[w]; ok {
			if by, shifted := shifts[word(i-1)]; shifted || word(i-1) == "on" || word(i-1) == "am" {
				back := (int(now.Weekday()) - int(d) + 7) % 7 // the last such day, including today
				if back == 0 && by < 0 {
					back = 7
				}
				if by > 0 {
					back -= 7
				}
				day(now.AddDate(0, 0, -back))
			}
			continue
		}
		unit, ok := units[w]
		if !ok {
			continue
		}
		n, counted := numbers[word(i-1)]
		if digits := number(word(i-1), 3); digits > 0 {
			n, counted = digits, true
		}
		_, shifted := shifts[word(i-1)]
		switch {
		case counted && (word(i+1) == "ago" || word(i-2) == "vor" || word(i-2) == "hace" ||
			word(i-2) == "a" && word(i-3) == "y"):
			move(unit, -n)
			counting = append(counting, word(i-1), w)
			if word(i+1) == "ago" {
				counting = append(counting, "ago")
			}
		case shifted:
			move(unit, shifts[word(i-1)])
		default:
			if by, behind := shiftsBehind[word(i+1)]; behind {
				move(unit, by)
			}
		}
	}
	return dates, spans, counting
}

// shiftsMorning reports whether a German "morgen" after a word means the morning.
func shiftsMorning(before string) bool {
	return before == "am" || before == "guten" || before == "jeden" || strings.HasPrefix(before, "heute")
}
