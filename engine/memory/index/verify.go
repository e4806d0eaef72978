package index

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"

	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// Checks has what is known about a tenant's indexes. Their records come after jobs and projects, space by space. The
// words of a document are not compared with its text, because another version of the analyser may have produced them.
type Checks struct {
	jobs     map[Space]bool               // whether there is a job
	rebuilt  map[Space]bool               // whether the space is being rebuilt
	homeless map[ident.Incarnation][]byte // the first index record of each unknown project
	now      *Seen
	term     string     // whose blocks are being read
	last     rank.Place // the last posting of the previous block

	// What package recall knows about transcripts. It is set before the first record comes.
	OfMessage func(s *verify.Space, x *Seen, d *rank.Document) // checks a document
	Goes      func(stream uint64) bool                         // its session will be swept, or may be damaged
	Again     func(project ident.Incarnation)                  // all sessions will be marked to be indexed again
}

// NewChecks returns the checks of one tenant.
func NewChecks() *Checks {
	return &Checks{jobs: map[Space]bool{}, rebuilt: map[Space]bool{}, homeless: map[ident.Incarnation][]byte{}}
}

// Checks returns the checks by kind of record.
func (c *Checks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.FoldJob, Record: c.job},
		{Kind: records.RecallDocument, Record: c.document},
		{Kind: records.RecallFresh, Record: c.document},
		{Kind: records.RecallEpoch, Record: c.epoch},
		{Kind: records.RecallLanguage, Record: func(s *verify.Space, it store.Item) { c.Of(s, it.Key) }},
		{Kind: records.RecallNamespaceLanguage, Record: func(s *verify.Space, it store.Item) { c.Of(s, it.Key) }},
		{Kind: records.RecallNamespace, Record: c.namespace},
		{Kind: records.RecallCorpus, Record: c.counts},
		{Kind: records.RecallBlock, Record: c.block},
		{Kind: records.RecallDead, Record: c.dead},
		{Kind: records.RecallUnembedded, Record: c.unembedded},
		{Kind: records.RecallModel, Record: c.model},
		{Kind: records.RecallBits, Record: c.bits},
		{Kind: records.RecallVector, Record: c.vector},
	}
}

// job records that a space has a job, and whether the space is being rebuilt.
func (c *Checks) job(_ *verify.Space, it store.Item) {
	space := spaceOf(it.Key)
	c.jobs[space] = true
	if stateOf(it) == ready {
		return
	}
	c.rebuilt[space] = true
	if space.Kind == records.RecallTranscript {
		c.Again(space.Project)
	}
}

// Rebuilt reports whether a space is being rebuilt, so that records of it may be missing.
func (c *Checks) Rebuilt(space Space) bool { return c.rebuilt[space] }

// Seen is what is known about a space from the records read so far. Records come in this order: documents, fresh ones,
// places of memories, languages, streams, the corpus, blocks, dead documents.
type Seen struct {
	Space
	Docs     map[rank.Place]*Doc
	Ends     map[records.Stream]uint64 // by stream: the place after its last document
	Counts   map[records.Stream]uint64 // by stream: the number of documents
	counts   namespaceCounts           // of documents in blocks, minus the counts in the records of namespaces
	Lost     bool                      // a document is damaged
	lostBits bool                      // a block is damaged
	rec      corpusRecord
	oldest   uint32 // of a fresh document, or of a mark
	dead     int
	bits     map[rank.Place][]byte // of vectors whose bytes were not read yet
}

// Doc is a document whose postings and memory were not all read yet.
type Doc struct {
	ID       string
	Says     uint64 // Fingerprint of the document
	Claimed  bool   // its memory refers to it
	key      []byte
	postings uint64 // the sum of the fingerprints of its postings, minus those that have come
	len      uint32
	fresh    bool
	dead     bool
}

// Fingerprint returns a hash of a document without its place and its words.
func Fingerprint(s *verify.Space, d *rank.Document) uint64 {
	meta := rank.Document{ID: d.ID, Category: d.Category, Session: d.Session, Group: d.Group, Tags: d.Tags,
		Importance: d.Importance, Created: d.Created, Expires: d.Expires}
	return verify.Fingerprint(s, string(meta.Append(nil)))
}

// termPosting is one document under one of its words.
type termPosting struct {
	term string
	rank.Posting
}

// Of returns the space of a record. It returns nil if the record need not be checked, because the project's index will
// be swept or is being rebuilt, or the project is unknown.
func (c *Checks) Of(s *verify.Space, key []byte) *Seen {
	space := Space{ident.Incarnation(key[2:]), key[2+8]}
	if c.now == nil || c.now.Space != space {
		c.end(s)
		if !s.Lives(space.Project) {
			if !s.Belongs(space.Project) && c.homeless[space.Project] == nil {
				c.homeless[space.Project] = slices.Clone(key)
			}
			return nil
		}
		if c.rebuilt[space] {
			return nil
		}
		c.now = &Seen{Space: space, oldest: math.MaxUint32, Docs: map[rank.Place]*Doc{}, Ends: map[records.Stream]uint64{},
			Counts: map[records.Stream]uint64{}, counts: namespaceCounts{}}
	}
	s.About(space.Project, "")
	return c.now
}

