package engine

import (
	"math"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// indexChecks is what is known of a tenant's indexes. They come after jobs and projects, corpus by corpus. The words of
// a document's record are not held against its text: another version of the analyser may have found them.
type indexChecks struct {
	folds    map[string]bool               // jobs, by project and corpus
	rebuilt  map[incarnation]map[byte]bool // corpora that are being built again
	homeless map[incarnation][]byte        // the first record of indexes of no project
	now      *corpusSeen
	term     []byte     // that blocks are coming of
	last     rank.Place // the last posting of the block before

	// Recall says what there is of transcripts.
	ofMessage func(s *space, key []byte, x *corpusSeen, d *rank.Document)
	goes      func(stream uint64) bool // its session is to be swept, or may be damaged
	again     func(pinc incarnation)   // the project's sessions will be marked to be indexed again
}

func newIndexChecks() *indexChecks {
	return &indexChecks{folds: map[string]bool{}, rebuilt: map[incarnation]map[byte]bool{},
		homeless: map[incarnation][]byte{}}
}

func (c *indexChecks) checks() []recordCheck {
	return []recordCheck{
		{kind: "job_fold", record: c.fold},
		{kind: "recall_document", record: c.document},
		{kind: "recall_fresh", record: c.document},
		{kind: "recall_epoch", record: c.epoch},
		{kind: "recall_language", record: func(s *space, it store.Item) { c.corpus(s, it.Key) }},
		{kind: "recall_corpus", record: c.counts},
		{kind: "recall_block", record: c.block},
		{kind: "recall_dead", record: c.dead},
	}
}

// fold notes a corpus with a job, and whether the corpus is dropped and built again.
func (c *indexChecks) fold(_ *space, it store.Item) {
	c.folds[string(it.Key[3:])] = true
	if !it.Damaged && stateOf(it) == indexReady {
		return
	}
	pinc, space := spaceOf(it.Key)
	if c.rebuilt[pinc] == nil {
		c.rebuilt[pinc] = map[byte]bool{}
	}
	c.rebuilt[pinc][space] = true
	if space == recallTranscript {
		c.again(pinc)
	}
}

// corpusSeen follows one corpus of an index: documents, fresh ones, where memories are, languages, streams, what is in
// blocks, blocks, dead documents.
type corpusSeen struct {
	pinc     incarnation
	space    byte
	docs     map[rank.Place]*docSeen
	ends     map[uint64]uint64 // behind the last document of a stream
	counts   map[uint64]uint64 // documents of a stream
	lost     bool              // a document is damaged
	lostBits bool              // a block is
	rec      corpusRecord
	oldest   uint32 // epoch that a document waits in
	dead     int
}

// docSeen is a document, until its postings and the memory that it is of have come.
type docSeen struct {
	key      []byte
	id       string
	doc      uint64 // fingerprint of what it says, but for words
	postings uint64 // the sum of the fingerprints of its postings, less those that came
	len      uint32
	fresh    bool
	dead     bool
	claimed  bool // its memory says that it is here
}

// documentPrint is the fingerprint of what a document says, but for words.
func documentPrint(s *space, d *rank.Document) uint64 {
	meta := rank.Document{ID: d.ID, Category: d.Category, Session: d.Session, Group: d.Group, Tags: d.Tags,
		Importance: d.Importance, Created: d.Created, Expires: d.Expires}
	return fingerprint(s, string(meta.Append(nil)))
}

// termPosting is one document under one of its words.
type termPosting struct {
	term string
	rank.Posting
}

// corpus gives the one that a record is of; nil where the record is not worth a look: the project's index is to be
// swept or is being built again, or the project is unknown.
func (c *indexChecks) corpus(s *space, key []byte) *corpusSeen {
	pinc, space := incarnation(key[2:]), key[2+8]
	if x := c.now; x == nil || x.pinc != pinc || x.space != space {
		c.end(s)
		if !s.lives(pinc) {
			if !s.belongs(pinc) && c.homeless[pinc] == nil {
				c.homeless[pinc] = slices.Clone(key)
			}
			return nil
		}
		if c.rebuilt[pinc][space] {
			return nil
		}
		c.now = &corpusSeen{pinc: pinc, space: space, oldest: math.MaxUint32, docs: map[rank.Place]*docSeen{},
			ends: map[uint64]uint64{}, counts: map[uint64]uint64{}}
	}
	s.about(pinc, "")
	return c.now
}

func (c *indexChecks) document(s *space, it store.Item) {
	x := c.corpus(s, it.Key)
	if x == nil {
		return
	}
	at := splitPlace(it.Key)
	d, err := rank.ReadDocument(at, it.Value, true)
	switch {
	case it.Damaged:
		x.lost = true
		return
	case err != nil || !countsUp(d):
		s.malformed("the document does not parse")
		x.lost = true
		return
	case x.docs[at] != nil:
		s.mismatch("the document is in blocks and is still to be put there")
		return
	}
	seen := &docSeen{key: slices.Clone(it.Key), id: d.ID, len: d.Len, fresh: s.kind == "recall_fresh"}
	x.docs[at] = seen
	x.ends[at.Stream] = max(x.ends[at.Stream], at.Pos+1)
	x.counts[at.Stream]++
	if seen.fresh {
		x.oldest = min(x.oldest, freshEpoch(it.Key))
	} else {
		for _, t := range d.Terms {
			seen.postings += fingerprint(s, termPosting{t.Term, d.Posting(t.Count)})
		}
	}
	if x.space == recallMemories {
		seen.doc = documentPrint(s, d)
	} else {
		c.ofMessage(s, it.Key, x, d)
	}
}

// countsUp tells whether a document's words are in order, and as many as it says.
func countsUp(d *rank.Document) bool {
	sum := uint64(0)
	for i, t := range d.Terms {
		if sum += uint64(t.Count); t.Count == 0 || i > 0 && t.Term <= d.Terms[i-1].Term {
			return false
		}
	}
	return sum == uint64(d.Len)
}

// epoch is the one that documents are written in: none waits in a later one.
func (c *indexChecks) epoch(s *space, it store.Item) {
	if x := c.corpus(s, it.Key); x != nil && !it.Damaged && len(it.Value) != 4 {
		s.malformed("the epoch has %d bytes", len(it.Value))
	}
}

func (c *indexChecks) counts(s *space, it store.Item) {
	if x := c.corpus(s, it.Key); x != nil && !s.decode(it, &x.rec) {
		x.lost = true
	}
}

func (c *indexChecks) block(s *space, it store.Item) {
	x := c.corpus(s, it.Key)
	if x == nil {
		return
	}
	term, at := it.Key[2+8+2:len(it.Key)-17], splitPlace(it.Key)
	block, err := rank.ReadBlock(nil, it.Value)
	if err != nil || len(block) == 0 {
		if x.lostBits = true; !it.Damaged {
			s.malformed("the block does not parse, or is empty")
		}
		return
	}
	if string(c.term) == string(term) && c.last.Compare(at) >= 0 {
		s.mismatch("the block begins before the one before it ends")
	}
	byPlace := func(a, b rank.Posting) int { return a.Compare(b.Place) }
	if block[0].Compare(at) < 0 || !slices.IsSortedFunc(block, byPlace) {
		s.mismatch("the block's postings are out of order")
	}
	c.term, c.last = slices.Clone(term), block[len(block)-1].Place
	for _, p := range block {
		d := x.docs[p.Place]
		switch {
		case d != nil && !d.fresh:
			d.postings -= fingerprint(s, termPosting{string(term), p})
		case !x.lost:
			s.orphan("the block names a document at %d/%d that is not there", p.Stream, p.Pos)
			return
		}
	}
}

func (c *indexChecks) dead(s *space, it store.Item) {
	x := c.corpus(s, it.Key)
	if x == nil {
		return
	}
	x.dead++
	if d := x.docs[splitPlace(it.Key)]; d != nil && !d.fresh {
		d.dead = true
	} else if !x.lost {
		s.orphan("a document is to be dead that is not there").harmless = true
	}
}

// end holds what came of a corpus against what was promised.
func (c *indexChecks) end(s *space) {
	x := c.now
	if c.now, c.term = nil, nil; x == nil {
		return
	}
	at := func(kind string, key []byte) subject { return s.at(kind, key).of(x.pinc, "") }
	var in corpusRecord
	fresh := 0
	for _, d := range x.docs {
		if d.fresh {
			fresh++
		} else if !d.dead {
			in.Documents++
			in.Terms += uint64(d.len)
		}
		switch {
		case d.postings != 0 && !x.lostBits:
			at("recall_document", d.key).mismatch("the document's words are not those that blocks have it under")
		case x.space == recallMemories && !x.lost && d.claimed == d.dead:
			at("recall_document", d.key).mismatch("the passage of memory %q: the memory names it: %t; it is dead: %t",
				d.id, d.claimed, d.dead)
		}
	}
	key := kindRecallCorpus.Key(x.pinc, x.space)
	if x.oldest < x.rec.Oldest && !x.lost {
		at("recall_corpus", key).mismatch("it says that documents wait from epoch %d on, one waits in epoch %d",
			x.rec.Oldest, x.oldest)
	}
	if (in.Documents != x.rec.Documents || in.Terms != x.rec.Terms) && !x.lost {
		at("recall_corpus", key).mismatch("it counts %d documents of %d words in blocks, there are %d of %d",
			x.rec.Documents, x.rec.Terms, in.Documents, in.Terms)
	}
	if job := kindFoldJob.Key(x.pinc, x.space); fresh+x.dead > 0 && !c.folds[string(job[3:])] {
		at("job_fold", job).missing("there are %d fresh documents and %d dead ones, and no job", fresh, x.dead)
	}
	for stream := range x.ends {
		if stream != 0 && (x.space == recallMemories || !c.goes(stream)) {
			key := kindRecallStream.Key(x.pinc, x.space, stream)
			at("recall_stream", key).missing("it is not told where the stream goes on")
		}
	}
}

func (c *indexChecks) finish(s *space) {
	c.end(s)
	for pinc, key := range c.homeless {
		s.at("recall_document", key).of(pinc, "").orphan("there is an index of a project that does not exist")
	}
}
