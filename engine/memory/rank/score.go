package rank

import "math"

// Candidate is a place that may have a hit: that of a document with a word of the query, or one next to it.
type Candidate struct {
	Place
	Score   float64
	own     int32            // an index of Ranking.docs; -1 if the document contains no word of the query
	near    [2 * reach]int32 // indexes of the documents at distances -2, -1, 1 and 2; -1 for those without a word
	session int32            // an index of Ranking.sessions; -1 if none
	lowered float64          // by Ranking.spread

	// The properties of the document itself. Until they are known, the score is an upper bound.
	known bool
	len   uint32
	day   uint16
	attrs Attrs

	// Bit i of follow is set if the words of Ranking.pairs[i] are adjacent in the document. Until that is known, the score
	// counts every pair whose words the document contains.
	ordered bool
	follow  uint64
}

var nobody = [2 * reach]int32{-1, -1, -1, -1}

// add scores a candidate and adds it unless the filter certainly rejects it.
func (r *Ranking) add(c Candidate) {
	if r.bars(c.Place) {
		return
	}
	if c.own >= 0 {
		d := &r.docs[c.own]
		if !r.Filter.may(d.day, d.attrs) {
			return
		}
		c.know(d.len, d.day, d.attrs)
	}
	r.score(&c)
	r.heap = append(r.heap, c)
}

func (c *Candidate) know(length uint32, day uint16, attrs Attrs) {
	c.known, c.len, c.day, c.attrs = true, length, day, attrs
}

// score adds up the parts of a candidate's score.
func (r *Ranking) score(c *Candidate) {
	near, own, words := r.nearWeights(c), 0.0, 0.0
	for w := range r.Words {
		n := r.of(c.own, w)
		words += r.shares[w] * r.saturated(n+r.beside(c, &near, w))
		own += r.shares[w] * r.saturated(n)
	}
	score := 0.0
	if r.broad(c) {
		score = own + r.aboutWords(words) + r.aboutSession(c) + r.user(c, own) - c.lowered
	} else {
		score = words + r.adjacent(c) + r.session(c) + r.date(c) + r.when(c, words) + r.speaker(c, words) + r.length(c) +
			r.question(c) + r.essay(c) + r.importance(c)
	}
	c.Score = math.Round(score*1e8) / 1e8
}

// relevant returns the part of a weight that counts for a text with the given word score. A text with little of what is
// asked is not found only because of its speaker.
func (r *Ranking) relevant(words float64) float64 { return min(words/r.Weights.Relevant, 1) }

func (r *Ranking) saturated(n float64) float64 { return n / (n + r.Weights.Saturation) }

// nearWeights returns the weights of the words of the documents around a candidate.
func (r *Ranking) nearWeights(c *Candidate) (out [2 * reach]float64) {
	if c.near == nobody {
		return out
	}
	w, part := &r.Weights, 1.0
	if c.known {
		by := float64(c.len) / w.NearLength
		part = 1 / (1 + by*by)
	}
	out = [2 * reach]float64{part * w.Second, part * w.Before, part * w.Behind, part * w.Second}
	if c.near[1] >= 0 && r.docs[c.near[1]].attrs.asks() {
		out[1] = part * w.Asked
	}
	return out
}

// beside counts a word in the documents around a candidate.
func (r *Ranking) beside(c *Candidate, weights *[2 * reach]float64, word int) (n float64) {
	for i, doc := range c.near {
		if doc >= 0 {
			n += weights[i] * r.of(doc, word)
		}
	}
	return n
}

// session returns what the rest of a candidate's session adds.
func (r *Ranking) session(c *Candidate) float64 { return r.Weights.Session * r.sessionShare(c) }

// sessionShare returns the word score of the rest of a candidate's session, as if it were one text.
func (r *Ranking) sessionShare(c *Candidate) (score float64) {
	if c.session < 0 {
		return 0
	}
	for w := range r.Words {
		n := r.sessions[int(c.session)*len(r.Words)+w] - r.of(c.own, w)
		score += r.sessionShares[w] * r.saturated(max(n, 0))
	}
	return score
}

func (r *Ranking) date(c *Candidate) float64 {
	if len(r.Dates)+len(r.Spans) == 0 { // the usual case
		return 0
	}
	if !c.known {
		return r.Weights.Date * bestMatch
	}
	match := matchOf(r.Dates, c.day)
	for _, s := range r.Spans {
		if s.From <= c.day && c.day <= s.To {
			match = max(match, weekMatch)
		}
	}
	return r.Weights.Date * match
}

