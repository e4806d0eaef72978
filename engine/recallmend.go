package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// An index can be made again from what it stands for: a damaged record of it never fails what people ask for. Records that
// say how much there is are made anew here, once the next change needs them.

// mendChunk is how many documents are read at once to make a record anew.
const mendChunk = 250

// mendSpace makes the records of a space anew that are damaged of these two: what is in its blocks, and its epoch. Another
// process may do so at the same time: the counts may then be a little wrong, which moves scores by as little.
func (e *Engine) mendSpace(ctx context.Context, tenant string, p incarnation, space byte) error {
	e.mending.Lock()
	defer e.mending.Unlock()
	newest := prefixRange(recallPrefix(p, space, recallFresh))
	newest.Reverse, newest.KeysOnly, newest.Limit = true, true, 1
	corpusKey, epochKey := recallPrefix(p, space, recallCorpus), recallPrefix(p, space, recallEpoch)
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: [][]byte{corpusKey, epochKey}, Ranges: []store.Range{newest}})
	if err != nil {
		return err
	}
	t := &tx{ctx: ctx, e: e, tenant: tenant, now: e.now()}
	// The job goes last with its project: nothing is written into one that was swept.
	t.batch.Expect = []store.Expect{{Key: foldKey(p, space), Value: []byte{0}}}
	corpus, whole := decodeCorpus(r.Keys[0])
	if !whole {
		if corpus, err = e.countDocuments(ctx, tenant, p, space); err != nil {
			return err
		}
		// Whoever read the record before the damage must not take this for it.
		var version [8]byte
		e.random(version[:])
		corpus.Version = binary.BigEndian.Uint64(version[:]) >> 16
		if err := t.putCorpus(p, space, corpus); err != nil {
			return err
		}
	} else {
		t.batch.Expect = append(t.batch.Expect, store.Expect{Key: corpusKey, Value: r.Keys[0].Value})
	}
	if r.Keys[1].Damaged {
		last := corpus.Oldest
		for _, it := range r.Ranges[0] {
			last = max(last, freshEpoch(it.Key))
		}
		t.indexPut(epochKey, binary.BigEndian.AppendUint32(nil, last+1))
	}
	if t.index == nil {
		return nil // somebody else was first
	}
	e.log.Error("records of a recall index are damaged and were made anew", "tenant", tenant, "space", string(space))
	t.putIndex()
	return lostRace(e.commit(ctx, tenant, t.batch))
}

// countDocuments counts what is in the blocks of a space.
func (e *Engine) countDocuments(ctx context.Context, tenant string, p incarnation, space byte) (c corpusRecord, err error) {
	dead, err := e.deadPlaces(ctx, tenant, p, space)
	if err != nil {
		return c, err
	}
	err = e.eachDocument(ctx, tenant, prefixRange(recallPrefix(p, space, recallDocument)), func(it store.Item) {
		if at := splitPlace(it.Key); !dead[at] {
			c.Documents++
			if d := readDocument(at, it, false); d != nil {
				c.Terms += uint64(d.Len)
			}
		}
	})
	return c, err
}

func (e *Engine) deadPlaces(ctx context.Context, tenant string, p incarnation, space byte) (map[recall.Place]bool, error) {
	rng := prefixRange(recallPrefix(p, space, recallDead))
	rng.KeysOnly = true
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return nil, err
	}
	return placesOf(r.Ranges[0]), nil
}

func placesOf(items []store.Item) map[recall.Place]bool {
	out := map[recall.Place]bool{}
	for _, it := range items {
		out[splitPlace(it.Key)] = true
	}
	return out
}

// eachDocument walks documents, or what says where they are, a chunk at a time.
func (e *Engine) eachDocument(ctx context.Context, tenant string, rng store.Range, do func(store.Item)) error {
	rng.Limit = mendChunk
	for it, err := range e.scan(ctx, tenant, rng) {
		if err != nil {
			return err
		}
		do(it)
	}
	return nil
}

