package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The index of a project has a space for its memories and one for its transcripts. A document is written as one record,
// in the batch of what it stands for; a job puts many at once into blocks, which hold a term's postings by place.
// Queries read both. Everything that changes blocks expects the space's corpus record unchanged and raises its version,
// so that blocks need no preconditions of their own. Documents that wait for their block lie under an epoch, which moves on
// every so often and which their writers expect: a query starts from the oldest epoch in use, and does not pass by all that
// was deleted before, which an LSM tree keeps for a while. A document's record names its terms: taking it out removes exactly
// what was put in.

// corpusRecord says what is in the blocks of a space.
type corpusRecord struct {
	Version   uint64 `json:"version"`
	Documents uint64 `json:"documents"`
	Terms     uint64 `json:"terms"` // of all documents together
	// Oldest is the first epoch that may have documents which wait, Folded how many have left the epoch at hand.
	Oldest uint32 `json:"oldest,omitempty"`
	Folded int    `json:"folded,omitempty"`
}

// indexChange is what one batch changes in recall indexes; a key may be changed again before it is committed.
type indexChange struct {
	read    map[string]store.Item
	written map[string][]byte // nil: deleted
	blocks  int               // rewritten
}

// maxBlockRewrites bounds the blocks that one batch rewrites to take documents out. Postings of documents beyond it are
// removed by a job; the documents are gone at once.
const maxBlockRewrites = 1500

func (t *tx) indexed() *indexChange {
	if t.index == nil {
		t.index = &indexChange{read: map[string]store.Item{}, written: map[string][]byte{}}
	}
	return t.index
}

// indexGet reads keys of an index as the batch leaves them, and expects what it read unchanged: but nothing of a damaged
// one, whose bytes nobody knows.
func (t *tx) indexGet(keys ...[]byte) ([]store.Item, error) {
	c := t.indexed()
	var ask [][]byte
	for _, key := range keys {
		_, read := c.read[string(key)]
		if _, written := c.written[string(key)]; !read && !written {
			ask = append(ask, key)
			c.read[string(key)] = store.Item{}
		}
	}
	if len(ask) > 0 {
		r, err := t.e.store.Read(t.ctx, t.tenant, store.Query{Keys: ask})
		if err != nil {
			return nil, err
		}
		for _, it := range r.Keys {
			c.read[string(it.Key)] = it
			if !it.Damaged {
				t.batch.Expect = append(t.batch.Expect, store.Expect{Key: it.Key, Value: it.Value})
			}
		}
	}
	out := make([]store.Item, len(keys))
	for i, key := range keys {
		out[i] = c.read[string(key)]
		if value, written := c.written[string(key)]; written {
			out[i] = store.Item{Key: key, Value: value}
		}
	}
	return out, nil
}

func (t *tx) indexPut(key, value []byte) { t.indexed().written[string(key)] = value }

func (t *tx) indexDelete(key []byte) { t.indexed().written[string(key)] = nil }

// putIndex adds what the batch changes in indexes to its writes.
func (t *tx) putIndex() {
	if t.index == nil {
		return
	}
	for key, value := range t.index.written {
		if value == nil {
			t.delete([]byte(key))
		} else {
			t.put([]byte(key), value)
		}
	}
	t.index = nil
}

// corpus reads what is in the blocks of a space, for a change of them. Where the record is damaged there can be none until
// mendSpace has made it anew.
func (t *tx) corpus(p incarnation, space byte) (c corpusRecord, whole bool, err error) {
	got, err := t.indexGet(recallPrefix(p, space, recallCorpus))
	if err != nil {
		return c, false, err
	}
	c, whole = decodeCorpus(got[0])
	return c, whole, nil
}

func decodeCorpus(it store.Item) (c corpusRecord, whole bool) {
	if it.Value == nil {
		return c, !it.Damaged
	}
	return c, json.Unmarshal(it.Value, &c) == nil
}

// drop takes a document out of the counts, which a mended record may have a little wrong.
func (c *corpusRecord) drop(terms uint32) {
	c.Documents -= min(c.Documents, 1)
	c.Terms -= min(c.Terms, uint64(terms))
}

func (t *tx) putCorpus(p incarnation, space byte, c corpusRecord) error {
	c.Version++
	b, err := json.Marshal(c)
	t.indexPut(recallPrefix(p, space, recallCorpus), b)
	return err
}

