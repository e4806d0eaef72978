package index

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// documentsAtOnce is the number of documents that one round trip reads.
const documentsAtOnce = 512

// Query asks for the documents of one space that match its words best.
type Query struct {
	Space
	Text   string
	Filter rank.Filter
	Now    time.Time // the time that relative dates in the query refer to
	Plain  bool      // the text was not written as a query, so it has no operators
	Viewer string    // The viewer sees documents of this group and those without a group. If empty, it sees all.
	Limit  int       // the maximum number of hits
	Near   *Near     // a vector whose neighbours are found too and that counts in scores; nil means only words count
	Under  []string  // paths of namespaces: the query knows nothing but what is in them and below; nil means all

	// StreamIn, if not nil, is the number of the namespace that Filter.Stream is in.
	StreamIn *uint64

	// Unindexed, if not nil, returns documents to search that are not in the index, and the languages that they were
	// stemmed in. It gets the values of Keys in the state of the store that is searched.
	Keys      [][]byte
	Unindexed func(held []store.Item) (docs []rank.Document, languages []string, err error)
	// Accept, if not nil, makes the final decision on a hit.
	Accept func(*rank.Document) (bool, error)
	// Holds reports whether the source of a document contains a phrase.
	Holds func(d *rank.Document, phrase string) (bool, error)
}

// search is a query in progress.
type search struct {
	*Query
	svc    *Service
	ctx    context.Context
	tenant string
	now    time.Time

	job        store.Item          // of the space
	damaged    bool                // part of the index is damaged, and the results leave it out
	visible    map[rank.Place]bool // whether the viewer may see the document at a place; for places whose group may be the viewer's
	fresh      []*rank.Document    // not in blocks, sorted by place
	dead       map[rank.Place]bool
	buffer     *rank.Buffer // for the postings of the ranking
	ranking    *rank.Ranking
	numbers    []uint64        // of the namespaces that the query may see, sorted; nil means all
	within     map[uint64]bool // the same as a set
	stored     uint64          // how many of their documents are in blocks
	vocabulary []string        // sorted terms of these, once they are read
	phrases    []string        // that hits must contain
	unwanted   []rank.Word     // that no hit may contain
	barred     []string        // phrases that no hit may contain
	loose      bool            // phrases are not required
	capped     bool            // hits may be missing, because most of what was read was left out or duplicated
}

// Search returns the best hits of a query, up to its limit, best first. The result is incomplete while the index is
// being rebuilt, or if it is found damaged, which starts a rebuild.
func (svc *Service) Search(ctx context.Context, tenant string, q *Query) (hits []rank.Hit, incomplete bool, err error) {
	s := &search{Query: q, svc: svc, ctx: ctx, tenant: tenant, now: svc.db.Now(), visible: map[rank.Place]bool{},
		buffer: rank.NewBuffer()}
	defer s.buffer.Release() // Hits do not refer to postings.
	if err := s.findNamespaces(); err != nil {
		return nil, false, err
	}
	languages, err := s.languages()
	if err != nil {
		return nil, false, err
	}
	// The corpus is older than the state that is searched. That is harmless: documents that left an epoch since then are in
	// blocks, or in a later epoch.
	_, corpus, err := svc.readCorpus(ctx, tenant, q.Space)
	if err != nil && !errors.Is(err, ErrBroken) {
		return nil, false, err
	}
	// Rank again if there are more languages than the query was stemmed in.
	for known := -1; known < len(languages); {
		known = len(languages)
		if languages, err = s.rank(languages, corpus.Oldest); err != nil {
			return nil, false, err
		}
	}
	hits, err = s.best()
	if err == nil && len(hits) == 0 && len(s.phrases) > 0 { // then the words count like any others
		s.loose = true
		if _, err = s.rank(languages, corpus.Oldest); err == nil {
			hits, err = s.best()
		}
	}
	if err != nil {
		return nil, false, err
	}
	state := stateOf(s.job)
	if s.damaged && state != dropped {
		if err := records.LostRace(svc.rebuild(ctx, tenant, s.job)); err != nil {
			svc.db.Log.Error("a damaged recall index cannot be rebuilt yet", "tenant", tenant, "error", err)
		}
	}
	return hits, s.damaged || s.capped || state != ready, nil
}

