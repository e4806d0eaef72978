package recall_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// talkIndex is a conversation as documents and postings in memory, so that it can be ranked with any weights.
type talkIndex struct {
	buffer   rank.Buffer
	docs     map[rank.Place]*rank.Document
	postings map[string][]rank.Posting
	corpus   rank.Corpus
	ids      map[rank.Place]string
}

func indexTalk(talk *benchtest.Talk, speakers bool) *talkIndex {
	x := &talkIndex{docs: map[rank.Place]*rank.Document{}, postings: map[string][]rank.Posting{},
		ids: map[rank.Place]string{}}
	streams, next := map[string]uint64{}, map[string]uint64{}
	for _, turn := range talk.Turns {
		if streams[turn.Session] == 0 {
			streams[turn.Session] = uint64(len(streams) + 1)
		}
		read := enginetest.Analyser().Index(turn.Text)
		speaker := ""
		if speakers {
			speaker = turn.Speaker
		}
		for _, p := range rank.Passages(read.Terms, read.Stops, rank.SpeakerTerms(speaker)) {
			next[turn.Session]++
			d := &rank.Document{Place: rank.Place{Stream: streams[turn.Session], Pos: next[turn.Session]}, ID: turn.ID,
				Len: p.Len, Terms: p.Terms, Order: p.Order, Speaker: speaker, Created: turn.At, Assistant: turn.Role == "assistant",
				Style: rank.StyleOf(turn.Text)}
			x.docs[d.Place], x.ids[d.Place] = d, turn.ID
			for _, t := range d.Terms {
				x.postings[t.Term] = append(x.postings[t.Term], d.Posting(t.Count))
			}
			x.corpus.Documents++
			x.corpus.Terms += uint64(d.Len)
		}
	}
	for _, list := range x.postings {
		slices.SortFunc(list, func(a, b rank.Posting) int { return a.Compare(b.Place) })
	}
	return x
}

func (x *talkIndex) ask(t *testing.T, question string, w rank.Weights, narrow bool) (ranked []string) {
	searched := enginetest.Analyser().Search(question, nil, true)
	breadth := rank.BreadthOf(question)
	if narrow {
		breadth = rank.Narrow
	}
	if breadth != rank.Narrow {
		searched.Words = rank.WithoutScaffold(searched.Words)
	}
	q := rank.Request{Pairs: searched.Pairs, Breadth: breadth, Corpus: x.corpus, Dates: rank.Dates(question), When: rank.AsksWhen(question), Weights: w}
	var kept, named []rank.Postings
	for _, word := range searched.Words {
		p := rank.Postings{Word: word.Text, Terms: word.Terms}
		for _, term := range word.Terms {
			before := len(p.List)
			p.List = x.buffer.Unite(append(p.List, x.postings[term]...), before)
		}
		if said := x.postings[rank.SpeakerTerm(word.Text)]; len(said) > 0 {
			for i := range said {
				q.Speakers.Add(&said[i])
			}
			named = append(named, p)
		} else {
			kept = append(kept, p)
		}
	}
	q.Words = kept
	if len(kept) == 0 {
		q.Words = named
	}
	r, err := rank.Rank(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	hits, _, err := r.Best(rank.Finder{Limit: 20, Read: func(at []rank.Place) (out []*rank.Document, err error) {
		for _, p := range at {
			out = append(out, x.docs[p])
		}
		return out, nil
	}, Accept: func(*rank.Document) (bool, error) { return true, nil }})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		ranked = append(ranked, x.ids[h.Doc.Place])
	}
	return ranked
}

func measure(t *testing.T, talks []benchtest.Talk, indexes []*talkIndex, w rank.Weights, narrow bool) map[string]*benchtest.Measured {
	by := map[string]*benchtest.Measured{}
	for i := range talks {
		for _, q := range talks[i].Questions {
			addMeasured(by, &q, indexes[i].ask(t, q.Text, w, narrow))
		}
	}
	return by
}

const breadthRule = "breadth"

// Measures what each rule gains: it prints the table of docs/RECALL.md, leaving out each rule in turn. Everything is
// ranked in memory. The rules together must find what the gate requires of a store.
func TestCampaignRecallAblations(t *testing.T) {
	locomo, beam := benchtest.ReadLocomo(t), benchtest.ReadBeam(t)
	var silent, named, beams []*talkIndex
	for i := range locomo {
		silent, named = append(silent, indexTalk(&locomo[i], false)), append(named, indexTalk(&locomo[i], true))
	}
	for i := range beam {
		beams = append(beams, indexTalk(&beam[i], false))
	}
	t.Log("| without | LoCoMo, no names | LoCoMo | multi-hop | adversarial | BEAM |")
	rules := []struct {
		name string
		take func(w *rank.Weights) // leaves out part of the weights; nil for none
	}{
		{"nothing: all rules", func(*rank.Weights) {}},
		{breadthRule, nil},
		{"words that follow each other", func(w *rank.Weights) { w.Adjacent = 0 }},
		{"neighbours", func(w *rank.Weights) { w.Before, w.Asked, w.Behind, w.Second = 0, 0, 0, 0 }},
		{"0.9 behind a question", func(w *rank.Weights) { w.Asked = w.Before }},
		{"second neighbours", func(w *rank.Weights) { w.Second = 0 }},
		{"less of neighbours for long texts", func(w *rank.Weights) { w.NearLength = math.Inf(1) }},
		{"session", func(w *rank.Weights) { w.Session = 0 }},
		{"date", func(w *rank.Weights) { w.Date = 0 }},
		{"when", func(w *rank.Weights) { w.When = 0 }},
		{"speaker", func(w *rank.Weights) { w.Speaker = 0 }},
		{"less of speaker and when for what fits badly", func(w *rank.Weights) { w.Relevant = 1e-9 }},
		{"length", func(w *rank.Weights) { w.Length = 0 }},
		{"question", func(w *rank.Weights) { w.Question = 0 }},
		{"essay", func(w *rank.Weights) { w.Essay = 0 }},
	}
	for i, rule := range rules[:campaign.Size(1, len(rules))] {
		w := rank.Default
		narrow := rule.name == breadthRule
		if !narrow {
			rule.take(&w)
		}
		a, b := measure(t, locomo, silent, w, narrow), measure(t, locomo, named, w, narrow)
		c := measure(t, beam, beams, w, narrow)
		t.Logf("| %s | %.1f | %.1f | %.1f | %.1f | %.1f |", rule.name, a["all"].At10(), b["all"].At10(),
			b["multi-hop"].At10(), b[benchtest.Adversarial].At10(), c["all"].At10())
		if i == 0 && (b["all"].At10() < 78 || b["multi-hop"].At10() < 46 || c["all"].At10() < 54.5) {
			t.Error("the rules find less than they did")
		}
	}
}
