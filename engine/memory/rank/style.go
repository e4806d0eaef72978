package rank

import (
	"hash/fnv"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is what ranking needs of a text besides its terms.
type Style struct {
	Asks  bool   // it ends with a question
	Timed bool   // it names a time: a date, a day of the week, how long ago
	Said  uint64 // a hash of its words, without case, articles and punctuation other than a question mark
}

// articles are words that do not change what a text says.
var articles = wordSet("the a an")

// StyleOf returns a text's style.
func StyleOf(text string) Style {
	s := Style{Asks: endsAsking(text)}
	h, words := fnv.New64a(), 0
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), endsWord) {
		s.Timed = s.Timed || namesTime(w)
		if !articles[w] {
			h.Write([]byte(w))
			h.Write([]byte{' '})
			words++
		}
	}
	if words == 0 {
		h.Write([]byte(text))
	}
	if s.Asks {
		h.Write([]byte{'?'})
	}
	s.Said = max(h.Sum64(), 1)
	return s
}

// endsAsking reports whether there is a question mark after the last letter or digit of a text.
func endsAsking(text string) bool {
	for len(text) > 0 {
		r, size := utf8.DecodeLastRuneInString(text)
		switch {
		case r == '?', r == '？', r == '؟', r == '\u037e': // the last one is Greek
			return true
		case unicode.IsLetter(r), unicode.IsDigit(r):
			return false
		}
		text = text[:len(text)-size]
	}
	return false
}

// timeWords are words that name a time or a duration in English, German, French, Spanish, Italian, Portuguese and
// Dutch, in addition to the names of months.
var timeWords = wordSet(`yesterday today tonight tomorrow ago week weeks weekend month months year years decade day days
	hour hours minute minutes monday tuesday wednesday thursday friday saturday sunday morning afternoon evening
	spring summer autumn winter birthday anniversary since until
	gestern heute morgen vorgestern übermorgen woche wochen wochenende monat monate monaten jahr jahre jahren tag tage
	tagen stunde stunden montag dienstag mittwoch donnerstag freitag samstag sonntag abend frühling sommer herbst seit
	hier aujourd'hui demain semaine semaines mois ans année années jour jours heure heures lundi mardi mercredi jeudi
	vendredi samedi dimanche matin soir printemps été automne hiver depuis
	ayer hoy mañana semana semanas meses año años día días hora horas lunes martes miércoles jueves viernes sábado
	domingo tarde noche primavera verano otoño invierno desde hace
	ieri oggi domani settimana settimane mese mesi anno anni giorno giorni ore lunedì martedì mercoledì giovedì
	venerdì sabato domenica mattina estate autunno inverno
	ontem hoje amanhã mês ano anos dia dias segunda-feira noite verão outono há
	gisteren vandaag week weken maand maanden jaar dagen uur maandag dinsdag woensdag donderdag vrijdag zaterdag zondag
	ochtend avond lente zomer herfst sinds geleden`)

func wordSet(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// endsWord reports whether a character is not part of a word. Emoji, currencies and the symbols in names such as C++
// are.
func endsWord(r rune) bool {
	if 'a' <= r && r <= 'z' { // the usual case
		return false
	}
	return !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.So, unicode.Sc) && !strings.ContainsRune("'+#%", r)
}

// wordsOf splits a text into words of letters and digits, in lower case.
func wordsOf(text string) []string { return strings.FieldsFunc(strings.ToLower(text), endsWord) }

// namesTime reports whether a word names a time.
func namesTime(word string) bool {
	return timeWords[word] || yearNumber(word) != 0 || monthOf(word) != 0 && !slices.Contains(ambiguous, word)
}

// asksWhen are beginnings of questions about a time, in the languages of timeWords.
var asksWhen = []string{"when", "how long", "what time", "what date", "what day", "what year", "what month", "which year",
	"which month", "which day", "wann", "wie lange", "seit wann", "um wie viel uhr", "quand", "combien de temps",
	"depuis quand", "cuándo", "cuando", "cuánto tiempo", "quando", "quanto tempo", "da quanto", "wanneer", "hoe lang",
	"hoelang", "sinds wanneer"}

// AsksWhen reports whether a query asks when something was, or how long it took.
func AsksWhen(query string) bool {
	words := " " + strings.Join(wordsOf(query), " ") + " "
	for _, ask := range asksWhen {
		if strings.Contains(words, " "+ask+" ") {
			return true
		}
	}
	return false
}