// streamOf is the stream of memories that name a session.
func streamOf(session string) uint64 {
	if session == "" {
		return 0
	}
	sum := sha256.Sum256([]byte("session " + session))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// passagesAt says where a memory's passages are: one behind the other.
type passagesAt struct {
	First recall.Place `json:"first"`
	Epoch uint32       `json:"epoch,omitempty"`
	Count uint64       `json:"count"`
}

func (at passagesAt) place(i uint64) recall.Place {
	return recall.Place{Stream: at.First.Stream, Pos: at.First.Pos + i}
}

var categoriesOfIndex = map[string]recall.Category{categoryCore: recall.Core, categoryDaily: recall.Daily,
	categoryConversation: recall.Conversation}

// indexMemory makes a memory recallable in the batch that writes it. old is what its key held before, or nil.
func (t *tx) indexMemory(p *project, d recallDoc, old *recallDoc) error {
	if old != nil {
		if err := t.unindexMemory(p, *old); err != nil {
			return err
		}
	}
	doc := recall.Document{ID: d.id, Category: categoriesOfIndex[d.category], Session: d.session, Group: d.source, Tags: d.tags,
		Importance: d.importance, Created: d.created, Expires: d.expires}
	terms, latin := t.e.analyser.Document(d.text)
	passages, lens := recall.Passages(terms)
	at := passagesAt{First: recall.Place{Stream: streamOf(d.session)}, Count: uint64(len(passages))}
	var err error
	if at.Epoch, err = t.epoch(p.Incarnation, recallMemories); err != nil {
		return err
	}
	if err := t.nextPlace(p.Incarnation, &at, d.created); err != nil {
		return err
	}
	for i := range passages {
		doc.Place, doc.Terms, doc.Len = at.place(uint64(i)), passages[i], lens[i]
		t.putFresh(p.Incarnation, recallMemories, at.Epoch, &doc)
	}
	b, err := json.Marshal(at)
	if err != nil {
		return err
	}
	t.indexPut(recallPlacesKey(p.Incarnation, d.id), b)
	return t.putFoldJob(p.Incarnation, recallMemories, latin)
}

// nextPlace chooses where passages begin: in a session behind the last; without one at a place of their own that says
// but when it was changed, so that writers do not wait for one another.
func (t *tx) nextPlace(p incarnation, at *passagesAt, changed time.Time) error {
	if at.First.Stream != 0 {
		key := recallStreamPrefix(p, recallMemories, recallStream, at.First.Stream)
		got, err := t.indexGet(key)
		if err != nil {
			return err
		}
		damaged := got[0].Damaged
		switch {
		case damaged: // behind all that there can be
			t.e.log.Error("the place in a stream of memories is damaged; it is made anew", "tenant", t.tenant)
			at.First.Pos = t.scattered(t.now)
		case len(got[0].Value) == 8:
			at.First.Pos = binary.BigEndian.Uint64(got[0].Value)
		default:
			at.First.Pos = 1
		}
		t.indexPut(key, binary.BigEndian.AppendUint64(nil, at.First.Pos+at.Count))
		if damaged {
			t.expectFree(p, at)
		}
		return nil
	}
	at.First.Pos = t.scattered(changed)
	t.expectFree(p, at)
	return nil
}

// scattered is a position that grows with time, by more than one memory has passages, and that is another for each.
func (t *tx) scattered(changed time.Time) uint64 {
	var random [4]byte
	t.e.random(random[:])
	return uint64(changed.UnixMilli())<<20 | uint64(binary.BigEndian.Uint32(random[:])>>12)
}

// expectFree has the batch fail where something stands at the places already.
func (t *tx) expectFree(p incarnation, at *passagesAt) {
	for i := range at.Count {
		for _, key := range [][]byte{recallFreshKey(p, recallMemories, at.Epoch, at.place(i)),
			recallFreshKey(p, recallMemories, max(at.Epoch, 1)-1, at.place(i)),
			recallPlace(p, recallMemories, recallDocument, at.place(i)),
			recallPlace(p, recallMemories, recallDead, at.place(i))} {
			t.batch.Expect = append(t.batch.Expect, store.Expect{Key: key})
		}
	}
}

// epoch is the one that documents are written in; the batch expects that it is still so.
func (t *tx) epoch(p incarnation, space byte) (uint32, error) {
	key := recallPrefix(p, space, recallEpoch)
	got, err := t.indexGet(key)
	if err == nil && got[0].Damaged {
		if err := t.e.mendSpace(t.ctx, t.tenant, p, space); err != nil {
			return 0, err
		}
		delete(t.index.read, string(key))
		if got, err = t.indexGet(key); err == nil && got[0].Damaged {
			err = errDamaged
		}
	}
	if err != nil {
		return 0, err
	}
	return readEpoch(got[0].Value), nil
}

func (t *tx) putFresh(p incarnation, space byte, epoch uint32, d *recall.Document) {
	t.indexPut(recallFreshKey(p, space, epoch, d.Place), d.Append(nil))
}

// putOnce writes keys that are there already most of the time: written anew by every batch they would be slow to scan.
func (t *tx) putOnce(keys ...[]byte) error {
	got, err := t.indexGet(keys...)
	for i, key := range keys {
		if err == nil && got[i].Value == nil {
			t.indexPut(key, []byte{0})
		}
	}
	return err
}

// putFoldJob has the space's documents put into blocks, and notes a language that some were stemmed in. The job stays as
// long as the project, because what ends it could not tell whether a document comes just then.
func (t *tx) putFoldJob(p incarnation, space byte, languages ...string) error {
	keys := [][]byte{foldKey(p, space)}
	for _, latin := range languages {
		if latin != "" {
			keys = append(keys, recallLanguageKey(p, space, latin))
		}
	}
	if t.e.indexed.Add(1)%foldAt == 0 {
		t.e.poke(t.tenant)
	}
	return t.putOnce(keys...)
}
