package rank

import (
	"container/heap"
	"slices"
	"strings"
)

// Breadth says that a query asks for more than one passage of a conversation.
type Breadth uint8

// The kinds of breadth.
const (
	Narrow  Breadth = iota // a usual query
	Order                  // it asks in what order things came up
	Summary                // it asks for a summary
)

// String returns the name of a kind in responses, or "" for a usual query.
func (b Breadth) String() string { return [...]string{"", "order", "summary"}[b] }

// The weights of the scores of a broad query: besides the words of a text itself, they count the words around it and in
// the rest of its session, and add a bonus to messages of users. A hit lowers the scores of those near it in its
// session, and less with distance.
const (
	broadWords   = .1
	broadSession = .05
	spreadReach  = 3  // the largest distance at which a hit lowers scores
	spreadHits   = 50 // the number of hits that lower others
)

var broadUser = [...]float64{Order: .4, Summary: .15}
var broadPenalty = [...]float64{Order: .3, Summary: .1}

// orderCues and summaryCues are words and phrases that show that a query is broad. A trailing * matches any ending.
var (
	orderCues = strings.Split("in what order|in which order|the order in which|the order in|the order of|in order|"+
		"chronolog*|sequence of|in sequence|timeline|over time|"+
		"throughout our conv*|throughout our chat*|throughout our disc*|throughout our talk*|throughout our sess*|"+
		"across our conv*|across our chat*|across our disc*|across our talk*|across our sess*|"+
		"in welcher reihenfolge|der reihe nach|dans quel ordre|par ordre|en qué orden|en que orden|cronológic*", "|")
	summaryCues = strings.Split("summar*|overview|recap|recapitulate|everything we|progressed|progression|evol*|developed|"+
		"zusammenfassung|zusammenfassen|zusammengefasst|fasse zusammen|überblick|verlauf|résum*|aperçu|évolu*|resumen|resúmenes|resumir|resúmeme|"+
		"panorama general", "|")
)

// notCues are phrases that contain a cue but mean something else.
var notCues = strings.Split("in order to|in order that|in order for|out of order|in order please|the order of the day|"+
	"in working order|my timeline|your timeline", "|")

// BreadthOf determines whether a query asks for a summary or an order.
func BreadthOf(query string) Breadth {
	words := " " + strings.Join(wordsOf(query), " ") + " "
	if contains(words, summaryCues) || separable(words, "fasse", "zusammen") || separable(words, "fass", "zusammen") {
		return Summary
	}
	for _, other := range notCues {
		words = strings.ReplaceAll(words, " "+other+" ", " ")
	}
	if contains(words, orderCues) {
		return Order
	}
	return Narrow
}

// contains reports whether text, which begins and ends with a space, contains one of some cues as whole words.
func contains(text string, cues []string) bool {
	return slices.ContainsFunc(cues, func(cue string) bool {
		if stem, open := strings.CutSuffix(cue, "*"); open {
			return strings.Contains(text, " "+stem)
		}
		return strings.Contains(text, " "+cue+" ")
	})
}

// separable reports whether text contains a verb and, somewhere after it, its separable prefix.
func separable(text, verb, prefix string) bool {
	_, behind, found := strings.Cut(text, " "+verb+" ")
	return found && strings.Contains(" "+behind, " "+prefix+" ")
}

// broadScaffold are words of broad queries that describe the form of the answer.
var broadScaffold = wordSet(`mention mentioned only order list brought bring different aspects throughout conversation
	conversations item items one two three four five six seven eight nine ten summary summarize summarise comprehensive
	clear detailed overview recap discuss discussed talk talked told tell said say ask asked various chronological
	sequence walk give show provide please help previously earlier past covered everything including progressed developed
	evolved evolution time way ways kind kinds type types many much thing things does did`)

// WithoutScaffold removes the words of a broad query that describe the form of the answer, unless nothing would be
// left.
func WithoutScaffold(words []Word) []Word {
	left := slices.DeleteFunc(slices.Clone(words), func(w Word) bool { return broadScaffold[w.Text] })
	if len(left) == 0 {
		return words
	}
	return left
}

// broad reports whether a candidate is scored for a broad query. Only documents of sessions are.
func (r *Ranking) broad(c *Candidate) bool { return r.Breadth != Narrow && c.Stream != 0 }

func (r *Ranking) aboutWords(words float64) float64 { return broadWords * min(words, 1) }

func (r *Ranking) aboutSession(c *Candidate) float64 {
	return r.sessionShare(c) * broadSession
}

// user returns the bonus of a user's message in a broad query, if it contains words of the query itself.
func (r *Ranking) user(c *Candidate, own float64) float64 {
	if own > 0 && !c.attrs.byAssistant() {
		return broadUser[r.Breadth]
	}
	return 0
}

// spread lowers the scores of candidates near better ones of the same session, so that the hits of a broad query are
// spread over the conversation.
func (r *Ranking) spread() {
	if r.Breadth == Narrow {
		return
	}
	taken := make([]bool, len(r.heap))
	near := map[Place]int{}
	for i := range r.heap {
		near[r.heap[i].Place] = i
	}
	for range spreadHits {
		best := -1
		for i := range r.heap {
			if !taken[i] && r.heap[i].own >= 0 && (best < 0 || r.heap[i].before(&r.heap[best])) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		taken[best] = true
		at := r.heap[best].Place
		for d := range uint64(spreadReach) {
			for _, pos := range []uint64{at.Pos - d - 1, at.Pos + d + 1} {
				i, found := near[Place{at.Namespace, at.Stream, pos}]
				if found && !taken[i] && at.Stream != 0 {
					r.heap[i].lowered += broadPenalty[r.Breadth] * (1 - float64(d+1)/(spreadReach+1))
					r.score(&r.heap[i])
				}
			}
		}
	}
	heap.Init(&r.heap)
}
