package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Limits of looking for variants of a word: terms that begin with it, or that it may be a misspelling of.
const (
	rareWord       = 1      // documents: a word in more of them is not a misspelling
	usualWord      = 256    // documents: if a word occurs in more, its compounds are not looked for
	farMore        = 10     // a rare word may be a misspelling only of a word in this many times as many documents
	maxVariants    = 64     // of a word
	maxTypos       = 4      // of a word, as possible intended words
	maxIdentifiers = 16     // that begin with a word
	variantBlocks  = 20_000 // whose terms are examined, for one word
	ownTerms       = 4096   // documents of namespaces, whose terms are read from them instead
)

// variant is a term that may stand for a word.
type variant struct {
	term   string
	edits  int
	count  int // of documents
	blocks termBlocks
}

// addVariants adds to words the terms that begin with them, if the words ask for that, and to rare words the terms that
// they may be misspellings of. It reads blocks a little later than the query's state. A document that was put into
// blocks in the meantime counts its words twice, which changes its rank slightly and only for this query.
func (s *search) addVariants(words []asked) error {
	for i := range words {
		w := &words[i]
		var found []variant
		for _, b := range w.Begins {
			if b.More > 0 && w.length >= usualWord {
				continue
			}
			some, err := s.beginning(w, b)
			if err != nil {
				return err
			}
			found = append(found, some...)
		}
		found, err := s.load(found, maxVariants)
		if err != nil {
			return err
		}
		if len(found) == 0 && w.length == 0 {
			if found, err = s.otherwise(w); err != nil {
				return err
			}
		}
		if len(found) == 0 && w.length == 0 && len(w.Within) > 0 {
			if found, err = s.compounds(w); err != nil {
				return err
			}
			w.typo = len(found) > 0
		}
		if len(found) == 0 && w.Edits > 0 && w.length <= rareWord {
			if found, err = s.typos(w); err != nil {
				return err
			}
			w.typo = len(found) > 0
		}
		w.Terms, w.blocks = slices.Clone(w.Terms), slices.Clone(w.blocks)
		for _, v := range found {
			w.Terms, w.blocks = append(w.Terms, v.term), append(w.blocks, v.blocks)
			w.as = append(w.as, rank.Spelled(v.term))
		}
	}
	return nil
}

// beginning returns the terms that match b.
func (s *search) beginning(w *asked, b rank.Beginning) ([]variant, error) {
	return s.variants(w, b.Term, func(term string) (int, bool) {
		more := utf8.RuneCountInString(term) - utf8.RuneCountInString(b.Term)
		return 0, more >= b.More && (b.Most == 0 || more <= b.Most)
	})
}

// otherwise returns the terms for a word that no document contains: other spellings of it, and identifiers that begin
// with it.
func (s *search) otherwise(w *asked) (found []variant, err error) {
	for _, term := range w.Otherwise {
		found = append(found, variant{term: term})
	}
	if found, err = s.load(found, maxVariants); err != nil {
		return nil, err
	}
	for _, b := range w.OtherwiseBegins {
		some, err := s.beginning(w, b)
		if err != nil {
			return nil, err
		}
		if some, err = s.load(some, maxIdentifiers); err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

// leastRest is the minimum number of letters of a compound before and after a word in its middle.
const leastRest = 3

// compounds returns the compounds with a word in the middle. They are indexed backwards.
func (s *search) compounds(w *asked) ([]variant, error) {
	found, err := s.variants(w, rank.BackwardsMark, func(term string) (int, bool) {
		compound := term[len(rank.BackwardsMark):]
		return 0, slices.ContainsFunc(w.Within, func(stem string) bool {
			at := strings.Index(compound, stem)
			return at >= 0 && utf8.RuneCountInString(compound[:at]) >= leastRest &&
				utf8.RuneCountInString(compound[at+len(stem):]) >= leastRest
		})
	})
	if err != nil {
		return nil, err
	}
	return s.load(found, maxVariants)
}

// typos returns the terms that a word may be a misspelling of: the nearest ones, and of these the most frequent. It
// assumes that the first letter is right.
func (s *search) typos(w *asked) (found []variant, err error) {
	for _, own := range w.Terms {
		if strings.HasPrefix(own, rank.StopMark) {
			continue
		}
		_, size := utf8.DecodeRuneInString(own)
		some, err := s.variants(w, own[:size], func(term string) (int, bool) {
			n := Edits(own, term, w.Edits)
			return n, n <= w.Edits
		})
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	slices.SortFunc(found, func(a, b variant) int {
		return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.edits, b.edits))
	})
	found = slices.CompactFunc(found, func(a, b variant) bool { return a.term == b.term })
	slices.SortStableFunc(found, func(a, b variant) int { return cmp.Compare(a.edits, b.edits) })
	if found, err = s.load(found, maxVariants); err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(v variant) bool { return v.count < farMore*w.length })
	slices.SortStableFunc(found, func(a, b variant) int {
		return cmp.Or(cmp.Compare(a.edits, b.edits), cmp.Compare(b.count, a.count))
	})
	nearest := slices.IndexFunc(found, func(v variant) bool { return v.edits > found[0].edits })
	if nearest < 0 {
		nearest = len(found)
	}
	return found[:min(nearest, maxTypos)], nil
}

