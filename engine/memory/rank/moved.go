package rank

import (
	"slices"
	"strings"
)

// Where somebody lives is said with other words once it has changed: "Anna lives in Berlin", "Anna moved to Lisbon". These are
// the stems of such verbs in English, German, French and Spanish, and the stop words of which one shows where to.
var (
	resides = []string{"live", "resid", "wohn", "wohnt", "leb", "lebt", "vit", "viv", "habit", "vivr", "reside"}
	moves   = []string{"move", "reloc", "emigr", "gezog", "umgezog", "zog", "zieht", "umgezogen", "ubersiedelt", "demenag", "mud",
		"traslad"}
	whereTo = []string{StopMark + "to", StopMark + "nach", StopMark + "à", StopMark + "a"}
)

// passing are stems of words that only say when somebody moved.
var passing = []string{"last", "recent", "just", "now", "year", "month", "week", "summer", "winter", "spring", "autumn", "jahr",
	"monat", "woch", "sommer", "fruhjahr", "herbst", "mois", "sema", "seman", "mes", "ano"}

// term returns the first of some terms that the document has, or "".
func (d *Document) term(of []string) string {
	if i := slices.IndexFunc(of, func(term string) bool { return d.Count(term) > 0 }); i >= 0 {
		return of[i]
	}
	return ""
}

// sameStem reports whether a word of a query says where somebody lives, like the term of a text: "live" and "living" do.
func sameStem(word, term string) bool { return strings.HasPrefix(word, term[:min(len(term), 3)]) }

// movedFrom reports whether the document says that somebody has moved, and the older one where somebody lives, and returns the
// two verbs' terms. It must say no more than the older one, so that "Anna moved the meeting to Friday" is none.
func (d *Document) movedFrom(older *Document) (moved, lived string) {
	moved, lived = d.term(moves), older.term(resides)
	if moved == "" || lived == "" || d.term(whereTo) == "" {
		return "", ""
	}
	says := d.distinct()
	for _, t := range d.Terms {
		if slices.Contains(passing, t.Term) || len(t.Term) > 0 && t.Term[:1] == DateMark {
			says--
		}
	}
	if says > older.distinct() {
		return "", ""
	}
	return moved, lived
}
