package engine

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/recall"
)

// recallChecks is what is known of a tenant's recall indexes. They come after memories, sessions' heads, jobs and
// projects, space by space. What a document's record says are its words is not held against its text: another version
// of the analyser may have found them.
type recallChecks struct {
	searched  map[incarnation]bool                   // projects whose transcripts are
	marked    map[incarnation]bool                   // sessions with messages to be indexed
	backlog   map[incarnation]string                 // the session that a project's marking has come to
	foldJobs  map[string]bool                        // project and space
	rebuilt   map[incarnation]map[byte]bool          // spaces that are being built again
	streams   map[incarnation]map[uint64]streamState // how far sessions are indexed, by project
	homeless  map[incarnation][]byte                 // the first record of indexes of no project
	indexNow  *recallSeen
	indexTerm []byte       // that blocks are coming of
	indexLast recall.Place // the last posting of the block before
}

func (c *recallChecks) init() {
	c.searched, c.marked, c.backlog = map[incarnation]bool{}, map[incarnation]bool{}, map[incarnation]string{}
	c.foldJobs, c.streams = map[string]bool{}, map[incarnation]map[uint64]streamState{}
	c.homeless, c.rebuilt = map[incarnation][]byte{}, map[incarnation]map[byte]bool{}
}

// recallSeen follows one space of an index: documents, fresh ones, where memories are, languages, streams, what is in
// blocks, blocks, dead documents.
type recallSeen struct {
	pinc     incarnation
	space    byte
	docs     map[recall.Place]*docSeen
	ends     map[uint64]uint64 // behind the last document of a stream
	counts   map[uint64]uint64 // documents of a stream
	lost     bool              // a document is damaged
	lostBits bool              // a block is
	corpus   corpusRecord
	came     bool   // it did
	oldest   uint32 // epoch that a document waits in
	dead     int
}

// docSeen is a document, until its postings and its memory have come.
type docSeen struct {
	postings uint64 // the sum of their fingerprints, less those that came
	doc      uint64 // fingerprint of the rest
	of       memoryName
	len      uint32
	fresh    bool
	key      []byte
	dead     bool
	claimed  bool // its memory says that it is here
}

// index gives the space that a record is of; nil where it is not worth a look: the project's index is to be swept, or
// is being built again, or the project is unknown.
func (s *space) index(key []byte) *recallSeen {
	pinc, space := incarnation(key[2:]), key[2+8]
	if now := s.indexNow; now != nil && now.pinc == pinc && now.space == space {
		return now
	}
	s.endIndex()
	if _, ok := s.projects[pinc]; !ok {
		if !s.sweptProjects[pinc] && s.lostProjects == 0 && s.homeless[pinc] == nil {
			s.homeless[pinc] = slices.Clone(key)
		}
		return nil
	}
	if s.rebuilt[pinc][space] {
		return nil
	}
	s.indexNow = &recallSeen{pinc: pinc, space: space, oldest: math.MaxUint32, docs: map[recall.Place]*docSeen{}, ends: map[uint64]uint64{},
		counts: map[uint64]uint64{}}
	return s.indexNow
}

func (s *space) recallDoc(key, value []byte) {
	x := s.index(key)
	if x == nil {
		return
	}
	at := splitPlace(key)
	d, err := recall.ReadDocument(at, value, true)
	if err != nil || !countsUp(d) {
		s.bad(key, foundMalformed, "the document does not parse").pinc = x.pinc
		x.lost = true
		return
	}
	fresh := key[2+8+1] == recallFresh
	if x.docs[at] != nil {
		s.bad(key, foundMismatch, "the document is in blocks and is still to be put there").pinc = x.pinc
		return
	}
	seen := &docSeen{len: d.Len, fresh: fresh, key: slices.Clone(key)}
	if fresh && freshEpoch(key) < x.oldest {
		x.oldest = freshEpoch(key)
	}
	if x.docs[at] = seen; x.space == recallMemories {
		seen.doc, seen.of = s.docPrint(d), memoryName{x.pinc, d.ID}
	}
	for _, t := range d.Terms {
		if !fresh {
			seen.postings += s.postingPrint(t.Term, d.Posting(t.Count))
		}
	}
	x.ends[at.Stream] = max(x.ends[at.Stream], at.Pos+1)
	if x.counts[at.Stream]++; x.space == recallTranscript {
		s.ofMessage(key, x, d)
	}
}

