package index

import (
	"math"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

// Similar is a term whose meaning is like that of a word.
type Similar struct {
	Term   string
	Weight float64 // the weight of an occurrence of the term, relative to one of the word
}

// Limits of similar words. Long texts hold some word that is similar to anything, so similar words count in short ones
// only; and a word in many texts says little about what they mean.
const (
	maxSimilar       = 8  // of a word
	similarLooked    = 24 // terms of a word that are looked up, of which the space may hold few
	similarWords     = 16 // words of a query that similar ones are looked for
	similarLength    = 80 // terms of a text in which similar words count
	similarTimes     = 2  // occurrences that count
	similarDocuments = 10 // similar words are in at most one in this many documents
	similarLetters   = 3
)

// addSimilar adds to the words of a query the postings of similar terms, in short documents that do not contain the
// word. Words that are quoted, parts of dates, names of speakers or misspelled have none.
func (s *search) addSimilar(q *rank.Request) error {
	if s.Near == nil || s.Near.Similar == nil || s.Near.Differs {
		return nil
	}
	of, terms := s.similarOf(q)
	if len(terms) == 0 {
		return nil
	}
	names := make([]string, len(terms))
	for i, t := range terms {
		names[i] = t.Term
	}
	read, err := s.readBlocks(names)
	if err != nil {
		return err
	}
	most := int(max(q.Corpus.Documents/similarDocuments, 1))
	for i, blocks := range read {
		w := &q.Words[of[i]]
		if len(w.Similar) == maxSimilar {
			continue
		}
		p, err := s.gather(rank.Word{Terms: []string{terms[i].Term}}, []termBlocks{blocks})
		if err != nil {
			return err
		}
		if list := p.All(); len(list) > 0 && len(list) <= most {
			w.Similar = append(w.Similar, rank.Spelled(terms[i].Term))
			w.Soft = softened(w.Soft, list, terms[i].Weight)
		}
	}
	for i := range q.Words {
		w := &q.Words[i]
		w.Soft = slices.DeleteFunc(w.Soft, func(p rank.Posting) bool {
			_, stored := slices.BinarySearchFunc(w.List, p.Place, rank.Posting.Compare)
			_, fresh := slices.BinarySearchFunc(w.Fresh, p.Place, rank.Posting.Compare)
			return stored || fresh
		})
	}
	return nil
}

// similarOf returns terms that are similar to words of a query, which the space may hold or not, and the index of the
// word of each.
func (s *search) similarOf(q *rank.Request) (of []int, terms []Similar) {
	words := 0
	for i := range q.Words {
		w := &q.Words[i]
		if w.Typo || !s.mayBeSimilar(w) {
			continue
		}
		if words++; words > similarWords {
			break
		}
		n := 0
		for _, t := range s.Near.Similar(w.Word) {
			if slices.Contains(w.Terms, t.Term) {
				continue
			}
			if n++; n > similarLooked {
				break
			}
			of, terms = append(of, i), append(terms, t)
		}
	}
	return of, terms
}

// mayBeSimilar reports whether words similar to a word of the query are looked for.
func (s *search) mayBeSimilar(w *rank.Postings) bool {
	if len([]rune(w.Word)) < similarLetters || rank.IsMonth(w.Word) || strings.ContainsAny(w.Word, "0123456789") {
		return false
	}
	for _, term := range w.Terms {
		if strings.HasPrefix(term, rank.StopMark) || term == rank.SpeakerTerm(w.Word) {
			return false
		}
	}
	return s.Plain || !quotes(s.Text, w.Word)
}

// quotes reports whether a query has a word between quotation marks.
func quotes(query, word string) bool {
	for i, part := range strings.Split(strings.ToLower(query), `"`) {
		if i%2 == 1 && slices.Contains(strings.Fields(part), word) {
			return true
		}
	}
	return false
}

// softened adds the short documents of a similar term to those of others. A document with several similar terms counts
// the one with the highest weight.
func softened(soft, list []rank.Posting, weight float64) []rank.Posting {
	out := make([]rank.Posting, 0, len(soft)+len(list))
	for _, p := range list {
		p.Count = uint32(math.Round(rank.SoftUnit * weight * float64(min(p.Count, similarTimes))))
		if p.Len <= similarLength && p.Count > 0 {
			out = append(out, p)
		}
	}
	out = append(out, soft...)
	slices.SortStableFunc(out, func(a, b rank.Posting) int {
		if c := a.Compare(b.Place); c != 0 {
			return c
		}
		return int(b.Count) - int(a.Count)
	})
	return slices.CompactFunc(out, func(a, b rank.Posting) bool { return a.Place == b.Place })
}
