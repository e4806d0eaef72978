package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// search is one query of one space of an index.
type search struct {
	e       *Engine
	ctx     context.Context
	tenant  string
	p       incarnation
	space   byte
	request *recallRequest
	filter  recall.Filter
	now     time.Time

	damaged bool                  // something of the index, which the answer leaves out
	visible map[recall.Place]bool // of places whose group may be the viewer's: whether it is
	fresh   []*recall.Document    // not in blocks, sorted by place
	dead    map[recall.Place]bool
	tail    tail
	ranking *recall.Ranking
}

// marks are the project's sessions with messages that are not indexed.
func (s *search) marks(out *RecallResult) ([]store.Item, error) {
	rng := prefixRange(unindexedPrefix(s.p))
	rng.Limit = tailSessions
	r, err := s.e.store.Read(s.ctx, s.tenant, store.Query{Keys: [][]byte{backlogKey(s.p)}, Ranges: []store.Range{rng}})
	if err != nil {
		return nil, err
	}
	if r.Keys[0].Value != nil || len(r.Ranges[0]) == rng.Limit {
		out.Incomplete = true
	}
	found := len(r.Ranges[0])
	marks := slices.DeleteFunc(r.Ranges[0], func(it store.Item) bool { return len(it.Value) < 8 })
	s.damaged = s.damaged || len(marks) < found
	return marks, nil
}

