package index

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxQueryWords bounds the words of a query, documentsAtOnce the documents that are read in one round trip.
const (
	maxQueryWords   = 256
	documentsAtOnce = 512
)

// Query asks for the documents of one space that its words fit best.
type Query struct {
	Space  byte
	Text   string
	Filter rank.Filter
	Viewer string // It sees the documents of this group and those of none. Empty: it sees all.
	Limit  int
	// Where unindexed is there, it gives documents that are to be searched although they are not in the index, and the
	// languages that they were stemmed in. What it goes by is what keys hold in the state of the index that is
	// searched.
	Keys      [][]byte
	Unindexed func(held []store.Item) (docs []rank.Document, languages []string, err error)
	// accept, where it is there, has the last word on a hit.
	Accept func(*rank.Document) (bool, error)
}

// search is one query of one space of an index.
type search struct {
	e      *Service
	ctx    context.Context
	tenant string
	p      ident.Incarnation
	*Query
	now time.Time

	job     store.Item          // of the space
	damaged bool                // something of the index is, which the answer leaves out
	visible map[rank.Place]bool // of places whose group may be the viewer's: whether it is
	fresh   []*rank.Document    // not in blocks, sorted by place
	dead    map[rank.Place]bool
	ranking *rank.Ranking
}

// Search gives the best hits of a query, as many as it asks for. It is incomplete where the index is being built, or is
// damaged, which begins that.
func (svc *Service) Search(ctx context.Context, tenant string, p ident.Incarnation, q *Query) (
	hits []hit, incomplete bool, err error,
) {
	s := &search{e: svc, ctx: ctx, tenant: tenant, p: p, Query: q, now: svc.db.Now(), visible: map[rank.Place]bool{}}
	languages, err := s.languages()
	if err != nil {
		return nil, false, err
	}
	// Older than the state that is searched: what an epoch held since is in blocks, or further on.
	_, before, err := svc.readCorpus(ctx, tenant, p, q.Space)
	if err != nil && !errors.Is(err, ErrBroken) {
		return nil, false, err
	}
	for known := -1; known < len(languages); { // else the words of the query mean more than they were read for
		known = len(languages)
		if languages, err = s.rank(languages, before.Oldest); err != nil {
			return nil, false, err
		}
	}
	if hits, err = s.best(); err != nil {
		return nil, false, err
	}
	state := stateOf(s.job)
	if s.damaged && state != dropped {
		if err := records.LostRace(svc.rebuildSpace(ctx, tenant, s.job)); err != nil {
			svc.db.Log.Error("a damaged recall index cannot be built again yet", "tenant", tenant, "error", err)
		}
	}
	return hits, s.damaged || state != ready, nil
}

