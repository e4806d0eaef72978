package index

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	maxQueryWords   = 256 // of one query
	documentsAtOnce = 512 // read in one round trip
)

// Query asks for the documents of one space that its words fit best.
type Query struct {
	Space
	Text   string
	Filter rank.Filter
	Viewer string // It sees the documents of this group and those of none. Empty: it sees all.
	Limit  int    // of hits

	// Unindexed, where it is not nil, gives documents that are to be searched although they are not in the index, and
	// the languages that they were stemmed in. It gets what Keys hold in the state of the store that is searched.
	Keys      [][]byte
	Unindexed func(held []store.Item) (docs []rank.Document, languages []string, err error)
	// Accept, where it is not nil, has the last word on a hit.
	Accept func(*rank.Document) (bool, error)
}

// Hit is a document found.
type Hit struct {
	Doc   *rank.Document // without its terms, where it is stored
	Score float64
	Why   rank.Why
}

// search is one query under way.
type search struct {
	*Query
	svc    *Service
	ctx    context.Context
	tenant string
	now    time.Time

	job     store.Item          // of the space
	damaged bool                // something of the index is, which the answer leaves out
	visible map[rank.Place]bool // of places whose group may be the viewer's: whether it is
	fresh   []*rank.Document    // not in blocks, sorted by place
	dead    map[rank.Place]bool
	ranking *rank.Ranking
}

// Search gives the best hits of a query, as many as it asks for, best first. It is incomplete where the index is being
// built again, or is found damaged, which has it built again.
func (svc *Service) Search(ctx context.Context, tenant string, q *Query) (hits []Hit, incomplete bool, err error) {
	s := &search{Query: q, svc: svc, ctx: ctx, tenant: tenant, now: svc.db.Now(), visible: map[rank.Place]bool{}}
	languages, err := s.languages()
	if err != nil {
		return nil, false, err
	}
	// The corpus is older than the state that is searched. That does no harm: documents that an epoch held since then
	// are in blocks, or in a later epoch.
	_, corpus, err := svc.readCorpus(ctx, tenant, q.Space)
	if err != nil && !errors.Is(err, ErrBroken) {
		return nil, false, err
	}
	// Rank again where there are more languages than the query was stemmed in.
	for known := -1; known < len(languages); {
		known = len(languages)
		if languages, err = s.rank(languages, corpus.Oldest); err != nil {
			return nil, false, err
		}
	}
	if hits, err = s.best(); err != nil {
		return nil, false, err
	}
	state := stateOf(s.job)
	if s.damaged && state != dropped {
		if err := records.LostRace(svc.rebuild(ctx, tenant, s.job)); err != nil {
			svc.db.Log.Error("a damaged recall index cannot be built again yet", "tenant", tenant, "error", err)
		}
	}
	return hits, s.damaged || state != ready, nil
}

// languages are those that some document of the space was stemmed in.
func (s *search) languages() (out []string, err error) {
	rng := records.RecallLanguage.Under2(s.Project, s.Kind)
	prefix := len(rng.From)
	rng.KeysOnly = true
	for it, err := range s.svc.db.Scan(s.ctx, s.tenant, rng) {
		if err != nil {
			return nil, err
		}
		out = append(out, string(it.Key[prefix:]))
	}
	return out, nil
}