func (c *Checks) document(s *verify.Space, it store.Item) {
	x := c.Of(s, it.Key)
	if x == nil {
		return
	}
	at := placeOf(it.Key)
	d, err := rank.ReadDocument(at, it.Value, true)
	switch {
	case it.Damaged:
		x.Lost = true
		return
	case errors.Is(err, rank.ErrFormerDocument): // The index is rebuilt when it is used.
		x.Lost, x.lostBits = true, true
		return
	case err != nil || !d.CountsUp():
		s.Malformed("the document does not parse")
		x.Lost = true
		return
	case x.Docs[at] != nil:
		s.Mismatch("the document is in blocks and is still to be put there")
		return
	}
	seen := &Doc{key: slices.Clone(it.Key), ID: d.ID, len: d.Len, fresh: s.Kind == records.RecallFresh}
	x.Docs[at] = seen
	_, _, stream, _ := records.RecallStream.Split(x.StreamKey(at))
	x.Ends[stream] = max(x.Ends[stream], at.Pos+1)
	x.Counts[stream]++
	if at.Namespace != x.Number(d.Path) {
		s.Mismatch("the document of namespace %q is among those of another", d.Path)
	}
	if seen.fresh {
		x.oldest = min(x.oldest, epochOf(it.Key))
	} else {
		x.counts.add(d, 1)
		for _, t := range d.Terms {
			seen.postings += verify.Fingerprint(s, termPosting{t.Term, d.Posting(t.Count)})
		}
	}
	if x.Kind == records.RecallMemories {
		seen.Says = Fingerprint(s, d)
	} else {
		c.OfMessage(s, x, d)
	}
}

// epoch checks the epoch that documents are written in.
func (c *Checks) epoch(s *verify.Space, it store.Item) {
	if x := c.Of(s, it.Key); x != nil && !it.Damaged && len(it.Value) != 4 {
		s.Malformed("the epoch has %d bytes", len(it.Value))
	}
}

func (c *Checks) counts(s *verify.Space, it store.Item) {
	if x := c.Of(s, it.Key); x != nil && !s.Decode(it, &x.rec) {
		x.Lost = true
	}
}

// namespace subtracts the counts in a namespace's record from those of its documents.
func (c *Checks) namespace(s *verify.Space, it store.Item) {
	x := c.Of(s, it.Key)
	if x == nil {
		return
	}
	_, _, path, _ := records.RecallNamespace.Split(it.Key)
	var n namespaceRecord
	switch {
	case !s.Decode(it, &n):
		x.Lost = true
	case n.Documents <= 0:
		s.Mismatch("it counts %d documents, but exists only if there are any", n.Documents)
	}
	of := x.counts[path]
	x.counts[path] = namespaceRecord{of.Documents - n.Documents, of.Terms - n.Terms}
}

func (c *Checks) block(s *verify.Space, it store.Item) {
	x := c.Of(s, it.Key)
	if x == nil {
		return
	}
	_, _, term, _, _, _ := records.RecallBlock.Split(it.Key)
	at := placeOf(it.Key)
	block, err := rank.ReadBlock(nil, at, it.Value)
	if err != nil || len(block) == 0 {
		x.lostBits = true
		if !it.Damaged {
			s.Malformed("the block does not parse, or is empty")
		}
		return
	}
	if c.term == term && c.last.Compare(at) >= 0 {
		s.Mismatch("the block begins before the one before it ends")
	}
	byPlace := func(a, b rank.Posting) int { return a.Compare(b.Place) }
	if block[0].Compare(at) < 0 || !slices.IsSortedFunc(block, byPlace) {
		s.Mismatch("the block's postings are out of order")
	}
	c.term, c.last = term, block[len(block)-1].Place
	for _, p := range block {
		d := x.Docs[p.Place]
		switch {
		case d != nil && !d.fresh:
			d.postings -= verify.Fingerprint(s, termPosting{term, p})
		case !x.Lost:
			s.Orphan("the block names a document at %d/%d that is not there", p.Stream, p.Pos)
			return
		}
	}
}

func (c *Checks) dead(s *verify.Space, it store.Item) {
	x := c.Of(s, it.Key)
	if x == nil {
		return
	}
	x.dead++
	x.oldest = min(x.oldest, epochOf(it.Key))
	words, ok := wordsOf(it)
	if !ok && !it.Damaged {
		s.Malformed("the mark of a dead document has %d bytes", len(it.Value))
	}
	if d := x.Docs[placeOf(it.Key)]; d != nil && !d.fresh {
		d.dead = true
		if ok && words != d.len {
			s.Mismatch("the mark says that the dead document has %d words, it has %d", words, d.len)
		}
	} else if !x.Lost {
		s.Orphan("a document is to be dead that is not there").Harmless = true
	}
}

