package index

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Limits of the words of a query that are looked up.
const (
	maxQueryWords = 256 // whose postings are read
	countedBlocks = 16  // of a word, if there are more words than that: a word with more blocks counts as common
	commonSpeaker = 20  // a speaker of at least one in this many documents counts as frequent
)

// rarestOf returns the words of the query. If there are too many, it keeps those in the fewest blocks and fresh
// documents.
func (s *search) rarestOf(words []rank.Word, oldest uint32) ([]rank.Word, error) {
	if len(words) <= maxQueryWords {
		return words, nil
	}
	var terms []string
	for _, w := range words {
		terms = append(terms, w.Terms...)
	}
	blocks := s.blocksOf(terms, "")
	q := store.Query{Ranges: []store.Range{s.Space.fresh(oldest)}}
	for _, rng := range blocks.ranges {
		// In namespaces, blocks also have postings of other namespaces, which must not count.
		rng.KeysOnly = s.numbers == nil
		if rng.Limit == 0 {
			rng.Limit = countedBlocks
		}
		q.Ranges = append(q.Ranges, rng)
	}
	r, err := s.svc.db.Store.Read(s.ctx, s.tenant, q)
	if err != nil {
		return nil, err
	}
	waiting := map[string]int{}
	for _, it := range r.Ranges[0] {
		if d := readDocument(it, true); d != nil && s.insidePath(d.Path) {
			for _, t := range d.Terms {
				waiting[t.Term]++
			}
		}
	}
	blocks.add(r.Ranges[1:], "")
	counts, found := make(map[string]int, len(words)), blocks.byTerm()
	for _, w := range words {
		for i, term := range w.Terms {
			counts[w.Text] += s.estimate(found[i]) + waiting[term]
		}
		found = found[len(w.Terms):]
	}
	if s.Unindexed == nil { // otherwise a word may be in documents that only the search itself reads
		words = slices.DeleteFunc(words, func(w rank.Word) bool { return counts[w.Text] == 0 })
	}
	slices.SortStableFunc(words, func(a, b rank.Word) int { return cmp.Compare(counts[a.Text], counts[b.Text]) })
	return words[:min(len(words), maxQueryWords)], nil
}

// estimate counts the postings in blocks. If the query may see all namespaces, the blocks were not read, and each counts
// as full.
func (s *search) estimate(blocks termBlocks) (n int) {
	if s.numbers == nil {
		return len(blocks.items) * rank.BlockSize
	}
	for _, it := range blocks.items {
		block, _ := rank.ReadBlock(nil, placeOf(it.Key), it.Value) // gathering the postings reports an error
		n += len(s.alive(block))
	}
	return n
}

// terms returns all terms to look up for a word: its own, and in transcripts that of a speaker with this name.
func (s *search) terms(w rank.Word) []string {
	if s.Kind != records.RecallTranscript {
		return w.Terms
	}
	return append(slices.Clone(w.Terms), rank.SpeakerTerm(w.Text))
}

// asked is a word of the query with the blocks of each of its terms.
type asked struct {
	rank.Word
	as     []string // those of its own terms that are variants of it
	typo   bool     // the variants are guesses
	blocks []termBlocks
	name   string     // the term of a speaker with this name, or ""
	said   termBlocks // its blocks
	length int        // approximate number of all postings
}

// rarest removes the words that ranking would ignore as common, before their postings are decoded. If there is a viewer
// it leaves that to ranking, because documents that the viewer may not see must not influence the choice.
func (s *search) rarest(words []rank.Word, blocks []termBlocks) ([]asked, error) {
	out := make([]asked, len(words))
	for i, w := range words {
		out[i] = asked{Word: w, blocks: blocks[:len(w.Terms)]}
		blocks = blocks[len(w.Terms):]
		if s.Kind == records.RecallTranscript {
			out[i].name, out[i].said, blocks = rank.SpeakerTerm(w.Text), blocks[0], blocks[1:]
		}
	}
	for i := range out {
		for n, term := range out[i].Terms {
			length, err := s.length(term, out[i].blocks[n])
			if err != nil {
				return nil, err
			}
			out[i].length += length
		}
	}
	if len(words) <= rank.MaxWords || s.Viewer != "" {
		return out, nil
	}
	out = slices.DeleteFunc(out, func(a asked) bool { return a.length == 0 })
	if len(out) > rank.MaxWords {
		slices.SortStableFunc(out, func(a, b asked) int { return cmp.Compare(a.length, b.length) })
		out = out[:rank.MaxWords]
	}
	return out, nil
}