// passagesOf finds where a memory's passages are by walking the documents: those of its session, or those that stand alone.
// Of a memory of which only the key is known it walks all.
func (e *Engine) passagesOf(ctx context.Context, tenant string, p incarnation, d recallDoc) (at passagesAt, err error) {
	folded := prefixRange(recallPrefix(p, recallMemories, recallDocument))
	if d.text != "" {
		folded = prefixRange(recallStreamPrefix(p, recallMemories, recallDocument, streamOf(d.session)))
	}
	dead, err := e.deadPlaces(ctx, tenant, p, recallMemories)
	if err != nil {
		return at, err
	}
	var last recall.Place
	take := func(it store.Item) {
		place := splitPlace(it.Key)
		if doc := readDocument(place, it, false); doc == nil || doc.ID != d.id || dead[place] {
			return
		}
		if at.Count == 0 || place.Compare(at.First) < 0 {
			at.First = place
		}
		if at.Count == 0 || place.Compare(last) > 0 {
			last = place
		}
		at.Count = last.Pos - at.First.Pos + 1 // those between are its own, damaged ones among them
	}
	// Fresh ones first: what moves into blocks meanwhile is found there as well.
	if err = e.eachDocument(ctx, tenant, freshRange(p, recallMemories, 0), func(it store.Item) {
		if take(it); at.First == splitPlace(it.Key) {
			at.Epoch = freshEpoch(it.Key)
		}
	}); err == nil {
		err = e.eachDocument(ctx, tenant, folded, take)
	}
	return at, err
}

// restore has a damaged document that waits for its block made again from its memory. A message's, and one of a memory that
// is damaged itself, is left out.
func (e *Engine) restore(ctx context.Context, tenant string, p incarnation, space byte, damaged store.Item) error {
	e.log.Error("a document of a recall index is damaged", "tenant", tenant, "space", string(space))
	if space == recallMemories {
		id, err := e.memoryAt(ctx, tenant, p, splitPlace(damaged.Key))
		if err != nil {
			return err
		}
		of := &project{Incarnation: p}
		if _, err = update(ctx, e, Caller{Tenant: tenant}, Once{}, func(t *tx) (struct{}, error) {
			rec, err := t.memory(of, id)
			if isDamagedMemory(err) || err == nil && rec == nil {
				return struct{}{}, nil
			}
			if err != nil {
				return struct{}{}, err
			}
			doc := rec.doc()
			return struct{}{}, t.indexMemory(of, doc, &doc)
		}); err != nil {
			return err
		}
	}
	return e.commit(ctx, tenant, store.Batch{Delete: [][]byte{damaged.Key}})
}

// memoryAt finds the memory of which a passage is at a place, "" where there is none.
func (e *Engine) memoryAt(ctx context.Context, tenant string, p incarnation, place recall.Place) (id string, err error) {
	prefix := recallPlacesKey(p, "")
	err = e.eachDocument(ctx, tenant, prefixRange(prefix), func(it store.Item) {
		var at passagesAt
		if it.Value != nil && json.Unmarshal(it.Value, &at) == nil && at.First.Stream == place.Stream &&
			at.First.Pos <= place.Pos && place.Pos-at.First.Pos < at.Count {
			id = string(it.Key[len(prefix):])
		}
	})
	return id, err
}

// streamAnew finds how far a session is indexed from what is, where the record of it is damaged.
func (e *Engine) streamAnew(ctx context.Context, tenant string, p incarnation, stream uint64) (s streamState, err error) {
	s.Next = 1
	take := func(it store.Item) {
		at := splitPlace(it.Key)
		if at.Stream != stream {
			return
		}
		s.Next = max(s.Next, at.Pos+1)
		if d := readDocument(at, it, false); d != nil {
			s.Messages = max(s.Messages, d.Number)
		}
	}
	if err = e.eachDocument(ctx, tenant, freshRange(p, recallTranscript, 0), take); err == nil {
		err = e.eachDocument(ctx, tenant, prefixRange(recallStreamPrefix(p, recallTranscript, recallDocument, stream)), take)
	}
	return s, err
}

// mendSession makes the record of how far a marked session is indexed anew; where its head is damaged, which is m nil, nothing
// of it can be indexed, and the mark goes until a turn sets the next.
func (e *Engine) mendSession(ctx context.Context, tenant string, p incarnation, mark store.Item, m *marked, got []store.Item) error {
	b := store.Batch{Expect: []store.Expect{{Key: mark.Key, Value: mark.Value}}}
	if m == nil {
		e.log.Error("a session's head is damaged; its messages are not indexed", "tenant", tenant)
		b.Delete = append(b.Delete, mark.Key)
		return e.commit(ctx, tenant, b)
	}
	e.log.Error("how far a session is indexed is damaged; it is made anew", "tenant", tenant)
	state, err := e.streamAnew(ctx, tenant, p, m.sinc.stream())
	if err != nil {
		return err
	}
	value, err := json.Marshal(state)
	if err != nil {
		return err
	}
	b.Expect = append(b.Expect, store.Expect{Key: got[0].Key, Value: got[0].Value}) // its life
	b.Put = append(b.Put, store.Pair{Key: got[1].Key, Value: value})
	return e.commit(ctx, tenant, b)
}
