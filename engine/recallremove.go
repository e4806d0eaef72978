package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// unindexMemory takes a memory out of the index in the batch that removes it. What of the index is damaged goes as well, as
// far as what is known of the memory names it.
func (t *tx) unindexMemory(p *project, d recallDoc) error {
	key := recallPlacesKey(p.Incarnation, d.id)
	got, err := t.indexGet(key)
	if err != nil {
		return err
	}
	var at passagesAt
	switch {
	case got[0].Damaged, got[0].Value != nil && json.Unmarshal(got[0].Value, &at) != nil:
		t.e.log.Error("where a memory's passages are is damaged; they are looked for", "tenant", t.tenant)
		if at, err = t.e.passagesOf(t.ctx, t.tenant, p.Incarnation, d); err != nil {
			return err
		}
	case got[0].Value == nil:
		return nil
	}
	t.indexDelete(key)
	places := make([]recall.Place, at.Count)
	for i := range places {
		places[i] = at.place(uint64(i))
	}
	passages := sync.OnceValues(func() ([][]recall.TermCount, []uint32) {
		terms, _ := t.e.analyser.Document(d.text)
		return recall.Passages(terms)
	})
	return t.removeDocuments(p.Incarnation, recallMemories, at.Epoch, places, func(i int) *recall.Document {
		if d.text == "" {
			return nil
		}
		if terms, lens := passages(); i < len(terms) {
			return &recall.Document{Place: places[i], Terms: terms[i], Len: lens[i]}
		}
		return nil
	})
}

// removeDocuments takes documents out of a space, with their postings as far as one batch can. Those whose postings stay
// are marked as dead, and a job removes them. The epoch is that of those that still wait for their block. again, where
// there is one, makes a damaged document from what it was made of, or gives nil.
func (t *tx) removeDocuments(p incarnation, space byte, epoch uint32, places []recall.Place,
	again func(int) *recall.Document,
) error {
	var fresh, folded [][]byte
	for _, at := range places {
		fresh = append(fresh, recallFreshKey(p, space, epoch, at))
		folded = append(folded, recallPlace(p, space, recallDocument, at))
	}
	// Who puts a document into blocks takes it from among the fresh ones, which is what this expects not to happen.
	got, err := t.indexGet(fresh...)
	if err != nil {
		return err
	}
	corpus, whole, err := t.corpus(p, space)
	if err != nil {
		return err
	}
	r, err := t.e.store.Read(t.ctx, t.tenant, store.Query{Keys: folded})
	if err != nil {
		return err
	}
	changed := false
	for i, it := range r.Keys {
		if got[i].Value != nil || got[i].Damaged {
			t.indexDelete(fresh[i])
			continue
		}
		if it.Value == nil && !it.Damaged {
			continue
		}
		d := readDocument(places[i], it, true)
		if d == nil && again != nil {
			d = again(i)
		}
		changed = true
		if d != nil {
			corpus.drop(d.Len)
		} else {
			corpus.drop(0)
		}
		if d == nil || !whole || t.index.blocks+len(d.Terms) > maxBlockRewrites {
			t.indexPut(recallPlace(p, space, recallDead, places[i]), []byte{0})
			t.e.poke(t.tenant)
			continue // the job is there as long as documents are
		}
		t.indexDelete(it.Key)
		if err := t.removePostings(p, space, d); err != nil {
			return err
		}
	}
	if !changed || !whole {
		return nil
	}
	return t.putCorpus(p, space, corpus)
}

// readDocument reads a stored document, or gives nil where it is damaged.
func readDocument(at recall.Place, it store.Item, terms bool) *recall.Document {
	if it.Damaged {
		return nil
	}
	d, err := recall.ReadDocument(at, it.Value, terms)
	if err != nil {
		return nil
	}
	return d
}

