package rank

import (
	"slices"
	"strings"
)

// SpeakerMark begins the terms of the words of a speaker's name. No word begins with it.
const SpeakerMark = "@"

// StopMark begins the terms of stop words, which count only in queries that have no other words. No word begins with
// it.
const StopMark = "~"

func isStop(term string) bool { return strings.HasPrefix(term, StopMark) }

// BackwardsMark begins the terms of long words spelled backwards, by which compounds are found by their ending.
const BackwardsMark = "<"

// Spelled returns a term in readable form.
func Spelled(term string) string {
	back, found := strings.CutPrefix(term, BackwardsMark)
	if !found {
		return term
	}
	letters := []rune(back)
	slices.Reverse(letters)
	return string(letters)
}

// maxSpeakerWords limits the words of a name that find the messages of its bearer.
const maxSpeakerWords = 4

// SpeakerTerms returns the terms of the words of a speaker's name. All texts of the speaker have them, so that they are
// found by the name.
func SpeakerTerms(name string) (terms []string) {
	words := wordsOf(name)
	slices.Sort(words)
	words = slices.Compact(words)
	for _, w := range words[:min(len(words), maxSpeakerWords)] {
		terms = append(terms, SpeakerMark+w)
	}
	return terms
}

// SpeakerTerm returns the term of speakers whose name contains a word of a query.
func SpeakerTerm(word string) string { return SpeakerMark + strings.TrimSuffix(word, "'s") }

// IsSpeaker reports whether a term stands for a speaker's name.
func IsSpeaker(term string) bool { return strings.HasPrefix(term, SpeakerMark) }

// Speakers is a set of speakers, by their hashes in postings.
type Speakers uint64

// Add adds the speaker of a posting's document.
func (s *Speakers) Add(p *Posting) {
	if n := p.Attrs.speaker(); n > 0 {
		*s |= 1 << n
	}
}

func (s Speakers) has(a Attrs) bool { return a.speaker() > 0 && s>>a.speaker()&1 == 1 }

// speakerOf hashes a name to six bits, which are 0 only for no name.
func speakerOf(name string) byte {
	words := strings.Join(wordsOf(name), " ")
	if words == "" {
		return 0
	}
	return hash8(words)%63 + 1
}