// rank scores all documents in one state of the store, with the words of the query stemmed in these languages. It
// returns the languages, including those of the documents that are not indexed.
func (s *search) rank(languages []string, oldest uint32) ([]string, error) {
	s.buffer.Reset()
	asked := s.svc.analyser.Search(s.Text, languages, !s.Plain)
	dates, spans, counting := rank.Relative(s.Text, s.Now)
	asked.Words = slices.DeleteFunc(asked.Words, func(w rank.Word) bool { return slices.Contains(counting, w.Text) })
	for _, d := range dates {
		if term := d.Term(); term != "" {
			asked.Words = append(asked.Words, rank.Word{Text: term[len(rank.DateMark):], Terms: []string{term}})
		}
	}
	s.phrases = asked.Phrases
	if s.loose {
		s.phrases = nil
	}
	s.unwanted, s.barred = asked.Without, asked.WithoutPhrases
	breadth := rank.BreadthOf(s.Text)
	if breadth != rank.Narrow {
		asked.Words = rank.WithoutScaffold(asked.Words)
	}
	words, err := s.rarestOf(asked.Words, oldest)
	if err != nil {
		return nil, err
	}
	own := [][]byte{s.jobKey(), s.corpusKey()}
	if s.Near != nil {
		own = append(own, s.modelKey())
	}
	q := store.Query{Keys: append(own, s.Keys...), Ranges: []store.Range{s.Space.fresh(oldest), s.Space.dead(oldest)}}
	for _, w := range words {
		for _, term := range s.terms(w) {
			q.Ranges = append(q.Ranges, s.termBlocks(term)...)
		}
	}
	wanted := len(q.Ranges)
	for _, w := range asked.Without {
		for _, term := range w.Terms {
			q.Ranges = append(q.Ranges, s.termBlocks(term)...)
		}
	}
	named := len(q.Ranges)
	q.Ranges = append(q.Ranges, s.namespaceRanges()...)
	r, err := s.svc.db.Store.Read(s.ctx, s.tenant, q)
	if err != nil {
		return nil, err
	}
	s.job, s.fresh, s.dead, s.ranking = r.Keys[0], nil, map[rank.Place]bool{}, new(rank.Ranking)
	in, err := decodeCorpus(r.Keys[1])
	s.damaged = s.damaged || err != nil
	if err != nil || stateOf(s.job) == dropped {
		return languages, nil // It is unknown how far the space's records still belong together.
	}
	if s.Near != nil {
		made, err := readModelled(r.Keys[2])
		s.Near.Length, s.Near.Differs = 0, false
		s.damaged = s.damaged || err != nil
		switch {
		case made == nil:
		case made.Model == s.Near.Model:
			s.Near.Length = made.Length
		default:
			s.Near.Differs = made.Model.Static() && s.Near.Model.Static()
		}
	}
	if s.Under != nil {
		seen, grown := s.readNamespaces(r.Ranges[named:])
		if grown { // The blocks of what is new were not read.
			return s.rank(languages, oldest)
		}
		in.Documents, in.Terms = seen.Documents, seen.Terms
		s.stored, s.vocabulary = seen.Documents, nil
	}
	for _, it := range r.Ranges[1] {
		at := placeOf(it.Key)
		if !s.inside(at) {
			continue
		}
		words, ok := wordsOf(it)
		if !ok || in.Documents == 0 || in.Terms < uint64(words) {
			s.damaged = true
		} else if !s.dead[at] {
			in.Documents--
			in.Terms -= uint64(words)
		}
		s.dead[at] = true
	}
	if languages, err = s.readFresh(r.Ranges[0], r.Keys[len(own):], languages); err != nil {
		return nil, err
	}
	ask := rank.Request{Pairs: asked.Pairs, Breadth: breadth, Corpus: rank.Corpus{Documents: in.Documents, Terms: in.Terms},
		Dates: append(rank.Dates(s.Text), dates...), Spans: spans, When: rank.AsksWhen(s.Text), Filter: s.Filter, Weights: rank.Default}
	for _, d := range s.fresh {
		ask.Corpus.Documents++
		ask.Corpus.Terms += uint64(d.Len)
	}
	if ask.Without, err = s.without(asked.Without, s.byTerm(r.Ranges[wanted:named])); err != nil {
		return nil, err
	}
	found, err := s.rarest(words, s.byTerm(r.Ranges[2:wanted]))
	if err != nil {
		return nil, err
	}
	if err := s.addVariants(found); err != nil {
		return nil, err
	}
	if err := s.gatherAll(&ask, found); err != nil {
		return nil, err
	}
	if err := s.addSimilar(&ask); err != nil {
		return nil, err
	}
	s.ranking, err = rank.Rank(s.ctx, ask)
	return languages, err
}