// length counts a term's postings, except those of documents that are dead or that the viewer may not see.
func (s *search) length(term string, blocks termBlocks) (n int, err error) {
	switch {
	case s.Viewer != "":
		list, err := s.shown(s.alive(slices.Clone(s.decode(blocks).list)))
		if err != nil {
			return 0, err
		}
		n = len(list)
	case len(s.dead) == 0 && s.within == nil:
		for _, it := range blocks.items {
			n += rank.BlockLen(it.Value)
		}
	default:
		list := s.decode(blocks).list
		for i := range list {
			if s.inside(list[i].Place) {
				n++
			}
		}
		for at := range s.dead {
			if _, found := slices.BinarySearchFunc(list, at, rank.Posting.Compare); found && s.inside(at) {
				n--
			}
		}
	}
	for _, d := range s.fresh {
		if !s.hidden(d.Group) {
			n += int(min(d.Count(term), 1))
		}
	}
	return n, nil
}

// alive removes the postings of dead documents, and of namespaces that the query may not see.
func (s *search) alive(list []rank.Posting) []rank.Posting {
	if len(s.dead) == 0 && s.within == nil {
		return list
	}
	return slices.DeleteFunc(list, func(p rank.Posting) bool { return s.dead[p.Place] || !s.inside(p.Place) })
}

// gatherAll gathers the postings of all words. A word may be the name of a speaker. If the speaker has said little of
// what is searched, all their texts count as containing the name. If the speaker has said much, the name is not
// selective: their texts are preferred, but the name is not a required word, unless the query has no other.
func (s *search) gatherAll(q *rank.Request, words []asked) error {
	var names []asked
	for _, a := range words {
		said := 0
		if a.name != "" {
			var err error
			if said, err = s.length(a.name, a.said); err != nil {
				return err
			}
		}
		if uint64(said)*commonSpeaker >= q.Corpus.Documents {
			some, err := s.gather(rank.Word{Terms: []string{a.name}}, []termBlocks{a.said.first()})
			if err != nil {
				return err
			}
			all := some.All()
			for i := range all {
				q.Speakers.Add(&all[i])
			}
			if len(all) > 0 {
				names = append(names, a.withName())
				continue
			}
		}
		if said > 0 {
			a = a.withName()
		}
		p, err := s.gather(a.Word, a.blocks)
		if err != nil {
			return err
		}
		p.As, p.Typo = a.as, a.typo
		q.Words = append(q.Words, p)
	}
	if slices.ContainsFunc(q.Words, func(p rank.Postings) bool { return len(p.List)+len(p.Fresh) > 0 }) {
		return nil
	}
	for _, a := range names {
		p, err := s.gather(a.Word, a.blocks)
		if err != nil {
			return err
		}
		p.As, p.Typo = a.as, a.typo
		q.Words = append(q.Words, p)
	}
	return nil
}

// withName also selects for the word the messages of the speaker with this name.
func (a asked) withName() asked {
	a.Terms, a.blocks = append(slices.Clone(a.Terms), a.name), append(slices.Clone(a.blocks), a.said)
	return a
}

// gather gathers one word's postings, except those of documents that are dead or that the viewer may not see.
func (s *search) gather(w rank.Word, blocks []termBlocks) (rank.Postings, error) {
	out := rank.Postings{Word: w.Text, Terms: w.Terms}
	if err := s.ctx.Err(); err != nil {
		return out, err
	}
	all := s.unite(w.Terms, blocks)
	whole := false
	if out.List, out.Shape, whole = s.whole(all); !whole {
		list, err := s.shown(s.alive(append(s.buffer.Room(len(all.list)), all.list...)))
		if err != nil {
			return out, err
		}
		out.List = s.buffer.Keep(list)
	}
	out.Fresh = s.gatherFresh(w.Terms)
	return out, nil
}

// united is the postings of several terms together.
type united struct {
	of  []*atomic.Pointer[postings] // termBlocks.decoded of each term, which says which blocks they are of
	all *postings
}