// load reads the blocks of variants, counts their documents, and returns up to most variants: the first ones that are in
// documents that the query may see and that are not dead.
func (s *search) load(found []variant, most int) (out []variant, err error) {
	for some := range slices.Chunk(found, most) {
		terms := make([]string, len(some))
		for i, v := range some {
			terms[i] = v.term
		}
		read, err := s.readBlocks(terms)
		if err != nil {
			return nil, err
		}
		for i, blocks := range read {
			v := some[i]
			v.blocks = blocks
			if v.count, err = s.length(v.term, v.blocks); err != nil {
				return nil, err
			}
			if v.count > 0 && len(out) < most {
				out = append(out, v)
			}
		}
		if len(out) == most {
			break
		}
	}
	return out, nil
}

// variants returns the terms of the space that have a prefix and fit, except the word's own, sorted.
func (s *search) variants(w *asked, begin string, fits func(term string) (edits int, ok bool)) ([]variant, error) {
	terms, err := s.inBlocks(begin)
	if err != nil {
		return nil, err
	}
	var out []variant
	take := func(term string) {
		if n, ok := fits(term); ok && !slices.Contains(w.Terms, term) {
			out = append(out, variant{term: term, edits: n})
		}
	}
	for _, term := range terms {
		take(term)
	}
	for _, d := range s.fresh {
		at, _ := slices.BinarySearchFunc(d.Terms, begin, func(t rank.TermCount, term string) int {
			return cmp.Compare(t.Term, term)
		})
		for ; at < len(d.Terms) && strings.HasPrefix(d.Terms[at].Term, begin); at++ {
			if !s.hidden(d.Group) {
				take(d.Terms[at].Term)
			}
		}
	}
	slices.SortFunc(out, func(a, b variant) int { return cmp.Compare(a.term, b.term) })
	return slices.CompactFunc(out, func(a, b variant) bool { return a.term == b.term }), nil
}

// without returns the places of documents that contain any of some words.
func (s *search) without(words []rank.Word, blocks []termBlocks) (map[rank.Place]bool, error) {
	out := map[rank.Place]bool{}
	for _, w := range words {
		p, err := s.gather(w, blocks[:len(w.Terms)])
		if err != nil {
			return nil, err
		}
		blocks = blocks[len(w.Terms):]
		all := p.All()
		for i := range all {
			out[all[i].Place] = true
		}
	}
	return out, nil
}

// inBlocks returns the terms in blocks that have a prefix, sorted. For a query in small namespaces these are the terms
// of their documents, so that it does not matter what other namespaces hold. Otherwise some may be only in other
// namespaces, or in no block any more.
func (s *search) inBlocks(begin string) (terms []string, err error) {
	if s.numbers != nil && len(s.numbers) <= maxRanges && s.stored <= ownTerms {
		return s.ownTerms(begin)
	}
	letter := firstLetter(begin)
	var d *dictionary
	s.svc.cache.look(s.cached, s.state, dictionaryPart, [][]byte{[]byte(letter)}, func(_ int, part any) {
		d = part.(*dictionary)
	})
	if d == nil && letter != "" {
		if d, err = s.readDictionary(letter); err != nil {
			return nil, err
		}
	}
	if d != nil {
		if terms, all := d.beginning(begin); all || begin == letter {
			return terms, nil
		}
	}
	d, err = s.readDictionary(begin)
	if err != nil {
		return nil, err
	}
	return d.terms, nil
}

// readDictionary reads which terms in blocks have a prefix, somewhat later than the query's state. It examines a limited
// number of blocks. The terms with a first letter are cached.
func (s *search) readDictionary(begin string) (*dictionary, error) {
	rng := records.PrefixRange(bytes.TrimSuffix(s.blocks(begin).From, []byte{records.Sep}))
	rng.KeysOnly, rng.Limit = true, variantBlocks
	r, err := s.svc.db.Store.Read(s.ctx, s.tenant,
		store.Query{Keys: [][]byte{s.jobKey(), s.corpusKey()}, Ranges: []store.Range{rng}})
	if err != nil {
		return nil, err
	}
	d := &dictionary{whole: len(r.Ranges[0]) < variantBlocks}
	for _, it := range r.Ranges[0] {
		_, _, term, _, _, _ := records.RecallBlock.Split(it.Key)
		if n := len(d.terms); n == 0 || d.terms[n-1] != term {
			d.terms = append(d.terms, term)
		}
	}
	if begin == firstLetter(begin) && s.stateIn(r.Keys[0], r.Keys[1]) == s.state {
		s.svc.cache.keep(s.cached, s.state, dictionaryPart, []byte(begin), d, d.size())
	}
	return d, nil
}

// ownTerms returns the terms with a prefix in the documents of the query's namespaces, sorted. It reads the documents once.
func (s *search) ownTerms(begin string) ([]string, error) {
	if s.vocabulary == nil {
		own := map[string]bool{}
		for _, n := range s.numbers {
			all := records.RecallDocument.Under2(s.Project, s.Kind).From
			rng := records.PrefixRange(binary.BigEndian.AppendUint64(slices.Clone(all), n))
			for it, err := range s.svc.db.Scan(s.ctx, s.tenant, rng) {
				if err != nil {
					return nil, err
				}
				d := readDocument(it, true)
				if d == nil || s.dead[d.Place] || s.hidden(d.Group) {
					s.damaged = s.damaged || d == nil
					continue
				}
				for _, t := range d.Terms {
					own[t.Term] = true
				}
			}
		}
		s.vocabulary = slices.Sorted(maps.Keys(own))
	}
	terms, _ := (&dictionary{terms: s.vocabulary}).beginning(begin)
	return terms, nil
}
