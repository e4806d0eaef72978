package index

import (
	"cmp"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// asked is a word of the query with the blocks of each of its terms.
type asked struct {
	rank.Word
	blocks [][]store.Item
	length int // of all postings, about
}

// rarest leaves out the words that ranking would leave out for being common, before their postings are unpacked. With a
// viewer it leaves that to ranking, because documents that the viewer may not see must not decide.
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

// gather puts one word's postings together, without those of dead documents and of what the viewer may not see.
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

// shown leaves out the postings of documents that the viewer may not see. A posting has only a hash of its document's
// group. Where the hash is that of the viewer's group, the document itself is read.
func (s *search) shown(list []rank.Posting) ([]rank.Posting, error) {
	if s.Viewer == "" {
		return list, nil
	}
	list = slices.DeleteFunc(list, func(p rank.Posting) bool { return p.Attrs.HiddenFrom(s.Viewer) })
	var ask [][]byte
	for _, p := range list {
		if _, known := s.visible[p.Place]; !known && p.Attrs.Grouped() {
			ask = append(ask, s.documentKey(p.Place))
		}
	}
	for keys := range slices.Chunk(ask, documentsAtOnce) {
		r, err := s.svc.db.Store.Read(s.ctx, s.tenant, store.Query{Keys: keys})
		if err != nil {
			return nil, err
		}
		for _, it := range r.Keys {
			d := readDocument(it, false)
			s.visible[placeOf(it.Key)] = d != nil && d.Group == s.Viewer
		}
	}
	return slices.DeleteFunc(list, func(p rank.Posting) bool { return p.Attrs.Grouped() && !s.visible[p.Place] }), nil
}