// languages are those that some document of the space was stemmed in.
func (s *search) languages() ([]string, error) {
	rng := records.RecallLanguage.Under2(s.p, s.Space)
	rng.KeysOnly = true
	r, err := s.e.db.Store.Read(s.ctx, s.tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, it := range r.Ranges[0] {
		out = append(out, string(it.Key[len(rng.From):]))
	}
	return out, nil
}

// rank scores all documents as of one state of the store, with the words of the query stemmed in these languages. It
// adds those of what is not indexed.
func (s *search) rank(languages []string, oldest uint32) ([]string, error) {
	words := s.e.Analyser.Query(s.Text, languages)
	words = words[:min(len(words), maxQueryWords)]
	dead := records.RecallDead.Under2(s.p, s.Space)
	dead.KeysOnly = true
	own := [][]byte{records.FoldJob.Key(s.p, s.Space), records.RecallCorpus.Key(s.p, s.Space)}
	q := store.Query{Keys: append(own, s.Keys...), Ranges: []store.Range{freshRange(s.p, s.Space, oldest), dead}}
	for _, w := range words {
		for _, term := range w.Terms {
			q.Ranges = append(q.Ranges, records.RecallBlock.Under3(s.p, s.Space, term))
		}
	}
	r, err := s.e.db.Store.Read(s.ctx, s.tenant, q)
	if err != nil {
		return nil, err
	}
	s.job, s.fresh, s.dead, s.ranking = r.Keys[0], nil, map[rank.Place]bool{}, new(rank.Ranking)
	in, err := decodeCorpus(r.Keys[1])
	if s.damaged = s.damaged || err != nil; err != nil || stateOf(s.job) == dropped {
		return languages, nil // Nothing says how much its records still hold together.
	}
	for _, it := range r.Ranges[1] {
		s.dead[splitPlace(it.Key)] = true
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
		if d := readDocument(splitPlace(it.Key), it, true); d != nil {
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

// asked is a word of the query with the blocks of each of its terms.
type asked struct {
	rank.Word
	blocks [][]store.Item
	length int // of all postings, about
}

// rarest leaves out the words that ranking would leave out for being common, before their postings are unpacked. For a
// viewer it leaves that to ranking, because what a viewer may not see must not decide.
func (s *search) rarest(words []rank.Word, blocks [][]store.Item) []asked {
	out := make([]asked, len(words))
	for i, w := range words {
		out[i] = asked{Word: w, blocks: blocks[:len(w.Terms)]}
		blocks = blocks[len(w.Terms):]
	}
	if len(words) <= rank.MaxWords || s.Viewer != "" {
		return out
	}
	for i := range out {
		for n, term := range out[i].Terms {
			for _, it := range out[i].blocks[n] {
				out[i].length += rank.BlockLen(it.Value)
			}
			for _, d := range s.fresh {
				out[i].length += int(min(d.Count(term), 1))
			}
		}
	}
	out = slices.DeleteFunc(out, func(a asked) bool { return a.length == 0 })
	if len(out) > rank.MaxWords {
		slices.SortStableFunc(out, func(a, b asked) int { return cmp.Compare(a.length, b.length) })
		out = out[:rank.MaxWords]
	}
	return out
}

// gather puts one word's postings together, without those of what is gone and of what the viewer may not see.
func (s *search) gather(w rank.Word, blocks [][]store.Item) (rank.Postings, error) {
	if err := s.ctx.Err(); err != nil {
		return rank.Postings{}, err
	}
	var lists [][]rank.Posting
	for i, term := range w.Terms {
		var list []rank.Posting
		for _, it := range blocks[i] {
			more, err := rank.ReadBlock(list, it.Value)
			if s.damaged = s.damaged || err != nil; err == nil {
				list = more
			}
		}
		list, err := s.shown(slices.DeleteFunc(list, func(p rank.Posting) bool { return s.dead[p.Place] }))
		if err != nil {
			return rank.Postings{}, err
		}
		var fresh []rank.Posting
		for _, d := range s.fresh {
			if n := d.Count(term); n > 0 && !s.hidden(d.Group) {
				fresh = append(fresh, d.Posting(n))
			}
		}
		for _, l := range [][]rank.Posting{list, fresh} {
			if len(l) > 0 {
				lists = append(lists, l)
			}
		}
	}
	return rank.Gather(w.Text, lists...), nil
}

// hidden tells whether the viewer may not see documents of a group.
func (s *search) hidden(group string) bool {
	return s.Viewer != "" && group != "" && group != s.Viewer
}

// shown leaves out the postings of documents that the viewer may not see. A posting has but a hash of its group: where
// that is the viewer's, the document says whether the group is.
func (s *search) shown(list []rank.Posting) ([]rank.Posting, error) {
	viewer := s.Viewer
	if viewer == "" {
		return list, nil
	}
	list = slices.DeleteFunc(list, func(p rank.Posting) bool { return rank.GroupHidden(p.Attrs, viewer) })
	var ask []rank.Place
	for _, p := range list {
		if _, known := s.visible[p.Place]; !known && rank.Grouped(p.Attrs) {
			ask = append(ask, p.Place)
		}
	}
	for places := range slices.Chunk(ask, documentsAtOnce) {
		q := store.Query{Keys: make([][]byte, len(places))}
		for i, at := range places {
			q.Keys[i] = records.RecallDocument.Key(s.p, s.Space, at.Stream, at.Pos)
		}
		r, err := s.e.db.Store.Read(s.ctx, s.tenant, q)
		if err != nil {
			return nil, err
		}
		for i, at := range places {
			d := readDocument(at, r.Keys[i], false)
			s.visible[at] = d != nil && d.Group == viewer
		}
	}
	return slices.DeleteFunc(list, func(p rank.Posting) bool {
		return rank.Grouped(p.Attrs) && !s.visible[p.Place]
	}), nil
}
