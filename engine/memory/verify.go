package memory

import (
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/index"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// checks is what is known of a tenant's memories. What they were before comes first, then their records, then the
// time index; of their project, their places in the index and their expiry is heard later.
type checks struct {
	index    *index.Checks
	before   map[name][]versionSeen // of memories that did not come yet
	memories map[name]*seen
}

func NewChecks(index *index.Checks) *checks {
	return &checks{index: index, before: map[name][]versionSeen{}, memories: map[name]*seen{}}
}

func (c *checks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.Memory, Record: c.memory, Expiry: c.expiry},
		{Kind: records.MemoryVersion, Record: c.memory},
		{Kind: records.MemoryTime, Record: c.time},
		{Kind: records.RecallMemory, Record: c.passages},
	}
}

type name struct {
	pinc ident.Incarnation
	key  string
}

func (n name) record() []byte { return records.Memory.Key(n.pinc, n.key) }

// at is a memory, or one of its versions before.
func (n name) at(s *verify.Space, version int) verify.Subject {
	if version == 0 {
		return s.At(records.Memory, n.record()).InProject(n.pinc)
	}
	return s.At(records.MemoryVersion, records.MemoryVersion.Key(n.pinc, n.key, uint32(version))).InProject(n.pinc)
}

// versionSeen is a version whose record is kept.
type versionSeen struct {
	keptVersion
	of   ident.Incarnation
	lost bool // damaged, so that nothing but its number is known
}

// seen is what a memory's record promises.
type seen struct {
	updated int64  // ms
	entry   uint64 // fingerprint of what the time index is to say
	doc     uint64 // and of what the index says, but for words
	timed   bool   // its entry of the time index came
	indexed bool   // the index names it
	lost    bool   // it cannot be read: nothing of it is known
}