// unite returns the decoded postings of all terms. If several terms have some, only what they have together is cached.
func (s *search) unite(terms []string, blocks []termBlocks) *postings {
	var some []termBlocks
	var of []*atomic.Pointer[postings]
	for _, b := range blocks {
		if len(b.items) > 0 {
			some, of = append(some, b), append(of, b.decoded)
		}
	}
	switch len(some) {
	case 0:
		return &postings{shape: rank.ShapeOf(nil)}
	case 1:
		return s.decode(some[0])
	}
	name := []byte(strings.Join(terms, "\x00"))
	var kept *united
	s.svc.cache.look(s.cached, s.state, unitedPart, [][]byte{name}, func(_ int, part any) { kept = part.(*united) })
	cached := !slices.Contains(of, nil)
	if cached && kept != nil && slices.Equal(kept.of, of) {
		return kept.all
	}
	all := &postings{}
	for _, b := range some {
		before := len(all.list)
		list, whole := s.appendPostings(all.list, b)
		all.list, cached = s.buffer.Unite(list, before), cached && whole
	}
	all.shape = rank.ShapeOf(all.list)
	if cached {
		s.svc.cache.keep(s.cached, s.state, unitedPart, name, &united{of, all}, cap(all.list)*postingSize)
	}
	return all
}

// whole returns the part of a list that the query may see, if all documents of that part count.
func (s *search) whole(p *postings) (list []rank.Posting, shape *rank.Shape, ok bool) {
	if s.Viewer != "" || len(s.numbers) > 1 {
		return nil, nil, false
	}
	list, shape = p.list, p.shape
	if len(s.numbers) == 1 {
		after := func(p rank.Posting, n uint64) int { return cmp.Compare(p.Namespace, n) }
		from, _ := slices.BinarySearchFunc(list, s.numbers[0], after)
		to := len(list)
		if s.numbers[0] < math.MaxUint64 {
			to, _ = slices.BinarySearchFunc(list, s.numbers[0]+1, after)
		}
		if to-from < len(list) {
			list, shape = list[from:to], nil
		}
	}
	for at := range s.dead {
		if _, found := slices.BinarySearchFunc(list, at, rank.Posting.Compare); found {
			return nil, nil, false
		}
	}
	return list, shape, true
}

// gatherFresh gathers the postings of fresh documents that contain some term.
func (s *search) gatherFresh(terms []string) (list []rank.Posting) {
	for _, d := range s.fresh {
		if s.hidden(d.Group) {
			continue
		}
		count := uint32(0)
		for _, term := range terms {
			count += d.Count(term)
		}
		if count > 0 {
			list = append(list, d.Posting(count))
		}
	}
	return list
}

// postings are the decoded postings of blocks.
type postings struct {
	list  []rank.Posting
	shape *rank.Shape
}

// decode decodes blocks. Blocks that are cached are decoded once.
func (s *search) decode(b termBlocks) *postings {
	if b.decoded != nil {
		if p := b.decoded.Load(); p != nil {
			return p
		}
	}
	list, whole := s.appendPostings(nil, b)
	p := &postings{list: list, shape: rank.ShapeOf(list)}
	if whole && b.decoded != nil && len(p.list) > 0 {
		b.decoded.Store(p)
		s.svc.cache.grow(s.cached, s.state, b)
	}
	return p
}

// appendPostings appends the postings of blocks to a list. whole is false if a block is damaged: it is left out, and each
// query has to notice it.
func (s *search) appendPostings(list []rank.Posting, b termBlocks) (_ []rank.Posting, whole bool) {
	n := 0
	whole = true
	for _, it := range b.items {
		n += rank.BlockLen(it.Value)
	}
	list = slices.Grow(list, n)
	for _, it := range b.items {
		more, err := rank.ReadBlock(list, placeOf(it.Key), it.Value)
		if err != nil {
			whole, s.damaged = false, true
			continue
		}
		list = more
	}
	return list, whole
}

// hidden reports whether documents of a group are hidden from the viewer.
func (s *search) hidden(group string) bool {
	return s.Viewer != "" && group != "" && group != s.Viewer
}

// shown removes the postings of documents that the viewer may not see. A posting has only a hash of its document's
// group. If it equals the hash of the viewer's group, the document itself is read.
func (s *search) shown(list []rank.Posting) ([]rank.Posting, error) {
	if s.Viewer == "" {
		return list, nil
	}
	list = slices.DeleteFunc(list, func(p rank.Posting) bool { return p.Attrs.HiddenFrom(s.Viewer) })
	var ask []rank.Place
	for _, p := range list {
		if _, known := s.visible[p.Place]; !known && p.Attrs.Grouped() {
			ask = append(ask, p.Place)
		}
	}
	for places := range slices.Chunk(ask, documentsAtOnce) {
		items, err := s.readDocuments(places)
		if err != nil {
			return nil, err
		}
		for i, it := range items {
			d, err := rank.ReadDocument(places[i], it.Value, false)
			s.visible[places[i]] = err == nil && d.Group == s.Viewer
		}
	}
	return slices.DeleteFunc(list, func(p rank.Posting) bool { return p.Attrs.Grouped() && !s.visible[p.Place] }), nil
}