// countsUp tells whether a document's words are in order, and as many as it says.
func countsUp(d *recall.Document) bool {
	sum := uint64(0)
	for i, t := range d.Terms {
		if sum += uint64(t.Count); t.Count == 0 || i > 0 && t.Term <= d.Terms[i-1].Term {
			return false
		}
	}
	return sum == uint64(d.Len)
}

// ofMessage holds a document against the session whose message it is.
func (s *space) ofMessage(key []byte, x *recallSeen, d *recall.Document) {
	sinc := incarnationOf(d.Stream)
	switch h := s.heads[sinc]; {
	case h == nil && !s.sweptSessions[sinc] && len(s.lostHeads) == 0:
		s.bad(key, foundOrphan, "the document is of no session").pinc = x.pinc
	case h == nil:
	case h.pinc != x.pinc || h.session != d.Session:
		s.bad(key, foundMismatch, "the document of session %q lies with session %q", d.Session, h.session).of(h.pinc, h.session)
	case d.Number == 0 || d.Number > h.Messages:
		s.bad(key, foundMismatch, "the document is of message %d, the session has %d", d.Number, h.Messages).of(h.pinc, h.session)
	}
}

func (s *space) damagedRecallDoc(key []byte) {
	if x := s.index(key); x != nil {
		s.damage().pinc, x.lost = x.pinc, true
	}
}

// postingPrint is the fingerprint of a posting.
func (s *space) postingPrint(term string, p recall.Posting) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	h.WriteString(term)
	var b [30]byte
	binary.BigEndian.PutUint64(b[:], p.Stream)
	binary.BigEndian.PutUint64(b[8:], p.Pos)
	binary.BigEndian.PutUint32(b[16:], p.Count)
	binary.BigEndian.PutUint32(b[20:], p.Len)
	binary.BigEndian.PutUint32(b[24:], uint32(p.Attrs))
	binary.BigEndian.PutUint16(b[28:], p.Day)
	h.Write(b[:])
	return h.Sum64()
}

// recallMemory holds where a memory's passages are to be against the documents there.
func (s *space) recallMemory(key, value []byte) {
	x := s.index(key)
	if x == nil {
		return
	}
	name := memoryName{x.pinc, string(key[2+8+2:])}
	wrong := func(code, format string, args ...any) { s.bad(key, code, format, args...).pinc = x.pinc }
	m := s.memories[name]
	if m == nil {
		wrong(foundOrphan, "the index names the memory %q, which is not there", name.key)
		return
	}
	m.indexed = true
	var at passagesAt
	if !s.decode(key, value, &at) {
		x.lost = true
		return
	}
	if at.Count == 0 {
		wrong(foundMalformed, "the memory %q is to have no passage", name.key)
	}
	for i := range at.Count {
		d := x.docs[at.place(i)]
		switch {
		case d == nil && x.lost:
		case d == nil:
			wrong(foundMissing, "passage %d of %d of the memory %q is not there", i+1, at.Count, name.key)
		case d.of != name:
			wrong(foundMismatch, "passage %d of the memory %q is of the memory %q", i+1, name.key, d.of.key)
		case !m.lost && d.doc != m.doc:
			wrong(foundMismatch, "the index says something else of the memory %q than its record", name.key)
		}
		if d == nil {
			return
		}
		d.claimed = true
	}
}

func (s *space) damagedRecallMemory(key []byte) {
	if x := s.index(key); x != nil {
		s.damage().pinc, x.lost = x.pinc, true
		if m := s.memories[memoryName{x.pinc, string(key[2+8+2:])}]; m != nil {
			m.indexed = true
		}
	}
}

// recallEpoch is the epoch that documents are written in: none waits in a later one.
func (s *space) recallEpoch(key, value []byte) {
	if x := s.index(key); x != nil && len(value) != 4 {
		s.bad(key, foundMalformed, "the epoch has %d bytes", len(value)).pinc = x.pinc
	}
}

func (s *space) damagedRecallEpoch(key []byte) {
	if x := s.index(key); x != nil {
		s.damage().pinc = x.pinc
	}
}

func (s *space) recallLanguage(key, _ []byte) { s.index(key) }

