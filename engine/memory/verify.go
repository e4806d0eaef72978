package memory

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// checks is what is known about a tenant's memories. Their earlier versions come first, then their records, then the
// index by time. Their projects, their passages and the expiry index come later.
type checks struct {
	index    *index.Checks
	before   map[name][]versionSeen // of memories that have not come yet
	memories map[name]*seen
	lines    map[ident.Incarnation][]byte // a key of each project's counts of writers
}

// NewChecks returns the checks of one tenant.
func NewChecks(index *index.Checks) verify.Checker {
	return &checks{index: index, before: map[name][]versionSeen{}, memories: map[name]*seen{},
		lines: map[ident.Incarnation][]byte{}}
}

// Checks returns the checks by kind of record.
func (c *checks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.Memory, Record: c.memory, Expiry: c.expiry},
		{Kind: records.MemoryVersion, Record: c.version},
		{Kind: records.MemoryTime, Record: c.time},
		{Kind: records.RecallMemory, Record: c.passages},
		{Kind: records.AdmitLine, Record: c.line},
	}
}

// name is a memory's key in its project.
type name struct {
	pinc ident.Incarnation
	key  string
}

func (n name) record() []byte { return records.Memory.Key(n.pinc, n.key) }

// subject returns the subject of a finding about a memory, or about one of its earlier versions.
func (n name) subject(s *verify.Space, version int) verify.Subject {
	if version == 0 {
		return s.At(records.Memory, n.record()).InProject(n.pinc)
	}
	return s.At(records.MemoryVersion, records.MemoryVersion.Key(n.pinc, n.key, uint32(version))).InProject(n.pinc)
}

// versionSeen is a version whose record is kept.
type versionSeen struct {
	keptVersion
	of   ident.Incarnation
	lost bool // damaged, so only its number is known
}

// seen is what a memory's record says about its other records.
type seen struct {
	placed  time.Time
	entry   uint64 // fingerprint of its entry in the index by time
	doc     uint64 // fingerprint of its documents in the index
	timed   bool   // the entry has come
	indexed bool   // the index refers to it
	lost    bool   // it cannot be read, so nothing about it is known
}

// read reads a memory or an earlier version. It returns nil if it is damaged or does not agree with its key.
func (n name) read(s *verify.Space, it store.Item) *Record {
	s.About(n.pinc, "")
	rec, wrong := decode(it.Value), s.InProject(n.pinc)
	switch {
	case it.Damaged: // already reported
	case rec.Damaged:
		wrong.Malformed("%q cannot be read", n.key)
	case rec.ID() != n.key || rec.Incarnation == (ident.Incarnation{}) || !slices.Contains(categories, rec.Category):
		wrong.Malformed("%q calls itself %q, its category %q", n.key, rec.ID(), rec.Category)
	default:
		return rec
	}
	return nil
}

// version records an earlier version.
func (c *checks) version(s *verify.Space, it store.Item) {
	pinc, key, version, _ := records.MemoryVersion.Split(it.Key)
	name := name{pinc, key}
	rec := name.read(s, it)
	if rec != nil && (version == 0 || rec.Version != int(version) || rec.Replaced == nil) {
		s.InProject(pinc).Malformed("what %q was in version %d is of version %d", key, version, rec.Version)
		rec = nil
	}
	seen := versionSeen{keptVersion: keptVersion{Version: int(version)}, lost: rec == nil}
	if rec != nil {
		seen.Bytes, seen.of = rec.size(), rec.Incarnation
	}
	c.before[name] = append(c.before[name], seen)
}

// memory records what a memory's record says about its other records.
func (c *checks) memory(s *verify.Space, it store.Item) {
	pinc, key, _ := records.Memory.Split(it.Key)
	name := name{pinc, key}
	rec := name.read(s, it)
	m := &seen{lost: rec == nil}
	c.memories[name], s.InUse = m, true
	kept := c.before[name]
	delete(c.before, name)
	if rec == nil {
		return
	}
	m.placed = rec.placed()
	if entry, err := json.Marshal(rec.entry()); err == nil {
		m.entry = verify.Fingerprint(s, string(entry))
	}
	doc := rec.document()
	m.doc = index.Fingerprint(s, &doc)
	if rec.ExpiresAt != nil {
		s.Expect(records.Expiry.Key(*rec.ExpiresAt, name.record()), name.subject(s, 0),
			"the expiry index does not name the memory %q, so that it would stay for good", name.key)
	}
	c.versions(s, name, rec, kept)
}

// line checks the count of a namespace's writers.
func (c *checks) line(s *verify.Space, it store.Item) {
	pinc, namespace, _ := records.AdmitLine.Split(it.Key)
	c.lines[pinc] = slices.Clone(it.Key)
	s.About(pinc, "")
	if it.Damaged {
		return
	}
	if n, size := binary.Uvarint(it.Value); n == 0 || size != len(it.Value) {
		s.InProject(pinc).Malformed("the count of writers of the namespace %q is not a number", namespace)
	}
}