func (r *Ranking) when(c *Candidate, words float64) float64 {
	if r.When && (!c.known || c.attrs.timed()) {
		return r.Weights.When * r.relevant(words)
	}
	return 0
}

func (r *Ranking) speaker(c *Candidate, words float64) float64 {
	if r.Speakers != 0 && (!c.known || r.Speakers.has(c.attrs)) {
		return r.Weights.Speaker * r.relevant(words)
	}
	return 0
}

func (r *Ranking) length(c *Candidate) float64 {
	if !c.known {
		return r.Weights.Length * fullness[fullLength]
	}
	return r.Weights.Length * fullness[min(c.len, fullLength)]
}

// fullness is the logarithm of a text's length, indexed by the length.
var fullness = func() (out [fullLength + 1]float64) {
	for n := range out {
		out[n] = math.Log(float64(n + 1))
	}
	return out
}()

func (r *Ranking) question(c *Candidate) float64 {
	if c.known && c.attrs.asks() && c.len <= askLength {
		return -r.Weights.Question
	}
	return 0
}

func (r *Ranking) essay(c *Candidate) float64 {
	if c.known && c.attrs.byAssistant() && c.len > essayLength {
		return -r.Weights.Essay
	}
	return 0
}

// importance returns the part for a memory's importance. Messages have none.
func (r *Ranking) importance(c *Candidate) float64 {
	if !c.known {
		return r.Weights.Important / 2
	}
	return r.importanceOf(c.attrs)
}

func (r *Ranking) importanceOf(a Attrs) float64 { return r.Weights.Important * a.standing() }

// Why lists the parts of a score, which add up to it. Terms are the words that the document itself contains. Neighbours
// is what the documents next to it add.
type Why struct {
	Terms                                                                         []TermShare
	Neighbours, Session, Date, When, Speaker, Length, Question, Essay, Importance float64
	Adjacent                                                                      float64
	User, Spread                                                                  float64 // see Breadth
	Newer                                                                         float64 // see Best
	Vector                                                                        float64 // set by package index
}

// TermShare is one word's part of a score.
type TermShare struct {
	Word  string
	As    []string // see Postings
	Soft  bool     // As are similar words, which count instead of the word
	Share float64
}

// Why explains a candidate's score.
func (r *Ranking) Why(c *Candidate) Why {
	var y Why
	near, own, words := r.nearWeights(c), 0.0, 0.0
	for w := range r.Words {
		n := r.of(c.own, w)
		share := r.shares[w] * r.saturated(n)
		if n > 0 {
			t := TermShare{Word: r.Words[w].Word, As: r.Words[w].As, Share: share}
			if r.Words[w].softly(c.Place) {
				t.As, t.Soft = r.Words[w].Similar, true
			}
			y.Terms = append(y.Terms, t)
		}
		own += share
		words += r.shares[w] * r.saturated(n+r.beside(c, &near, w))
	}
	if r.broad(c) {
		y.Neighbours, y.Session, y.User, y.Spread = r.aboutWords(words), r.aboutSession(c), r.user(c, own), -c.lowered
		return y
	}
	y.Neighbours, y.Adjacent, y.Session, y.Date = words-own, r.adjacent(c), r.session(c), r.date(c)
	y.Length, y.Question, y.Essay, y.Importance = r.length(c), r.question(c), r.essay(c), r.importance(c)
	y.When, y.Speaker = r.when(c, words), r.speaker(c, words)
	return y
}

// before reports whether a candidate comes before another: the one with the higher score, then the newer one, then the
// one at the later place.
func (c *Candidate) before(d *Candidate) bool {
	if c.Score != d.Score {
		return c.Score > d.Score
	}
	if c.day != d.day {
		return c.day > d.day
	}
	return c.Compare(d.Place) > 0
}

// candidates is a heap with the best first.
type candidates []Candidate

func (h candidates) Len() int           { return len(h) }
func (h candidates) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h candidates) Less(i, j int) bool { return h[i].before(&h[j]) }
func (h *candidates) Push(x any)        { *h = append(*h, x.(Candidate)) }
func (h *candidates) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}
