package engine

import (
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// deleteDocument takes what an id stands for out of the index, in the batch that removes it.
func (t *tx) deleteDocument(p incarnation, id string) error {
	_, err := t.changeIndex(p, recallMemories, func() error { return t.removePassages(p, id) })
	return err
}

func (t *tx) removePassages(p incarnation, id string) error {
	key := kindRecallMemory.Key(p, id)
	got, err := t.look(key)
	if err != nil {
		return err
	}
	var at passagesAt
	switch {
	case got[0].Damaged, got[0].Value != nil && json.Unmarshal(got[0].Value, &at) != nil:
		return errBroken
	case got[0].Value == nil:
		return nil
	}
	t.delete(key)
	places := make([]rank.Place, at.Count)
	for i := range places {
		places[i] = at.place(uint64(i))
	}
	return t.removeDocuments(p, recallMemories, at.Epoch, places)
}

// removeDocuments takes documents out of a space, with their postings as far as one batch can. Those whose postings
// stay are marked as dead, and a job removes them. The epoch is that of those that still wait for their block.
func (t *tx) removeDocuments(p incarnation, space byte, epoch uint32, places []rank.Place) error {
	corpusKey := kindRecallCorpus.Key(p, space)
	ask, folded := [][]byte{corpusKey}, make([][]byte, len(places))
	for i, at := range places {
		ask = append(ask, kindRecallFresh.Key(p, space, epoch, at.Stream, at.Pos))
		folded[i] = kindRecallDocument.Key(p, space, at.Stream, at.Pos)
	}
	// Who puts a document into blocks takes it from among the fresh ones, which is what this expects not to happen.
	got, err := t.look(ask...)
	if err != nil {
		return err
	}
	corpus, err := decodeCorpus(got[0])
	if err != nil {
		return err
	}
	r, err := t.e.store.Read(t.ctx, t.tenant, store.Query{Keys: folded})
	if err != nil {
		return err
	}
	changed, blocks := false, 0
	for i, it := range r.Keys {
		if fresh := got[i+1]; fresh.Value != nil || fresh.Damaged {
			t.delete(fresh.Key)
			continue
		}
		if it.Value == nil && !it.Damaged {
			continue
		}
		d := readDocument(places[i], it, true)
		if d == nil || corpus.Documents == 0 || corpus.Terms < uint64(d.Len) {
			return errBroken
		}
		changed = true
		corpus.Documents--
		corpus.Terms -= uint64(d.Len)
		if blocks+len(d.Terms) > maxBlockRewrites {
			t.put(kindRecallDead.Key(p, space, places[i].Stream, places[i].Pos), []byte{0})
			t.e.poke(t.tenant)
			continue // the job is there as long as documents are
		}
		blocks += len(d.Terms)
		t.delete(it.Key)
		if err := t.removePostings(p, space, d); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	corpus.Version++
	return t.putJSON(corpusKey, corpus)
}

// readDocument reads a stored document, or gives nil where it is damaged.
func readDocument(at rank.Place, it store.Item, terms bool) *rank.Document {
	d, err := rank.ReadDocument(at, it.Value, terms)
	if err != nil {
		return nil
	}
	return d
}

// removePostings takes a document's postings out of their blocks. A block that gets empty goes.
func (t *tx) removePostings(p incarnation, space byte, d *rank.Document) error {
	q := store.Query{Ranges: make([]store.Range, len(d.Terms))}
	for i, term := range d.Terms {
		q.Ranges[i] = blockOf(kindRecallBlock.Under3(p, space, term.Term).From, d.Place)
	}
	r, err := t.e.store.Read(t.ctx, t.tenant, q)
	if err != nil {
		return err
	}
	for _, items := range r.Ranges {
		if len(items) == 0 {
			continue
		}
		it := t.left(items[0])
		if it.Value == nil && !it.Damaged {
			continue // emptied before in this batch
		}
		block, err := rank.ReadBlock(nil, it.Value)
		if err != nil {
			return errBroken
		}
		switch left := rank.Without(slices.Clone(block), d.Place); {
		case len(left) == len(block):
		case len(left) == 0:
			t.delete(it.Key)
		default:
			t.put(it.Key, rank.AppendBlock(nil, left))
		}
	}
	return nil
}

// blockOf is the range that gives the block in which a place's posting is, or would go: the last that begins no later.
func blockOf(term []byte, at rank.Place) store.Range {
	from := slices.Clone(term)
	return store.Range{From: from, To: append(appendPlace(term, at), 0), Reverse: true, Limit: 1}
}