// memory takes a memory, or what one was before.
func (c *checks) memory(s *verify.Space, it store.Item) {
	key := it.Key
	end, version, old := len(key)-1, 0, key[2] == 'h'
	if old {
		end -= 4
		version = int(binary.BigEndian.Uint32(key[end+1:]))
	}
	name := name{ident.Incarnation(key[3:]), string(key[3+8 : end])}
	s.About(name.pinc, "")
	wrong := s.InProject(name.pinc)
	rec := decode(it.Value)
	switch {
	case it.Damaged: // told already
		rec = nil
	case rec.Damaged:
		wrong.Malformed("%q cannot be read", name.key)
		rec = nil
	case rec.Key != name.key || rec.Incarnation == (ident.Incarnation{}) || !slices.Contains(categories, rec.Category):
		wrong.Malformed("%q calls itself %q, its category %q", name.key, rec.Key, rec.Category)
		rec = nil
	case old && (version == 0 || rec.Version != version || rec.Replaced == nil):
		wrong.Malformed("what %q was in version %d is of version %d", name.key, version, rec.Version)
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
func (c *checks) remember(s *verify.Space, name name, rec *Record, wrong verify.Subject) {
	m := &seen{lost: rec == nil}
	c.memories[name], s.InUse = m, true
	kept := c.before[name]
	delete(c.before, name)
	if rec == nil {
		return
	}
	m.updated = rec.UpdatedAt.UnixMilli()
	if entry, err := rec.entry(); err == nil {
		m.entry = verify.Fingerprint(s, string(entry))
	}
	doc := rec.doc()
	m.doc = index.DocumentPrint(s, &doc)
	if rec.ExpiresAt != nil {
		s.Expect(records.Expiry.Key(*rec.ExpiresAt, name.record()), name.at(s, 0),
			"the expiry index does not name the memory %q, so that it would stay for good", name.key)
	}
	c.versions(s, name, rec, kept, wrong)
}

// versions holds what a memory says that it was against the versions that are kept.
func (c *checks) versions(s *verify.Space, name name, rec *Record, kept []versionSeen, wrong verify.Subject) {
	if rec.Version <= len(rec.History) || rec.Replaced != nil {
		wrong.Malformed("%q is in version %d and has %d before it", name.key, rec.Version, len(rec.History))
	}
	for i, said := range rec.History {
		at := slices.IndexFunc(kept, func(v versionSeen) bool { return v.Version == said.Version })
		switch {
		case at < 0:
			name.at(s, said.Version).Missing("version %d of %q is not there", said.Version, name.key)
		case !kept[at].lost && (kept[at].keptVersion != said || kept[at].of != rec.Incarnation):
			wrong.Mismatch("%q says of version %d that it has %d bytes, it has %d, of %s", name.key, said.Version,
				said.Bytes, kept[at].Bytes, kept[at].of)
		case said.Version >= rec.Version || i > 0 && said.Version <= rec.History[i-1].Version:
			wrong.Malformed("%q is in version %d and has a version %d before it", name.key, rec.Version, said.Version)
		}
	}
	for _, v := range kept {
		if !slices.ContainsFunc(rec.History, func(said keptVersion) bool { return said.Version == v.Version }) {
			name.at(s, v.Version).Orphan("%q has no version %d", name.key, v.Version)
		}
	}
}

// time holds an entry of the time index against its memory.
func (c *checks) time(s *verify.Space, it store.Item) {
	updated, id := splitTime(it.Key)
	name, at := name{ident.Incarnation(it.Key[3:]), id}, updated.UnixMilli()
	m := c.memories[name]
	s.About(name.pinc, "")
	if it.Damaged {
		if m != nil && (m.lost || m.updated == at) {
			m.timed = true
		}
		return
	}
	wrong := s.InProject(name.pinc)
	if err := json.Unmarshal(it.Value, new(entry)); err != nil {
		wrong.Malformed("it does not decode: %v", err)
	}
	switch {
	case m == nil:
		wrong.Missing("the time index names the memory %q, which is not there", id)
		return
	case m.lost:
	case m.updated != at:
		wrong.Mismatch("the time index has %q at %s, it was changed at %s", id, records.TimeOf(at), records.TimeOf(m.updated))
		return
	case m.entry != verify.Fingerprint(s, string(it.Value)):
		wrong.Mismatch("the time index says of %q: %q, the memory does not", id, it.Value)
	}
	m.timed = true
}

// passages holds where a memory's passages are to be against the documents there.
func (c *checks) passages(s *verify.Space, it store.Item) {
	x := c.index.Corpus(s, it.Key)
	if x == nil {
		return
	}
	name := name{x.Pinc, string(it.Key[2+8+2:])}
	m := c.memories[name]
	switch {
	case it.Damaged:
		if x.Lost = true; m != nil {
			m.indexed = true
		}
		return
	case m == nil:
		s.Orphan("the index names the memory %q, which is not there", name.key)
		return
	}
	m.indexed = true
	var at index.PassagesAt
	if !s.Decode(it, &at) {
		x.Lost = true
		return
	}
	if at.Count == 0 {
		s.Malformed("the memory %q is to have no passage", name.key)
	}
	for i := range at.Count {
		d := x.Docs[at.Place(i)]
		switch {
		case d == nil && x.Lost:
			return
		case d == nil:
			s.Missing("passage %d of %d of the memory %q is not there", i+1, at.Count, name.key)
			return
		case d.Id != name.key:
			s.Mismatch("passage %d of the memory %q is of the memory %q", i+1, name.key, d.Id)
		case !m.lost && d.Doc != m.doc:
			s.Mismatch("the index says something else of the memory %q than its record", name.key)
		}
		d.Claimed = true
	}
}

// expiry holds an entry of the expiry index that names a memory against it.
func (c *checks) expiry(s *verify.Space, key []byte) {
	pinc, id, _ := SplitKey(records.SplitExpiry(key))
	if s.Came(key) {
		return
	}
	if m := c.memories[name{pinc, id}]; m == nil || !m.lost {
		s.InProject(pinc).Missing("the expiry index names the memory %q, which does not expire then", id)
	}
}

// Finish tells what was promised and did not come.
func (c *checks) Finish(s *verify.Space) {
	homeless := map[ident.Incarnation]name{}
	for name, m := range c.memories {
		if !s.Belongs(name.pinc) {
			homeless[name.pinc] = name
		}
		if !m.timed {
			name.at(s, 0).Missing("the time index does not name the memory %q, so that no list shows it", name.key)
		}
		if s.Lives(name.pinc) && !m.indexed && !m.lost && !c.index.Rebuilt[name.pinc][records.RecallMemories] {
			name.at(s, 0).Missing("the index does not name the memory %q, so that it is not recalled", name.key)
		}
	}
	for name, versions := range c.before {
		first := name.at(s, versions[0].Version)
		first.Orphan("%d versions of a memory %q that does not exist", len(versions), name.key)
	}
	for pinc, name := range homeless {
		s.At(records.Memory, name.record()).Of(pinc, "").
			Orphan("memories of a project that does not exist, %q among them", name.key)
	}
}