// rank scores all documents as of one state of the store, with the words of the query stemmed in these languages. It
// answers the languages with those of the documents that are not indexed.
func (s *search) rank(languages []string, oldest uint32) ([]string, error) {
	words := s.svc.analyser.Query(s.Text, languages)
	words = words[:min(len(words), maxQueryWords)]
	dead := records.RecallDead.Under2(s.Project, s.Kind)
	dead.KeysOnly = true
	own := [][]byte{s.jobKey(), s.corpusKey()}
	q := store.Query{Keys: append(own, s.Keys...), Ranges: []store.Range{s.Space.fresh(oldest), dead}}
	for _, w := range words {
		for _, term := range w.Terms {
			q.Ranges = append(q.Ranges, s.blocks(term))
		}
	}
	r, err := s.svc.db.Store.Read(s.ctx, s.tenant, q)
	if err != nil {
		return nil, err
	}
	s.job, s.fresh, s.dead, s.ranking = r.Keys[0], nil, map[rank.Place]bool{}, new(rank.Ranking)
	in, err := decodeCorpus(r.Keys[1])
	if s.damaged = s.damaged || err != nil; err != nil || stateOf(s.job) == dropped {
		return languages, nil // Nothing says how far its records still belong together.
	}
	for _, it := range r.Ranges[1] {
		s.dead[placeOf(it.Key)] = true
	}
	if languages, err = s.readFresh(r.Ranges[0], r.Keys[len(own):], languages); err != nil {
		return nil, err
	}
	corpus := rank.Corpus{Documents: in.Documents, Terms: in.Terms}
	for _, d := range s.fresh {
		corpus.Documents++
		corpus.Terms += uint64(d.Len)
	}
	asked := s.rarest(words, r.Ranges[2:])
	postings := make([]rank.Postings, len(asked))
	for i, a := range asked {
		if postings[i], err = s.gather(a.Word, a.blocks); err != nil {
			return nil, err
		}
	}
	s.ranking, err = rank.Rank(s.ctx, postings, corpus, rank.Dates(s.Text), &s.Filter)
	return languages, err
}

// readFresh takes up the documents that wait for their block, and those that are not indexed.
func (s *search) readFresh(waiting, held []store.Item, languages []string) ([]string, error) {
	for _, it := range waiting {
		if d := readDocument(it, true); d != nil {
			s.fresh = append(s.fresh, d)
		} else {
			s.damaged = true
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

// best gives the best hits, as many as asked for. What several passages are of comes once.
func (s *search) best() (hits []Hit, err error) {
	type identity struct {
		id             string
		stream, number uint64
	}
	seen := map[identity]bool{}
	for n := s.Limit + 4; len(hits) < s.Limit; n = min(2*n, documentsAtOnce) {
		var some []rank.Candidate
		for len(some) < n {
			c, ok := s.ranking.Next()
			if !ok {
				break
			}
			some = append(some, c)
		}
		if len(some) == 0 {
			break
		}
		docs, err := s.documents(some)
		if err != nil {
			return nil, err
		}
		for i, d := range docs {
			if d == nil || !s.Filter.Passes(d, s.now) || s.hidden(d.Group) || len(hits) == s.Limit {
				continue
			}
			id := identity{id: d.ID}
			if d.ID == "" {
				id.stream, id.number = d.Stream, d.Number
			}
			if seen[id] {
				continue
			}
			seen[id] = true
			if s.Accept != nil {
				if ok, err := s.Accept(d); err != nil {
					return nil, err
				} else if !ok {
					continue
				}
			}
			hits = append(hits, Hit{d, some[i].Score, s.ranking.Why(some[i])})
		}
	}
	return hits, nil
}

// documents gives what is at the candidates' places; nil where nothing is, or what cannot be read.
func (s *search) documents(of []rank.Candidate) ([]*rank.Document, error) {
	out := make([]*rank.Document, len(of))
	var keys [][]byte
	var stored []int // what the keys are of
	for i, c := range of {
		at, found := slices.BinarySearchFunc(s.fresh, c.Place, func(d *rank.Document, at rank.Place) int {
			return d.Compare(at)
		})
		switch {
		case found:
			out[i] = s.fresh[at]
		case !s.dead[c.Place]:
			keys, stored = append(keys, s.documentKey(c.Place)), append(stored, i)
		}
	}
	r, err := s.svc.db.Store.Read(s.ctx, s.tenant, store.Query{Keys: keys})
	if err != nil {
		return nil, err
	}
	for n, it := range r.Keys {
		if !there(it) {
			continue
		}
		d := readDocument(it, false)
		out[stored[n]], s.damaged = d, s.damaged || d == nil
	}
	return out, nil
}
