package index

import (
	"math"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// Checks is what is known of a tenant's indexes. They come after jobs and projects, corpus by corpus. The words of
// a document's record are not held against its text: another version of the analyser may have found them.
type Checks struct {
	folds    map[string]bool                     // jobs, by project and corpus
	Rebuilt  map[ident.Incarnation]map[byte]bool // corpora that are being built again
	homeless map[ident.Incarnation][]byte        // the first record of indexes of no project
	now      *CorpusSeen
	term     []byte     // that blocks are coming of
	last     rank.Place // the last posting of the block before

	// Recall says what there is of transcripts.
	OfMessage func(s *verify.Space, key []byte, x *CorpusSeen, d *rank.Document)
	Goes      func(stream uint64) bool     // its session is to be swept, or may be damaged
	Again     func(pinc ident.Incarnation) // the project's sessions will be marked to be indexed again
}

func NewChecks() *Checks {
	return &Checks{folds: map[string]bool{}, Rebuilt: map[ident.Incarnation]map[byte]bool{},
		homeless: map[ident.Incarnation][]byte{}}
}

func (c *Checks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.FoldJob, Record: c.fold},
		{Kind: records.RecallDocument, Record: c.document},
		{Kind: records.RecallFresh, Record: c.document},
		{Kind: records.RecallEpoch, Record: c.epoch},
		{Kind: records.RecallLanguage, Record: func(s *verify.Space, it store.Item) { c.Corpus(s, it.Key) }},
		{Kind: records.RecallCorpus, Record: c.counts},
		{Kind: records.RecallBlock, Record: c.block},
		{Kind: records.RecallDead, Record: c.dead},
	}
}

// fold notes a corpus with a job, and whether the corpus is dropped and built again.
func (c *Checks) fold(_ *verify.Space, it store.Item) {
	c.folds[string(it.Key[3:])] = true
	if !it.Damaged && stateOf(it) == ready {
		return
	}
	pinc, space := spaceOf(it.Key)
	if c.Rebuilt[pinc] == nil {
		c.Rebuilt[pinc] = map[byte]bool{}
	}
	c.Rebuilt[pinc][space] = true
	if space == records.RecallTranscript {
		c.Again(pinc)
	}
}

// CorpusSeen follows one corpus of an index: documents, fresh ones, where memories are, languages, streams, what is in
// blocks, blocks, dead documents.
type CorpusSeen struct {
	Pinc     ident.Incarnation
	Space    byte
	Docs     map[rank.Place]*docSeen
	Ends     map[uint64]uint64 // behind the last document of a stream
	Counts   map[uint64]uint64 // documents of a stream
	Lost     bool              // a document is damaged
	lostBits bool              // a block is
	rec      corpusRecord
	oldest   uint32 // epoch that a document waits in
	dead     int
}

// docSeen is a document, until its postings and the memory that it is of have come.
type docSeen struct {
	key      []byte
	Id       string
	Doc      uint64 // fingerprint of what it says, but for words
	postings uint64 // the sum of the fingerprints of its postings, less those that came
	len      uint32
	fresh    bool
	dead     bool
	Claimed  bool // its memory says that it is here
}

// DocumentPrint is the fingerprint of what a document says, but for words.
func DocumentPrint(s *verify.Space, d *rank.Document) uint64 {
	meta := rank.Document{ID: d.ID, Category: d.Category, Session: d.Session, Group: d.Group, Tags: d.Tags,
		Importance: d.Importance, Created: d.Created, Expires: d.Expires}
	return verify.Fingerprint(s, string(meta.Append(nil)))
}

// termPosting is one document under one of its words.
type termPosting struct {
	term string
	rank.Posting
}

// Corpus gives the one that a record is of; nil where the record is not worth a look: the project's index is to be
// swept or is being built again, or the project is unknown.
func (c *Checks) Corpus(s *verify.Space, key []byte) *CorpusSeen {
	pinc, space := ident.Incarnation(key[2:]), key[2+8]
	if x := c.now; x == nil || x.Pinc != pinc || x.Space != space {
		c.end(s)
		if !s.Lives(pinc) {
			if !s.Belongs(pinc) && c.homeless[pinc] == nil {
				c.homeless[pinc] = slices.Clone(key)
			}
			return nil
		}
		if c.Rebuilt[pinc][space] {
			return nil
		}
		c.now = &CorpusSeen{Pinc: pinc, Space: space, oldest: math.MaxUint32, Docs: map[rank.Place]*docSeen{},
			Ends: map[uint64]uint64{}, Counts: map[uint64]uint64{}}
	}
	s.About(pinc, "")
	return c.now
}

