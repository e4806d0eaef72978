package rank

import (
	"slices"
	"strings"
)

// SpeakerMark begins the terms of the words of a speaker's name. No word begins with it.
const SpeakerMark = "@"

// StopMark begins the terms of stop words, which count only for queries of nothing else. No word begins with it.
const StopMark = "~"

func isStop(term string) bool { return strings.HasPrefix(term, StopMark) }

// BackwardsMark begins the terms of long words spelled backwards, by which compounds are found by their end.
const BackwardsMark = "<"

// Spelled is a term as it is read.
func Spelled(term string) string {
	back, found := strings.CutPrefix(term, BackwardsMark)
	if !found {
		return term
	}
	letters := []rune(back)
	slices.Reverse(letters)
	return string(letters)
}

// maxSpeakerWords bounds the words of a name that find what its bearer said.
const maxSpeakerWords = 4

// SpeakerTerms are the terms of the words of a speaker's name. Whatever the speaker says has them, so that it is found by
// the name.
func SpeakerTerms(name string) (terms []string) {
	words := wordsOf(name)
	slices.Sort(words)
	words = slices.Compact(words)
	for _, w := range words[:min(len(words), maxSpeakerWords)] {
		terms = append(terms, SpeakerMark+w)
	}
	return terms
}

// SpeakerTerm is the term of those whose name holds a word of a query.
func SpeakerTerm(word string) string { return SpeakerMark + strings.TrimSuffix(word, "'s") }

// IsSpeaker tells whether a term stands for a speaker's name.
func IsSpeaker(term string) bool { return strings.HasPrefix(term, SpeakerMark) }

// Speakers is a set of speakers, by the hashes that postings have of them.
type Speakers uint64

// Add takes up the speaker of a document with a posting.
func (s *Speakers) Add(p *Posting) {
	if n := p.Attrs.speaker(); n > 0 {
		*s |= 1 << n
	}
}

func (s Speakers) has(a Attrs) bool { return a.speaker() > 0 && s>>a.speaker()&1 == 1 }

// speakerOf hashes a name to six bits, which are 0 for no name.
func speakerOf(name string) byte {
	words := strings.Join(wordsOf(name), " ")
	if words == "" {
		return 0
	}
	return hash8(words)%63 + 1
}