// unembedded checks the mark of a document that waits for its vector.
func (c *Checks) unembedded(s *verify.Space, it store.Item) {
	x := c.Of(s, it.Key)
	if x == nil {
		return
	}
	at := placeOf(it.Key)
	if d := x.Docs[at]; (d == nil || d.fresh) && !x.Lost {
		s.Orphan("a document at %d/%d waits for its vector that is not in blocks", at.Stream, at.Pos)
	}
	if len(it.Value) > 0 {
		s.Malformed("the mark of a document that waits for its vector has %d bytes", len(it.Value))
	}
}

// model checks the record of a space's model.
func (c *Checks) model(s *verify.Space, it store.Item) {
	if x := c.Of(s, it.Key); x != nil && !it.Damaged {
		if _, err := readModelled(it); err != nil {
			s.Malformed("the record of the vectors' model has %d bytes", len(it.Value))
		}
	}
}

// bits checks the signs of a document's vector.
func (c *Checks) bits(s *verify.Space, it store.Item) {
	x := c.Of(s, it.Key)
	if x == nil {
		return
	}
	at := placeOf(it.Key)
	if d := x.Docs[at]; (d == nil || d.fresh) && !x.Lost {
		s.Orphan("the vector is of a document at %d/%d that is not in blocks", at.Stream, at.Pos)
	}
	if x.bits == nil {
		x.bits = map[rank.Place][]byte{}
	}
	x.bits[at] = slices.Clone(it.Value)
	if len(it.Value) <= len(rank.Model{}) && !it.Damaged {
		s.Malformed("the vector's bits have %d bytes", len(it.Value))
	}
}

// vector compares the bytes of a document's vector with its bits.
func (c *Checks) vector(s *verify.Space, it store.Item) {
	x := c.Of(s, it.Key)
	if x == nil {
		return
	}
	at, tag := placeOf(it.Key), len(rank.Model{})
	bits, ok := x.bits[at]
	delete(x.bits, at)
	switch {
	case it.Damaged || ok && bits == nil:
	case !ok:
		s.Orphan("the vector at %d/%d has no bits", at.Stream, at.Pos)
	case len(it.Value) <= tag || len(bits) != tag+rank.BitBytes(len(it.Value)-tag):
		s.Malformed("the vector has %d bytes for %d bytes of bits", len(it.Value), len(bits))
	case !bytes.Equal(bits[:tag], it.Value[:tag]):
		s.Mismatch("the vector's bits are of another model")
	case !rank.Quantised{Bits: bits[tag:], Bytes: it.Value[tag:]}.Agrees():
		s.Mismatch("the vector's bits are not the signs of its bytes")
	}
}

// end compares the records of a space with what was expected.
func (c *Checks) end(s *verify.Space) {
	x := c.now
	c.now, c.term = nil, ""
	if x == nil {
		return
	}
	at := func(kind records.Kind, key []byte) verify.Subject { return s.At(kind, key).Of(x.Project, "") }
	var in corpusRecord
	fresh := 0
	for _, d := range x.Docs {
		if d.fresh {
			fresh++
		} else {
			in.Documents++
			in.Terms += uint64(d.len)
		}
		switch {
		case d.postings != 0 && !x.lostBits:
			at(records.RecallDocument, d.key).Mismatch("the document's words are not those that blocks have it under")
		case x.Kind == records.RecallMemories && !x.Lost && d.Claimed == d.dead:
			at(records.RecallDocument, d.key).Mismatch("the passage of memory %q: the memory names it: %t; it is dead: %t",
				d.ID, d.Claimed, d.dead)
		}
	}
	for place := range x.bits {
		bits, _ := x.vectorKeys(place)
		at(records.RecallBits, bits).Missing("the vector's bytes are missing")
	}
	key := x.corpusKey()
	if x.oldest < x.rec.Oldest && !x.Lost {
		at(records.RecallCorpus, key).Mismatch("it says that documents wait from epoch %d on, one waits in epoch %d",
			x.rec.Oldest, x.oldest)
	}
	if (in.Documents != x.rec.Documents || in.Terms != x.rec.Terms) && !x.Lost {
		at(records.RecallCorpus, key).Mismatch("it counts %d documents of %d words in blocks, there are %d of %d",
			x.rec.Documents, x.rec.Terms, in.Documents, in.Terms)
	}
	if fresh+x.dead > 0 && !c.jobs[x.Space] {
		at(records.FoldJob, x.jobKey()).Missing("there are %d fresh documents and %d dead ones, and no job", fresh, x.dead)
	}
	for stream := range x.Ends {
		if stream.Number != 0 && (x.Kind == records.RecallMemories || !c.Goes(stream.Number)) {
			at(records.RecallStream, records.RecallStream.Key(x.Project, x.Kind, stream)).
				Missing("the record of its next position is missing")
		}
	}
	for path, n := range x.counts {
		if n != (namespaceRecord{}) && !x.Lost {
			at(records.RecallNamespace, x.namespaceKey(path)).
				Mismatch("it does not count %d documents of %d words of namespace %q in blocks", n.Documents, n.Terms, path)
		}
	}
}

// Finish finishes the last space, and reports indexes without a project.
func (c *Checks) Finish(s *verify.Space) {
	c.end(s)
	for pinc, key := range c.homeless {
		s.At(records.RecallDocument, key).Of(pinc, "").Orphan("there is an index of a project that does not exist")
	}
}