func (s *space) recallCorpus(key, value []byte) {
	if x := s.index(key); x != nil {
		x.came = s.decode(key, value, &x.corpus)
		x.lost = x.lost || !x.came
	}
}

func (s *space) damagedRecallCorpus(key []byte) { s.damagedRecallDoc(key) }

func (s *space) recallBlock(key, value []byte) {
	x := s.index(key)
	if x == nil {
		return
	}
	term, at := key[2+8+2:len(key)-17], splitPlace(key)
	wrong := func(code, format string, args ...any) { s.bad(key, code, format, args...).pinc = x.pinc }
	block, err := recall.ReadBlock(nil, value)
	if err != nil || len(block) == 0 {
		wrong(foundMalformed, "the block does not parse, or is empty")
		x.lostBits = true
		return
	}
	if string(s.indexTerm) == string(term) && s.indexLast.Compare(at) >= 0 {
		wrong(foundMismatch, "the block begins before the one before it ends")
	}
	if block[0].Compare(at) < 0 || !slices.IsSortedFunc(block, func(a, b recall.Posting) int { return a.Compare(b.Place) }) {
		wrong(foundMismatch, "the block's postings are out of order")
	}
	s.indexTerm, s.indexLast = slices.Clone(term), block[len(block)-1].Place
	for _, p := range block {
		d := x.docs[p.Place]
		switch {
		case d != nil && !d.fresh:
			d.postings -= s.postingPrint(string(term), p)
		case !x.lost:
			wrong(foundOrphan, "the block names a document at %d/%d that is not there", p.Stream, p.Pos)
			return
		}
	}
}

func (s *space) damagedRecallBlock(key []byte) {
	if x := s.index(key); x != nil {
		s.damage().pinc, x.lostBits = x.pinc, true
	}
}

func (s *space) recallDead(key, _ []byte) {
	x := s.index(key)
	if x == nil {
		return
	}
	x.dead++
	if d := x.docs[splitPlace(key)]; d != nil && !d.fresh {
		d.dead = true
	} else if !x.lost {
		s.bad(key, foundOrphan, "a document is to be dead that is not there").harmless = true
	}
}

func (s *space) damagedRecallDead(key []byte) { s.recallDead(key, nil) }

// endIndex holds what came of a space against what was promised.
func (s *space) endIndex() {
	x := s.indexNow
	if s.indexNow, s.indexTerm = nil, nil; x == nil {
		return
	}
	wrong := func(kind string, key []byte, code, format string, args ...any) {
		s.wrong(kind, key, code, format, args...).pinc = x.pinc
	}
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
			wrong("recall_document", d.key, foundMismatch, "the document's words are not those that blocks have it under")
		case x.space == recallMemories && !x.lost && d.claimed == d.dead:
			wrong("recall_document", d.key, foundMismatch, "the passage of memory %q: the memory names it: %t; it is dead: %t",
				d.of.key, d.claimed, d.dead)
		}
	}
	if x.oldest < x.corpus.Oldest && !x.lost {
		wrong("recall_corpus", recallPrefix(x.pinc, x.space, recallCorpus), foundMismatch,
			"it says that documents wait from epoch %d on, one waits in epoch %d", x.corpus.Oldest, x.oldest)
	}
	if (in.Documents != x.corpus.Documents || in.Terms != x.corpus.Terms) && !x.lost {
		wrong("recall_corpus", recallPrefix(x.pinc, x.space, recallCorpus), foundMismatch,
			"it counts %d documents of %d words in blocks, there are %d of %d", x.corpus.Documents, x.corpus.Terms, in.Documents,
			in.Terms)
	}
	if job := foldKey(x.pinc, x.space); fresh+x.dead > 0 && !s.foldJobs[string(job[3:])] {
		wrong("job_fold", job, foundMissing, "there are %d fresh documents and %d dead ones, and no job", fresh, x.dead)
	}
	for stream := range x.ends {
		goes := x.space == recallTranscript && (s.sweptSessions[incarnationOf(stream)] || len(s.lostHeads) > 0)
		if stream != 0 && !goes {
			wrong("recall_stream", recallStreamPrefix(x.pinc, x.space, recallStream, stream), foundMissing,
				"it is not told where the stream goes on")
		}
	}
}