// removePostings takes a document's postings out of their blocks. A block that gets empty goes.
func (t *tx) removePostings(p incarnation, space byte, d *recall.Document) error {
	q := store.Query{Ranges: make([]store.Range, len(d.Terms))}
	for i, term := range d.Terms {
		q.Ranges[i] = blockOf(recallTermPrefix(p, space, term.Term), d.Place)
	}
	r, err := t.e.store.Read(t.ctx, t.tenant, q)
	if err != nil {
		return err
	}
	c := t.indexed()
	for _, items := range r.Ranges {
		if len(items) == 0 {
			continue
		}
		it := items[0]
		value, written := c.written[string(it.Key)]
		if !written {
			value = it.Value
		}
		if value == nil {
			continue // emptied before in this batch, or damaged: nobody can read what it holds
		}
		block, err := recall.ReadBlock(nil, value)
		if err != nil {
			continue
		}
		left := recall.Without(slices.Clone(block), d.Place)
		switch {
		case len(left) == len(block):
		case len(left) == 0:
			t.indexDelete(it.Key)
		default:
			t.indexPut(it.Key, recall.AppendBlock(nil, left))
		}
		c.blocks++
	}
	return nil
}

// blockOf is the range that gives the block in which a place's posting is, or would go: the last that begins no later.
func blockOf(term []byte, at recall.Place) store.Range {
	from := slices.Clone(term)
	return store.Range{From: from, To: append(appendPlace(term, at), 0), Reverse: true, Limit: 1}
}

// strip takes what a damaged document put into blocks out of them: of each term, whatever block may hold its place. Every
// batch expects that nobody else has changed blocks since it began.
func (e *Engine) strip(ctx context.Context, tenant string, p incarnation, space byte, at recall.Place) error {
	it, corpus, err := e.readCorpus(ctx, tenant, p, space)
	if err != nil {
		return err
	}
	rng := prefixRange(recallPrefix(p, space, recallTerm))
	rng.KeysOnly, rng.Limit = true, scanChunk
	var block []byte // the last of its term that begins no later than the place
	for more := true; more; {
		r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
		if err != nil {
			return err
		}
		var look [][]byte
		for _, found := range r.Ranges[0] {
			term := found.Key[:len(found.Key)-16]
			if block != nil && !bytes.Equal(block[:len(block)-16], term) {
				look, block = append(look, block), nil
			}
			if splitPlace(found.Key).Compare(at) <= 0 {
				block = found.Key
			}
			rng.From = append(slices.Clone(found.Key), 0)
		}
		if more = len(r.Ranges[0]) == rng.Limit; !more && block != nil {
			look = append(look, block)
		}
		b, err := e.without(ctx, tenant, look, at)
		if err != nil {
			return err
		}
		if !more {
			b.Delete = append(b.Delete, recallPlace(p, space, recallDead, at), recallPlace(p, space, recallDocument, at))
		}
		if len(b.Put)+len(b.Delete) == 0 {
			continue
		}
		corpus.Version++
		value, err := json.Marshal(corpus)
		if err != nil {
			return err
		}
		b.Expect = []store.Expect{{Key: it.Key, Value: it.Value}}
		b.Put = append(b.Put, store.Pair{Key: it.Key, Value: value})
		if err := e.commit(ctx, tenant, b); err != nil {
			return err
		}
		it.Value = value
	}
	return nil
}

// without gives the writes that take a place's postings out of blocks.
func (e *Engine) without(ctx context.Context, tenant string, blocks [][]byte, at recall.Place) (b store.Batch, err error) {
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: blocks})
	if err != nil {
		return b, err
	}
	for _, it := range r.Keys {
		block, err := recall.ReadBlock(nil, it.Value)
		if it.Value == nil || err != nil {
			continue // gone, or damaged itself
		}
		switch left := recall.Without(slices.Clone(block), at); {
		case len(left) == len(block):
		case len(left) == 0:
			b.Delete = append(b.Delete, it.Key)
		default:
			b.Put = append(b.Put, store.Pair{Key: it.Key, Value: recall.AppendBlock(nil, left)})
		}
	}
	return b, nil
}