// versions compares the history in a memory's record with the versions that came.
func (c *checks) versions(s *verify.Space, name name, rec *Record, kept []versionSeen) {
	wrong := s.InProject(name.pinc)
	if rec.Version <= len(rec.History) || rec.Replaced != nil {
		wrong.Malformed("%q is in version %d and has %d before it", name.key, rec.Version, len(rec.History))
	}
	for i, said := range rec.History {
		at := slices.IndexFunc(kept, func(v versionSeen) bool { return v.Version == said.Version })
		switch {
		case at < 0:
			name.subject(s, said.Version).Missing("version %d of %q is not there", said.Version, name.key)
		case !kept[at].lost && (kept[at].keptVersion != said || kept[at].of != rec.Incarnation):
			wrong.Mismatch("%q says of version %d that it has %d bytes, it has %d, of %s", name.key, said.Version,
				said.Bytes, kept[at].Bytes, kept[at].of)
		case said.Version >= rec.Version || i > 0 && said.Version <= rec.History[i-1].Version:
			wrong.Malformed("%q is in version %d and has a version %d before it", name.key, rec.Version, said.Version)
		}
	}
	for _, v := range kept {
		if !slices.ContainsFunc(rec.History, func(said keptVersion) bool { return said.Version == v.Version }) {
			name.subject(s, v.Version).Orphan("%q has no version %d", name.key, v.Version)
		}
	}
}

// time compares an entry of the index by time with its memory.
func (c *checks) time(s *verify.Space, it store.Item) {
	pinc, at, id, _ := records.MemoryTime.Split(it.Key)
	m := c.memories[name{pinc, id}]
	s.About(pinc, "")
	if it.Damaged {
		if m != nil && (m.lost || m.placed.Equal(at)) {
			m.timed = true
		}
		return
	}
	wrong := s.InProject(pinc)
	if err := json.Unmarshal(it.Value, new(entry)); err != nil {
		wrong.Malformed("it does not decode: %v", err)
	}
	switch {
	case m == nil:
		wrong.Missing("the time index names the memory %q, which is not there", id)
		return
	case m.lost:
	case !m.placed.Equal(at):
		wrong.Mismatch("the time index has %q at %s, its time is %s", id, at, m.placed)
		return
	case m.entry != verify.Fingerprint(s, string(it.Value)):
		wrong.Mismatch("the time index says of %q: %q, the memory does not", id, it.Value)
	}
	m.timed = true
}

// passages compares the places of a memory's passages with the documents there.
func (c *checks) passages(s *verify.Space, it store.Item) {
	x := c.index.Of(s, it.Key)
	if x == nil {
		return
	}
	pinc, id, _ := records.RecallMemory.Split(it.Key)
	name := name{pinc, id}
	m := c.memories[name]
	switch {
	case it.Damaged:
		x.Lost = true
		if m != nil {
			m.indexed = true
		}
		return
	case m == nil:
		s.Orphan("the index names the memory %q, which is not there", name.key)
		return
	}
	m.indexed = true
	at, ok := x.ReadPassages(id, it.Value)
	if !ok || at.Count == 0 {
		s.Malformed("what says where the passages of the memory %q are does not parse, or names none", name.key)
		x.Lost = true
		return
	}
	for i := range at.Count {
		d := x.Docs[at.Place(i)]
		switch {
		case d == nil && x.Lost:
			return
		case d == nil:
			s.Missing("passage %d of %d of the memory %q is not there", i+1, at.Count, name.key)
			return
		case d.ID != name.key:
			s.Mismatch("passage %d of the memory %q is of the memory %q", i+1, name.key, d.ID)
		case !m.lost && d.Says != m.doc:
			s.Mismatch("the index says something else of the memory %q than its record", name.key)
		}
		d.Claimed = true
	}
}

// expiry compares an entry of the expiry index with its memory.
func (c *checks) expiry(s *verify.Space, key []byte) {
	pinc, id, _ := records.Memory.Split(records.SplitExpiry(key))
	if s.Came(key) {
		return
	}
	if m := c.memories[name{pinc, id}]; m == nil || !m.lost {
		s.InProject(pinc).Missing("the expiry index names the memory %q, which does not expire then", id)
	}
}

// Finish reports records that were expected and did not come.
func (c *checks) Finish(s *verify.Space) {
	homeless := map[ident.Incarnation]name{}
	for name, m := range c.memories {
		if !s.Belongs(name.pinc) {
			homeless[name.pinc] = name
		}
		if !m.timed {
			name.subject(s, 0).Missing("the time index does not name the memory %q, so that no list shows it", name.key)
		}
		if s.Lives(name.pinc) && !m.indexed && !m.lost &&
			!c.index.Rebuilt(index.Memories(name.pinc)) {
			name.subject(s, 0).Missing("the index does not name the memory %q, so that it is not recalled", name.key)
		}
	}
	for name, versions := range c.before {
		first := name.subject(s, versions[0].Version)
		first.Orphan("%d versions of a memory %q that does not exist", len(versions), name.key)
	}
	for pinc, key := range c.lines {
		if !s.Belongs(pinc) {
			s.At(records.AdmitLine, key).Of(pinc, "").Orphan("counts of the writers of a project that does not exist")
		}
	}
	for pinc, name := range homeless {
		s.At(records.Memory, name.record()).Of(pinc, "").
			Orphan("memories of a project that does not exist, %q among them", name.key)
	}
}
