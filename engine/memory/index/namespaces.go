package index

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// A namespace is a boundary: a query in one is answered as if the project had no other. Places begin with the number of
// the namespace, so a term's postings of one namespace are adjacent, and a query reads the blocks that contain them.
// Ranking and spelling use only these postings, and the counts that folds keep for each namespace.

// maxRanges limits the namespaces whose blocks are read by range. If there are more, whole terms are read, and the
// postings of other namespaces are left out.
const maxRanges = 64

// namespaceRecord says how many documents of a namespace itself are in blocks.
type namespaceRecord struct {
	Documents int64 `json:"documents"` // including dead ones
	Terms     int64 `json:"terms"`     // of all of them together
}

// namespaceCounts are changes of the counts by path.
type namespaceCounts map[string]namespaceRecord

// add counts a document n times.
func (c namespaceCounts) add(d *rank.Document, n int64) {
	if d.Path != "" {
		of := c[d.Path]
		c[d.Path] = namespaceRecord{of.Documents + n, of.Terms + n*int64(d.Len)}
	}
}

func (s Space) namespaceKey(path string) []byte {
	return records.RecallNamespace.Key(s.Project, s.Kind, path)
}

// count changes the counts of namespaces in a batch that changes the corpus. It removes those that have no documents.
func (f *folding) count(b *store.Batch, changes namespaceCounts) error {
	paths := slices.Sorted(maps.Keys(changes))
	if len(paths) == 0 {
		return nil
	}
	var q store.Query
	for _, path := range paths {
		q.Keys = append(q.Keys, f.namespaceKey(path))
	}
	r, err := f.svc.db.Store.Read(f.ctx, f.tenant, q)
	if err != nil {
		return err
	}
	for i, it := range r.Keys {
		var n namespaceRecord
		if it.Damaged || it.Value != nil && json.Unmarshal(it.Value, &n) != nil {
			return ErrBroken
		}
		change := changes[paths[i]]
		n.Documents += change.Documents
		n.Terms += change.Terms
		switch {
		case n.Documents < 0 || n.Terms < 0:
			return ErrBroken
		case n.Documents > 0:
			value, err := json.Marshal(n)
			if err != nil {
				return err
			}
			b.Put = append(b.Put, store.Pair{Key: it.Key, Value: value})
		case it.Value != nil:
			b.Delete = append(b.Delete, it.Key)
		}
	}
	return nil
}

// namespaceRanges returns the ranges of the counts of the namespaces that the query may see.
func (s *search) namespaceRanges() (out []store.Range) {
	for _, path := range s.Under {
		own := s.namespaceKey(path)
		below := records.PrefixRange(s.namespaceKey(path + "/"))
		out = append(out, store.Range{From: own, To: append(slices.Clone(own), 0)}, below)
	}
	return out
}

// readNamespaces sets the numbers of the namespaces that the query may see, unless it may see all. It returns the
// counts of their documents in blocks, and reports whether there are more namespaces than before.
func (s *search) readNamespaces(found [][]store.Item) (in rank.Corpus, grown bool) {
	numbers := map[uint64]bool{}
	for _, path := range s.Under {
		numbers[s.Number(path)] = true
	}
	prefix := len(s.namespaceKey(""))
	for _, it := range slices.Concat(found...) {
		number := s.Number(string(it.Key[prefix:]))
		var n namespaceRecord
		if it.Damaged || json.Unmarshal(it.Value, &n) != nil {
			s.damaged = true
		}
		numbers[number] = true
		in.Documents += uint64(n.Documents)
		in.Terms += uint64(n.Terms)
	}
	grown = len(s.numbers) < len(numbers)
	if grown {
		s.numbers = slices.Sorted(maps.Keys(numbers))
		s.within = numbers
	}
	return in, grown
}

// findNamespaces sets the numbers of the namespaces that the query may see.
func (s *search) findNamespaces() error {
	if s.Under == nil {
		return nil
	}
	r, err := s.svc.db.Store.Read(s.ctx, s.tenant, store.Query{Ranges: s.namespaceRanges()})
	if err == nil {
		s.readNamespaces(r.Ranges)
	}
	return err
}

// inside reports whether a place is in a namespace that the query may see.
func (s *search) inside(at rank.Place) bool { return s.within == nil || s.within[at.Namespace] }

// insidePath reports whether the query may see the namespace with a path.
func (s *search) insidePath(path string) bool {
	return s.Under == nil || slices.ContainsFunc(s.Under, func(u string) bool { return ident.PathWithin(path, u) })
}

// namespaceBlocks returns two ranges. before is the last block that begins before the namespace, which may have its
// first postings. rng is the blocks that begin in the namespace.
func (s Space) namespaceBlocks(term string, number uint64) (before, rng store.Range) {
	from := s.blockKey(term, rank.Place{Namespace: number})
	rng = records.PrefixRange(from[:len(from)-placeSize+8])
	return store.Range{From: s.blocks(term).From, To: rng.From, Reverse: true, Limit: 1}, rng
}

// languages returns the languages that some document that the query may see was stemmed in.
func (s *search) languages() ([]string, error) {
	all := records.RecallLanguage.Under2(s.Project, s.Kind)
	ranges, prefix := []store.Range{all}, len(all.From)
	if s.numbers != nil {
		all = records.RecallNamespaceLanguage.Under2(s.Project, s.Kind)
		ranges, prefix = []store.Range{all}, len(all.From)+8
		if len(s.numbers) <= maxRanges {
			ranges = nil
			for _, n := range s.numbers {
				ranges = append(ranges, records.RecallNamespaceLanguage.Under3(s.Project, s.Kind, n))
			}
		}
	}
	out := map[string]bool{}
	for _, rng := range ranges {
		rng.KeysOnly = true
		for it, err := range s.svc.db.Scan(s.ctx, s.tenant, rng) {
			if err != nil {
				return nil, err
			}
			_, _, number, _, ok := records.RecallNamespaceLanguage.Split(it.Key)
			if !ok || s.within[number] {
				out[string(it.Key[prefix:])] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out)), nil
}
