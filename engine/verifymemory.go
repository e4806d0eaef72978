package engine

import (
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// memoryChecks is what is known of a tenant's memories. What they were before comes first, then their records, then the
// time index; of their project, their places in the index and their expiry is heard later.
type memoryChecks struct {
	index    *indexChecks
	before   map[memoryName][]versionSeen // of memories that did not come yet
	memories map[memoryName]*memorySeen
}

func newMemoryChecks(index *indexChecks) *memoryChecks {
	return &memoryChecks{index: index, before: map[memoryName][]versionSeen{}, memories: map[memoryName]*memorySeen{}}
}

func (c *memoryChecks) checks() []recordCheck {
	return []recordCheck{
		{kind: "memory", record: c.memory, expiry: c.expiry},
		{kind: "memory_version", record: c.memory},
		{kind: "memory_time", record: c.time},
		{kind: "recall_memory", record: c.passages},
	}
}

type memoryName struct {
	pinc incarnation
	key  string
}

func (n memoryName) record() []byte { return kindMemory.Key(n.pinc, n.key) }

// at is a memory, or one of its versions before.
func (n memoryName) at(s *space, version int) subject {
	if version == 0 {
		return s.at("memory", n.record()).inProject(n.pinc)
	}
	return s.at("memory_version", kindMemoryVersion.Key(n.pinc, n.key, uint32(version))).inProject(n.pinc)
}

// versionSeen is a version whose record is kept.
type versionSeen struct {
	keptVersion
	of   incarnation
	lost bool // damaged, so that nothing but its number is known
}

// memorySeen is what a memory's record promises.
type memorySeen struct {
	updated int64  // ms
	entry   uint64 // fingerprint of what the time index is to say
	doc     uint64 // and of what the index says, but for words
	timed   bool   // its entry of the time index came
	indexed bool   // the index names it
	lost    bool   // it cannot be read: nothing of it is known
}

// memory takes a memory, or what one was before.
func (c *memoryChecks) memory(s *space, it store.Item) {
	key := it.Key
	end, version, old := len(key)-1, 0, key[2] == 'h'
	if old {
		end -= 4
		version = int(binary.BigEndian.Uint32(key[end+1:]))
	}
	name := memoryName{incarnation(key[3:]), string(key[3+8 : end])}
	s.about(name.pinc, "")
	wrong := s.inProject(name.pinc)
	rec := decodeMemory(it.Value)
	switch {
	case it.Damaged: // told already
		rec = nil
	case rec.damaged:
		wrong.malformed("%q cannot be read", name.key)
		rec = nil
	case rec.Key != name.key || rec.Incarnation == (incarnation{}) || !slices.Contains(memoryCategories, rec.Category):
		wrong.malformed("%q calls itself %q, its category %q", name.key, rec.Key, rec.Category)
		rec = nil
	case old && (version == 0 || rec.Version != version || rec.Replaced == nil):
		wrong.malformed("what %q was in version %d is of version %d", name.key, version, rec.Version)
		rec = nil
	}
	if !old {
		c.remember(s, name, rec, wrong)
		return
	}
	seen := versionSeen{keptVersion: keptVersion{Version: version}, lost: rec == nil}
	if rec != nil {
		seen.Bytes, seen.of = rec.Bytes, rec.Incarnation
	}
	c.before[name] = append(c.before[name], seen)
}

// remember notes what a memory promises; rec is nil where it cannot be read.
func (c *memoryChecks) remember(s *space, name memoryName, rec *memoryRecord, wrong subject) {
	m := &memorySeen{lost: rec == nil}
	c.memories[name], s.inUse = m, true
	kept := c.before[name]
	delete(c.before, name)
	if rec == nil {
		return
	}
	m.updated = rec.UpdatedAt.UnixMilli()
	if entry, err := rec.entry(); err == nil {
		m.entry = fingerprint(s, string(entry))
	}
	doc := rec.doc()
	m.doc = documentPrint(s, &doc)
	if rec.ExpiresAt != nil {
		s.expect(kindExpiry.Key(*rec.ExpiresAt, name.record()), name.at(s, 0),
			"the expiry index does not name the memory %q, so that it would stay for good", name.key)
	}
	c.versions(s, name, rec, kept, wrong)
}

// versions holds what a memory says that it was against the versions that are kept.
func (c *memoryChecks) versions(s *space, name memoryName, rec *memoryRecord, kept []versionSeen, wrong subject) {
	if rec.Version <= len(rec.History) || rec.Replaced != nil {
		wrong.malformed("%q is in version %d and has %d before it", name.key, rec.Version, len(rec.History))
	}
	for i, said := range rec.History {
		at := slices.IndexFunc(kept, func(v versionSeen) bool { return v.Version == said.Version })
		switch {
		case at < 0:
			name.at(s, said.Version).missing("version %d of %q is not there", said.Version, name.key)
		case !kept[at].lost && (kept[at].keptVersion != said || kept[at].of != rec.Incarnation):
			wrong.mismatch("%q says of version %d that it has %d bytes, it has %d, of %s", name.key, said.Version,
				said.Bytes, kept[at].Bytes, kept[at].of)
		case said.Version >= rec.Version || i > 0 && said.Version <= rec.History[i-1].Version:
			wrong.malformed("%q is in version %d and has a version %d before it", name.key, rec.Version, said.Version)
		}
	}
	for _, v := range kept {
		if !slices.ContainsFunc(rec.History, func(said keptVersion) bool { return said.Version == v.Version }) {
			name.at(s, v.Version).orphan("%q has no version %d", name.key, v.Version)
		}
	}
}

// time holds an entry of the time index against its memory.
func (c *memoryChecks) time(s *space, it store.Item) {
	updated, id := splitMemoryTime(it.Key)
	name, at := memoryName{incarnation(it.Key[3:]), id}, updated.UnixMilli()
	m := c.memories[name]
	s.about(name.pinc, "")
	if it.Damaged {
		if m != nil && (m.lost || m.updated == at) {
			m.timed = true
		}
		return
	}
	wrong := s.inProject(name.pinc)
	if err := json.Unmarshal(it.Value, new(memoryEntry)); err != nil {
		wrong.malformed("it does not decode: %v", err)
	}
	switch {
	case m == nil:
		wrong.missing("the time index names the memory %q, which is not there", id)
		return
	case m.lost:
	case m.updated != at:
		wrong.mismatch("the time index has %q at %s, it was changed at %s", id, timeOf(at), timeOf(m.updated))
		return
	case m.entry != fingerprint(s, string(it.Value)):
		wrong.mismatch("the time index says of %q: %q, the memory does not", id, it.Value)
	}
	m.timed = true
}

// passages holds where a memory's passages are to be against the documents there.
func (c *memoryChecks) passages(s *space, it store.Item) {
	x := c.index.corpus(s, it.Key)
	if x == nil {
		return
	}
	name := memoryName{x.pinc, string(it.Key[2+8+2:])}
	m := c.memories[name]
	switch {
	case it.Damaged:
		if x.lost = true; m != nil {
			m.indexed = true
		}
		return
	case m == nil:
		s.orphan("the index names the memory %q, which is not there", name.key)
		return
	}
	m.indexed = true
	var at passagesAt
	if !s.decode(it, &at) {
		x.lost = true
		return
	}
	if at.Count == 0 {
		s.malformed("the memory %q is to have no passage", name.key)
	}
	for i := range at.Count {
		d := x.docs[at.place(i)]
		switch {
		case d == nil && x.lost:
			return
		case d == nil:
			s.missing("passage %d of %d of the memory %q is not there", i+1, at.Count, name.key)
			return
		case d.id != name.key:
			s.mismatch("passage %d of the memory %q is of the memory %q", i+1, name.key, d.id)
		case !m.lost && d.doc != m.doc:
			s.mismatch("the index says something else of the memory %q than its record", name.key)
		}
		d.claimed = true
	}
}

// expiry holds an entry of the expiry index that names a memory against it.
func (c *memoryChecks) expiry(s *space, key []byte) {
	pinc, id, _ := splitMemoryKey(splitExpiry(key))
	if s.came(key) {
		return
	}
	if m := c.memories[memoryName{pinc, id}]; m == nil || !m.lost {
		s.inProject(pinc).missing("the expiry index names the memory %q, which does not expire then", id)
	}
}

// finish tells what was promised and did not come.
func (c *memoryChecks) finish(s *space) {
	homeless := map[incarnation]memoryName{}
	for name, m := range c.memories {
		if !s.belongs(name.pinc) {
			homeless[name.pinc] = name
		}
		if !m.timed {
			name.at(s, 0).missing("the time index does not name the memory %q, so that no list shows it", name.key)
		}
		if s.lives(name.pinc) && !m.indexed && !m.lost && !c.index.rebuilt[name.pinc][recallMemories] {
			name.at(s, 0).missing("the index does not name the memory %q, so that it is not recalled", name.key)
		}
	}
	for name, versions := range c.before {
		first := name.at(s, versions[0].Version)
		first.orphan("%d versions of a memory %q that does not exist", len(versions), name.key)
	}
	for pinc, name := range homeless {
		s.at("memory", name.record()).of(pinc, "").
			orphan("memories of a project that does not exist, %q among them", name.key)
	}
}