func (c *Checks) document(s *verify.Space, it store.Item) {
	x := c.Corpus(s, it.Key)
	if x == nil {
		return
	}
	at := splitPlace(it.Key)
	d, err := rank.ReadDocument(at, it.Value, true)
	switch {
	case it.Damaged:
		x.Lost = true
		return
	case err != nil || !countsUp(d):
		s.Malformed("the document does not parse")
		x.Lost = true
		return
	case x.Docs[at] != nil:
		s.Mismatch("the document is in blocks and is still to be put there")
		return
	}
	seen := &docSeen{key: slices.Clone(it.Key), Id: d.ID, len: d.Len, fresh: s.Kind == records.RecallFresh}
	x.Docs[at] = seen
	x.Ends[at.Stream] = max(x.Ends[at.Stream], at.Pos+1)
	x.Counts[at.Stream]++
	if seen.fresh {
		x.oldest = min(x.oldest, freshEpoch(it.Key))
	} else {
		for _, t := range d.Terms {
			seen.postings += verify.Fingerprint(s, termPosting{t.Term, d.Posting(t.Count)})
		}
	}
	if x.Space == records.RecallMemories {
		seen.Doc = DocumentPrint(s, d)
	} else {
		c.OfMessage(s, it.Key, x, d)
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
func (c *Checks) epoch(s *verify.Space, it store.Item) {
	if x := c.Corpus(s, it.Key); x != nil && !it.Damaged && len(it.Value) != 4 {
		s.Malformed("the epoch has %d bytes", len(it.Value))
	}
}

func (c *Checks) counts(s *verify.Space, it store.Item) {
	if x := c.Corpus(s, it.Key); x != nil && !s.Decode(it, &x.rec) {
		x.Lost = true
	}
}

func (c *Checks) block(s *verify.Space, it store.Item) {
	x := c.Corpus(s, it.Key)
	if x == nil {
		return
	}
	term, at := it.Key[2+8+2:len(it.Key)-17], splitPlace(it.Key)
	block, err := rank.ReadBlock(nil, it.Value)
	if err != nil || len(block) == 0 {
		if x.lostBits = true; !it.Damaged {
			s.Malformed("the block does not parse, or is empty")
		}
		return
	}
	if string(c.term) == string(term) && c.last.Compare(at) >= 0 {
		s.Mismatch("the block begins before the one before it ends")
	}
	byPlace := func(a, b rank.Posting) int { return a.Compare(b.Place) }
	if block[0].Compare(at) < 0 || !slices.IsSortedFunc(block, byPlace) {
		s.Mismatch("the block's postings are out of order")
	}
	c.term, c.last = slices.Clone(term), block[len(block)-1].Place
	for _, p := range block {
		d := x.Docs[p.Place]
		switch {
		case d != nil && !d.fresh:
			d.postings -= verify.Fingerprint(s, termPosting{string(term), p})
		case !x.Lost:
			s.Orphan("the block names a document at %d/%d that is not there", p.Stream, p.Pos)
			return
		}
	}
}

func (c *Checks) dead(s *verify.Space, it store.Item) {
	x := c.Corpus(s, it.Key)
	if x == nil {
		return
	}
	x.dead++
	if d := x.Docs[splitPlace(it.Key)]; d != nil && !d.fresh {
		d.dead = true
	} else if !x.Lost {
		s.Orphan("a document is to be dead that is not there").Harmless = true
	}
}

// end holds what came of a corpus against what was promised.
func (c *Checks) end(s *verify.Space) {
	x := c.now
	if c.now, c.term = nil, nil; x == nil {
		return
	}
	at := func(kind records.Kind, key []byte) verify.Subject { return s.At(kind, key).Of(x.Pinc, "") }
	var in corpusRecord
	fresh := 0
	for _, d := range x.Docs {
		if d.fresh {
			fresh++
		} else if !d.dead {
			in.Documents++
			in.Terms += uint64(d.len)
		}
		switch {
		case d.postings != 0 && !x.lostBits:
			at(records.RecallDocument, d.key).Mismatch("the document's words are not those that blocks have it under")
		case x.Space == records.RecallMemories && !x.Lost && d.Claimed == d.dead:
			at(records.RecallDocument, d.key).Mismatch("the passage of memory %q: the memory names it: %t; it is dead: %t",
				d.Id, d.Claimed, d.dead)
		}
	}
	key := records.RecallCorpus.Key(x.Pinc, x.Space)
	if x.oldest < x.rec.Oldest && !x.Lost {
		at(records.RecallCorpus, key).Mismatch("it says that documents wait from epoch %d on, one waits in epoch %d",
			x.rec.Oldest, x.oldest)
	}
	if (in.Documents != x.rec.Documents || in.Terms != x.rec.Terms) && !x.Lost {
		at(records.RecallCorpus, key).Mismatch("it counts %d documents of %d words in blocks, there are %d of %d",
			x.rec.Documents, x.rec.Terms, in.Documents, in.Terms)
	}
	if job := records.FoldJob.Key(x.Pinc, x.Space); fresh+x.dead > 0 && !c.folds[string(job[3:])] {
		at(records.FoldJob, job).Missing("there are %d fresh documents and %d dead ones, and no job", fresh, x.dead)
	}
	for stream := range x.Ends {
		if stream != 0 && (x.Space == records.RecallMemories || !c.Goes(stream)) {
			key := records.RecallStream.Key(x.Pinc, x.Space, stream)
			at(records.RecallStream, key).Missing("it is not told where the stream goes on")
		}
	}
}

func (c *Checks) Finish(s *verify.Space) {
	c.end(s)
	for pinc, key := range c.homeless {
		s.At(records.RecallDocument, key).Of(pinc, "").Orphan("there is an index of a project that does not exist")
	}
}