// languages are those that some document of the space was stemmed in.
func (s *search) languages() ([]string, error) {
	rng := prefixRange(recallPrefix(s.p, s.space, recallLanguage))
	rng.KeysOnly = true
	r, err := s.e.store.Read(s.ctx, s.tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, it := range r.Ranges[0] {
		out = append(out, string(it.Key[len(rng.From):]))
	}
	return out, nil
}

// read ranks the space's documents, and of marked sessions the messages that are not indexed, as of one state of the
// store.
func (s *search) read(marks []store.Item) error {
	s.now, s.visible = s.e.now(), map[recall.Place]bool{}
	languages, err := s.languages()
	if err != nil {
		return err
	}
	// Older than the state that is searched: what an epoch held since is in blocks, or further on.
	_, before, err := s.e.readCorpus(s.ctx, s.tenant, s.p, s.space)
	for err == nil {
		s.fresh, s.dead, s.tail = nil, map[recall.Place]bool{}, tail{languages: map[string]bool{}}
		if err = s.readAs(languages, before.Oldest, marks); err != nil {
			break
		}
		known := len(languages)
		for l := range s.tail.languages {
			if !slices.Contains(languages, l) {
				languages = append(languages, l)
			}
		}
		if len(languages) == known {
			break // else the words of the query mean more than they were read for
		}
	}
	return err
}

// readAs ranks with the words of the query stemmed in these languages.
func (s *search) readAs(languages []string, oldest uint32, marks []store.Item) error {
	words := s.e.analyser.Query(s.request.Query, languages)
	words = words[:min(len(words), maxQueryWords)]
	dead := prefixRange(recallPrefix(s.p, s.space, recallDead))
	dead.KeysOnly = true
	q := store.Query{Keys: [][]byte{recallPrefix(s.p, s.space, recallCorpus)},
		Ranges: []store.Range{freshRange(s.p, s.space, oldest), dead}}
	for _, m := range marks {
		q.Keys = append(q.Keys, keysOfMark(s.p, m)...)
	}
	for _, w := range words {
		for _, term := range w.Terms {
			q.Ranges = append(q.Ranges, prefixRange(recallTermPrefix(s.p, s.space, term)))
		}
	}
	r, err := s.e.store.Read(s.ctx, s.tenant, q)
	if err != nil {
		return err
	}
	in, whole := decodeCorpus(r.Keys[0])
	s.dead = placesOf(r.Ranges[1])
	s.readFresh(r.Ranges[0])
	if err := s.readTails(marks, r.Keys[1:]); err != nil {
		return err
	}
	corpus := recall.Corpus{Documents: in.Documents, Terms: in.Terms}
	for _, d := range s.fresh {
		corpus.Documents++
		corpus.Terms += uint64(d.Len)
	}
	asked := s.rarest(words, r.Ranges[2:])
	postings := make([]recall.Postings, len(asked))
	for i, a := range asked {
		if postings[i], err = s.gather(a.Word, a.blocks); err != nil {
			return err
		}
	}
	if !whole {
		s.e.log.Error("how much is in a recall index is damaged; it is guessed until a job has counted it", "tenant", s.tenant)
		s.e.poke(s.tenant)
		corpus = guess(postings)
	}
	s.ranking, err = recall.Rank(s.ctx, postings, corpus, recall.Dates(s.request.Query), &s.filter)
	return err
}

// asked is a word of the query with the blocks of each of its terms.
type asked struct {
	recall.Word
	blocks [][]store.Item
	length int // of all postings, about
}

// rarest leaves out the words that ranking would leave out for being common, before their postings are unpacked. Not for a viewer, for whom what it may not see must not decide.
func (s *search) rarest(words []recall.Word, blocks [][]store.Item) []asked {
	out := make([]asked, len(words))
	for i, w := range words {
		out[i] = asked{Word: w, blocks: blocks[:len(w.Terms)]}
		blocks = blocks[len(w.Terms):]
	}
	if len(words) <= recall.MaxWords || s.request.viewer != "" {
		return out
	}
	for i := range out {
		for n, term := range out[i].Terms {
			for _, it := range out[i].blocks[n] {
				out[i].length += recall.BlockLen(it.Value)
			}
			for _, d := range s.fresh {
				out[i].length += int(min(d.Count(term), 1))
			}
		}
	}
	out = slices.DeleteFunc(out, func(a asked) bool { return a.length == 0 })
	if len(out) > recall.MaxWords {
		slices.SortStableFunc(out, func(a, b asked) int { return cmp.Compare(a.length, b.length) })
		out = out[:recall.MaxWords]
	}
	return out
}

// guess says of what there is in blocks as much as the words at hand tell.
func guess(words []recall.Postings) (c recall.Corpus) {
	for _, w := range words {
		if n := uint64(len(w.List)); n > c.Documents {
			c = recall.Corpus{Documents: n}
			for _, p := range w.List {
				c.Terms += uint64(p.Len)
			}
		}
	}
	return c
}

func (s *search) readFresh(items []store.Item) {
	for _, it := range items {
		if d := readDocument(splitPlace(it.Key), it, true); d != nil {
			s.fresh = append(s.fresh, d)
		} else {
			s.damaged = true
		}
	}
}

// readTails takes up the messages of marked sessions that are not indexed; got is what keysOfMark name.
func (s *search) readTails(marks, got []store.Item) error {
	var sessions []*marked
	for i, mark := range marks {
		m, whole := readMark(mark, got[2*i:2*i+2])
		s.damaged = s.damaged || !whole
		if whole && m != nil && (s.request.SessionID == "" || s.request.SessionID == m.id) {
			sessions = append(sessions, m)
		}
	}
	if err := s.e.analyseTails(s.ctx, s.tenant, sessions, &s.tail); err != nil {
		return err
	}
	for i := range s.tail.docs {
		s.fresh = append(s.fresh, &s.tail.docs[i])
	}
	slices.SortFunc(s.fresh, func(a, b *recall.Document) int { return a.Compare(b.Place) })
	return nil
}

// gather puts one word's postings together, without those of what is gone and of messages that the viewer may not see.
func (s *search) gather(w recall.Word, blocks [][]store.Item) (recall.Postings, error) {
	if err := s.ctx.Err(); err != nil {
		return recall.Postings{}, err
	}
	var lists [][]recall.Posting
	for i, term := range w.Terms {
		var list []recall.Posting
		for _, it := range blocks[i] {
			more, err := recall.ReadBlock(list, it.Value)
			if s.damaged = s.damaged || err != nil; err == nil {
				list = more
			}
		}
		list, err := s.shown(slices.DeleteFunc(list, func(p recall.Posting) bool { return s.dead[p.Place] }))
		if err != nil {
			return recall.Postings{}, err
		}
		var fresh []recall.Posting
		for _, d := range s.fresh {
			if n := d.Count(term); n > 0 && !s.hidden(d.Group) {
				fresh = append(fresh, d.Posting(n))
			}
		}
		for _, l := range [][]recall.Posting{list, fresh} {
			if len(l) > 0 {
				lists = append(lists, l)
			}
		}
	}
	return recall.Gather(w.Text, lists...), nil
}

// hidden tells whether the viewer may not see messages of a group.
func (s *search) hidden(group string) bool {
	return s.space == recallTranscript && s.request.viewer != "" && group != "" && group != s.request.viewer
}

// shown leaves out the postings of messages that the viewer may not see. A posting has but a hash of its group: where that is
// the viewer's, the document says whether the group is.
func (s *search) shown(list []recall.Posting) ([]recall.Posting, error) {
	viewer := s.request.viewer
	if viewer == "" || s.space != recallTranscript {
		return list, nil
	}
	list = slices.DeleteFunc(list, func(p recall.Posting) bool { return recall.GroupHidden(p.Attrs, viewer) })
	var ask []recall.Place
	for _, p := range list {
		if _, known := s.visible[p.Place]; !known && recall.Grouped(p.Attrs) {
			ask = append(ask, p.Place)
		}
	}
	for places := range slices.Chunk(ask, maxOfOneRead) {
		q := store.Query{Keys: make([][]byte, len(places))}
		for i, at := range places {
			q.Keys[i] = recallPlace(s.p, s.space, recallDocument, at)
		}
		r, err := s.e.store.Read(s.ctx, s.tenant, q)
		if err != nil {
			return nil, err
		}
		for i, at := range places {
			d := readDocument(at, r.Keys[i], false)
			s.visible[at] = d != nil && d.Group == viewer
		}
	}
	return slices.DeleteFunc(list, func(p recall.Posting) bool {
		return recall.Grouped(p.Attrs) && !s.visible[p.Place]
	}), nil
}
