package index

import (
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// DeleteDocument takes what an id stands for out of the index, in the batch that removes it.
func (svc *Service) DeleteDocument(t *records.Tx, p ident.Incarnation, id string) error {
	_, err := svc.Change(t, p, records.RecallMemories, func() error { return svc.removePassages(t, p, id) })
	return err
}

func (svc *Service) removePassages(t *records.Tx, p ident.Incarnation, id string) error {
	key := records.RecallMemory.Key(p, id)
	got, err := t.Look(key)
	if err != nil {
		return err
	}
	var at PassagesAt
	switch {
	case got[0].Damaged, got[0].Value != nil && json.Unmarshal(got[0].Value, &at) != nil:
		return ErrBroken
	case got[0].Value == nil:
		return nil
	}
	t.Delete(key)
	places := make([]rank.Place, at.Count)
	for i := range places {
		places[i] = at.Place(uint64(i))
	}
	return svc.removeDocuments(t, p, records.RecallMemories, at.Epoch, places)
}

// removeDocuments takes documents out of a space, with their postings as far as one batch can. Those whose postings
// stay are marked as dead, and a job removes them. The epoch is that of those that still wait for their block.
func (svc *Service) removeDocuments(t *records.Tx, p ident.Incarnation, space byte, epoch uint32, places []rank.Place) error {
	corpusKey := records.RecallCorpus.Key(p, space)
	ask, folded := [][]byte{corpusKey}, make([][]byte, len(places))
	for i, at := range places {
		ask = append(ask, records.RecallFresh.Key(p, space, epoch, at.Stream, at.Pos))
		folded[i] = records.RecallDocument.Key(p, space, at.Stream, at.Pos)
	}
	// Who puts a document into blocks takes it from among the fresh ones, which is what this expects not to happen.
	got, err := t.Look(ask...)
	if err != nil {
		return err
	}
	corpus, err := decodeCorpus(got[0])
	if err != nil {
		return err
	}
	r, err := svc.db.Store.Read(t.Ctx, t.Tenant, store.Query{Keys: folded})
	if err != nil {
		return err
	}
	changed, blocks := false, 0
	for i, it := range r.Keys {
		if fresh := got[i+1]; fresh.Value != nil || fresh.Damaged {
			t.Delete(fresh.Key)
			continue
		}
		if it.Value == nil && !it.Damaged {
			continue
		}
		d := readDocument(places[i], it, true)
		if d == nil || corpus.Documents == 0 || corpus.Terms < uint64(d.Len) {
			return ErrBroken
		}
		changed = true
		corpus.Documents--
		corpus.Terms -= uint64(d.Len)
		if blocks+len(d.Terms) > maxBlockRewrites {
			t.Put(records.RecallDead.Key(p, space, places[i].Stream, places[i].Pos), []byte{0})
			svc.jobs.Poke(t.Tenant)
			continue // the job is there as long as documents are
		}
		blocks += len(d.Terms)
		t.Delete(it.Key)
		if err := removePostings(t, p, space, d); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	corpus.Version++
	return t.PutJSON(corpusKey, corpus)
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
func removePostings(t *records.Tx, p ident.Incarnation, space byte, d *rank.Document) error {
	q := store.Query{Ranges: make([]store.Range, len(d.Terms))}
	for i, term := range d.Terms {
		q.Ranges[i] = blockOf(records.RecallBlock.Under3(p, space, term.Term).From, d.Place)
	}
	r, err := t.DB.Store.Read(t.Ctx, t.Tenant, q)
	if err != nil {
		return err
	}
	for _, items := range r.Ranges {
		if len(items) == 0 {
			continue
		}
		it := t.Left(items[0])
		if it.Value == nil && !it.Damaged {
			continue // emptied before in this batch
		}
		block, err := rank.ReadBlock(nil, it.Value)
		if err != nil {
			return ErrBroken
		}
		switch left := rank.Without(slices.Clone(block), d.Place); {
		case len(left) == len(block):
		case len(left) == 0:
			t.Delete(it.Key)
		default:
			t.Put(it.Key, rank.AppendBlock(nil, left))
		}
	}
	return nil
}

// blockOf is the range that gives the block in which a place's posting is, or would go: the last that begins no later.
func blockOf(term []byte, at rank.Place) store.Range {
	from := slices.Clone(term)
	return store.Range{From: from, To: append(appendPlace(term, at), 0), Reverse: true, Limit: 1}
}
