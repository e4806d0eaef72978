package snowball

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

// operators are what a query may say of words: "a phrase", -without, begins*.
var operators = regexp.MustCompile(`["“„]([^"“”„]+)["”“]|(?:^|\s)-([\p{L}\p{N}]\S*)|([\p{L}\p{N}]{2,})\*`)

// Search reads a query as the index looks for it: its words, each with all forms that it may have been indexed in, and,
// where operators count, what it says of words.
func (a *Analyser) Search(query string, languages []string, withOperators bool) (out rank.Search) {
	var without, beginnings []string
	plainText := query
	if withOperators {
		plainText = operators.ReplaceAllStringFunc(query, func(found string) string {
			parts := operators.FindStringSubmatch(found)
			switch {
			case parts[1] != "":
				if len(split(fold(parts[1]))) > 1 {
					out.Phrases = append(out.Phrases, parts[1])
				}
				return " " + parts[1] + " "
			case parts[2] != "":
				without = append(without, parts[2])
				return " "
			}
			beginnings = append(beginnings, parts[3])
			return " "
		})
		if len(without) > 0 && strings.TrimSpace(plainText) == "" && len(beginnings) == 0 {
			plainText, without = query, nil // nothing would be left to look for
		}
	}
	known := map[string]bool{}
	add := func(words ...rank.Word) {
		for _, w := range words {
			if len(w.Terms) > 0 && !known[w.Terms[0]] {
				known[w.Terms[0]] = true
				out.Words = append(out.Words, w)
			}
		}
	}
	add(a.Query(plainText, languages)...)
	for _, w := range append(identifierWords(plainText), spacedIdentifiers(spacedAsked, plainText)...) {
		add(a.Query(w, languages)...)
	}
	for _, w := range beginnings {
		w = fold(w)
		for _, q := range a.Query(w, languages) {
			q.Text, q.Begins = w+"*", []rank.Beginning{{Term: plain(w)}}
			q.Terms = append([]string{plain(w)}, q.Terms...)
			add(q)
		}
	}
	for i := range out.Words {
		complete(&out.Words[i], a.members(out.Words[i].Text, languages))
	}
	for _, d := range rank.Dates(plainText) {
		if term := d.Term(); term != "" {
			add(rank.Word{Text: strings.TrimPrefix(term, rank.DateMark), Terms: []string{term}})
		}
	}
	for _, w := range without {
		out.Without = append(out.Without, a.Query(w, languages)...)
	}
	return out
}

// members gives the stems of a word in the languages that write compounds, without those that begin with another.
func (a *Analyser) members(text string, languages []string) (out []string) {
	for _, l := range a.latin {
		if !slices.Contains(languages, l.name) || !slices.Contains(compounding, l.name) ||
			a.stops[text].has(l) {
			continue
		}
		if stem := a.stems.term(l, text); utf8.RuneCountInString(stem) >= memberLength {
			out = append(out, stem)
		}
	}
	slices.Sort(out)
	return slices.CompactFunc(out, func(a, b string) bool { return strings.HasPrefix(b, a) })
}

// complete says which terms beside its own may stand for a word: compounds that begin or end with it, pairs that begin
// with a single character, and words with a typing error more or less.
func complete(w *rank.Word, members []string) {
	letters := utf8.RuneCountInString(w.Text)
	first, _ := utf8.DecodeRuneInString(w.Text)
	switch {
	case len(w.Begins) > 0:
	case classOf(first) == unspaced:
		if letters == 1 {
			w.Begins = []rank.Beginning{{Term: w.Text}}
		}
	case strings.IndexFunc(w.Text, func(r rune) bool { return !unicode.IsLetter(r) }) < 0:
		switch {
		case letters >= 8:
			w.Edits = 2
		case letters >= 4:
			w.Edits = 1
		}
		for _, stem := range members {
			w.Begins = append(w.Begins, rank.Beginning{Term: stem, More: memberLength},
				rank.Beginning{Term: rank.BackwardsMark + reverse(stem), More: memberLength})
		}
	}
}

// Holds tells whether a text holds the words of a phrase, one behind the other.
func (a *Analyser) Holds(text, phrase string) bool {
	words, wanted := split(fold(text)), split(fold(phrase))
	for i := range words {
		if len(words)-i < len(wanted) {
			return false
		}
		if slices.EqualFunc(words[i:i+len(wanted)], wanted, func(a, b word) bool { return plain(a.text) == plain(b.text) }) {
			return true
		}
	}
	return false
}
