package index

import (
	"bytes"
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
	Under  []string  // paths of namespaces: the query knows only what is in them and below; nil means all

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
	history    string              // of the store, before anything was read
	cached     *cachedState        // what is cached of the space
	state      string              // the name of the state that the query reads, or "" if nothing of it may be cached
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
		buffer: rank.NewBuffer(), history: store.Epoch(svc.db.Store), cached: svc.cache.state(tenant, q.Space)}
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

// question is a query after its words are stemmed.
type question struct {
	words   []rank.Word
	without []rank.Word
	request rank.Request
}

// ask stems the words of the query in these languages.
func (s *search) ask(languages []string, oldest uint32) (question, error) {
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
	return question{words, asked.Without, rank.Request{Pairs: asked.Pairs, Breadth: breadth,
		Dates: append(rank.Dates(s.Text), dates...), Spans: spans, When: rank.AsksWhen(s.Text), Filter: s.Filter,
		Weights: rank.Default, Limit: s.wanted()}}, err
}

// rank scores all documents in one state of the store, with the words of the query stemmed in these languages. It
// returns the languages, including those of the documents that are not indexed.
func (s *search) rank(languages []string, oldest uint32) ([]string, error) {
	s.buffer.Reset()
	q, err := s.ask(languages, oldest)
	if err != nil {
		return nil, err
	}
	read, err := s.read(&q, oldest)
	if err != nil {
		return nil, err
	}
	s.job, s.fresh, s.dead, s.ranking = read.job, nil, map[rank.Place]bool{}, new(rank.Ranking)
	in, err := decodeCorpus(read.corpus)
	s.damaged = s.damaged || err != nil
	if err != nil || stateOf(s.job) == dropped {
		return languages, nil // It is unknown how far the space's records still belong together.
	}
	s.readModel(read.model)
	if s.Under != nil {
		seen, grown := s.readNamespaces(read.namespaces)
		if grown { // the blocks of new documents were not read
			return s.rank(languages, oldest)
		}
		in.Documents, in.Terms = seen.Documents, seen.Terms
		s.stored, s.vocabulary = seen.Documents, nil
	}
	s.readDead(read.dead, &in)
	if languages, err = s.readFresh(read.fresh, read.held, languages); err != nil {
		return nil, err
	}
	ask := q.request
	ask.Corpus = rank.Corpus{Documents: in.Documents, Terms: in.Terms}
	for _, d := range s.fresh {
		ask.Corpus.Documents++
		ask.Corpus.Terms += uint64(d.Len)
	}
	blocks := read.blocks.byTerm()
	wanted := 0
	for _, w := range q.words {
		wanted += len(s.terms(w))
	}
	if ask.Without, err = s.without(q.without, blocks[wanted:]); err != nil {
		return nil, err
	}
	found, err := s.rarest(q.words, blocks[:wanted])
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

// reading is what a query reads in one state of the store.
type reading struct {
	job, corpus, model store.Item
	held               []store.Item // of Query.Keys
	fresh, dead        []store.Item
	namespaces         [][]store.Item
	blocks             *blocksOf
}

// attempts is how often a query tries to use the cache. Each attempt that fails means that the space was changed
// meanwhile.
const attempts = 2

// read reads the state of the space, with the blocks of a question's words. Those that are cached of the same state are
// not read.
func (s *search) read(q *question, oldest uint32) (out reading, err error) {
	own := [][]byte{s.jobKey(), s.corpusKey(), s.modelKey()}
	var terms []string
	for _, w := range q.words {
		terms = append(terms, s.terms(w)...)
	}
	for _, w := range q.without {
		terms = append(terms, w.Terms...)
	}
	for attempt := 0; ; attempt++ {
		state := ""
		if attempt < attempts {
			state = s.cached.current()
		}
		blocks := s.blocksOf(terms, state)
		ask := store.Query{Keys: append(own, s.Keys...), Ranges: []store.Range{s.Space.fresh(oldest), s.Space.dead(oldest)}}
		ask.Ranges = append(ask.Ranges, blocks.ranges...)
		ask.Ranges = append(ask.Ranges, s.namespaceRanges()...)
		r, err := s.svc.db.Store.Read(s.ctx, s.tenant, ask)
		if err != nil {
			return out, err
		}
		out = reading{job: r.Keys[0], corpus: r.Keys[1], model: r.Keys[2], held: r.Keys[len(own):], fresh: r.Ranges[0],
			dead: r.Ranges[1], namespaces: r.Ranges[2+len(blocks.ranges):], blocks: blocks}
		s.state = s.stateIn(out.job, out.corpus)
		if s.state != "" {
			s.svc.cache.become(s.cached, s.state)
		}
		if blocks.cached && s.state != state {
			continue
		}
		blocks.add(r.Ranges[2:2+len(blocks.ranges)], s.state)
		return out, nil
	}
}

// stateIn returns the name of the state that a space's job and corpus show, or "" if nothing of it may be cached.
func (s *search) stateIn(job, corpus store.Item) string {
	if _, err := decodeCorpus(corpus); err != nil || stateOf(job) == dropped {
		return ""
	}
	return stateName(s.history, job.Value, corpus.Value)
}

// readModel reads which model the vectors of the space are of, if the query has a vector.
func (s *search) readModel(it store.Item) {
	if s.Near == nil {
		return
	}
	made, err := readModelled(it)
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

// readDead reads the marks of dead documents, and takes these out of the corpus.
func (s *search) readDead(marks []store.Item, in *corpusRecord) {
	for _, it := range marks {
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

// wanted returns the number of hits that are found by words.
func (s *search) wanted() int {
	if s.Near != nil {
		return max(s.Limit, fused)
	}
	return s.Limit
}

// best returns the best hits, up to the limit.
func (s *search) best() ([]rank.Hit, error) {
	f := rank.Finder{Limit: s.wanted(), Read: s.documents, Accept: s.accepts}
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
	var stored []rank.Place
	var at []int // where each of them goes in the result
	for i, place := range places {
		fresh, found := slices.BinarySearchFunc(s.fresh, place, func(d *rank.Document, at rank.Place) int {
			return d.Compare(at)
		})
		switch {
		case found:
			out[i] = s.fresh[fresh]
		case !s.dead[place]:
			stored, at = append(stored, place), append(at, i)
		}
	}
	items, err := s.readDocuments(stored)
	for n, it := range items {
		if !there(it) {
			continue
		}
		d, err := rank.ReadDocument(stored[n], it.Value, false)
		if err != nil {
			d, s.damaged = nil, true
		}
		out[at[n]] = d
	}
	return out, err
}

// readDocuments reads the records of documents in blocks. Those that are not cached are read somewhat later than the
// query's state.
func (s *search) readDocuments(places []rank.Place) ([]store.Item, error) {
	out, names := make([]store.Item, len(places)), make([][]byte, len(places))
	room := make([]byte, 0, len(places)*placeSize)
	for i, at := range places {
		room = appendPlace(room, at)
		names[i] = room[len(room)-placeSize:]
	}
	s.svc.cache.look(s.cached, s.state, documentPart, names, func(i int, part any) {
		out[i].Value = part.([]byte)
	})
	var missing []int
	ask := [][]byte{s.jobKey(), s.corpusKey()}
	for i := range out {
		if out[i].Value == nil {
			ask, missing = append(ask, s.documentKey(places[i])), append(missing, i)
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	r, err := s.svc.db.Store.Read(s.ctx, s.tenant, store.Query{Keys: ask})
	if err != nil {
		return nil, err
	}
	same := s.state != "" && s.stateIn(r.Keys[0], r.Keys[1]) == s.state
	for n, it := range r.Keys[2:] {
		if same && it.Value != nil {
			it.Value = bytes.Clone(it.Value) // What was read shares its memory with everything from the same read.
			s.svc.cache.keep(s.cached, s.state, documentPart, names[missing[n]], it.Value, len(it.Value))
		}
		out[missing[n]] = it
	}
	return out, nil
}