// readFresh adds the documents that wait for their block, and those that are not indexed.
func (s *search) readFresh(waiting, held []store.Item, languages []string) ([]string, error) {
	for _, it := range waiting {
		d := readDocument(it, true)
		switch {
		case d == nil:
			s.damaged = true
		case s.insidePath(d.Path):
			s.fresh = append(s.fresh, d)
		}
	}
	if s.Unindexed != nil {
		docs, stemmed, err := s.Unindexed(held)
		if err != nil {
			return nil, err
		}
		for i := range docs {
			s.fresh = append(s.fresh, &docs[i])
		}
		for _, l := range stemmed {
			if !slices.Contains(languages, l) {
				languages = append(languages, l)
			}
		}
	}
	slices.SortFunc(s.fresh, func(a, b *rank.Document) int { return a.Compare(b.Place) })
	return languages, nil
}

// best returns the best hits, up to the limit.
func (s *search) best() ([]rank.Hit, error) {
	f := rank.Finder{Limit: s.Limit, Read: s.documents, Accept: s.accepts}
	if s.Near != nil {
		f.Limit = max(f.Limit, fused)
	}
	hits, capped, err := s.ranking.Best(f)
	s.capped = capped
	if err == nil && s.Near != nil {
		hits, err = s.fuse(hits, s.Limit)
	}
	return hits, err
}

// accepts reports whether a document may be a hit.
func (s *search) accepts(d *rank.Document) (bool, error) {
	if !s.Filter.Passes(d, s.now) || s.hidden(d.Group) {
		return false, nil
	}
	if s.Accept != nil {
		if ok, err := s.Accept(d); !ok || err != nil {
			return false, err
		}
	}
	for _, phrase := range s.phrases {
		if ok, err := s.Holds(d, phrase); !ok || err != nil {
			return false, err
		}
	}
	for _, phrase := range s.barred {
		if held, err := s.Holds(d, phrase); held || err != nil {
			return false, err
		}
	}
	return true, nil
}

// documents returns the documents at some places; nil where there is none or it cannot be read.
func (s *search) documents(places []rank.Place) ([]*rank.Document, error) {
	out := make([]*rank.Document, len(places))
	var keys [][]byte
	var stored []int // where the document of each key goes in the result
	for i, place := range places {
		at, found := slices.BinarySearchFunc(s.fresh, place, func(d *rank.Document, at rank.Place) int {
			return d.Compare(at)
		})
		switch {
		case found:
			out[i] = s.fresh[at]
		case !s.dead[place]:
			keys, stored = append(keys, s.documentKey(place)), append(stored, i)
		}
	}
	if len(keys) == 0 {
		return out, nil
	}
	r, err := s.svc.db.Store.Read(s.ctx, s.tenant, store.Query{Keys: keys})
	if err != nil {
		return nil, err
	}
	for n, it := range r.Keys {
		if !there(it) {
			continue
		}
		d := readDocument(it, true)
		out[stored[n]], s.damaged = d, s.damaged || d == nil
	}
	return out, nil
}
