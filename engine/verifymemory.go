package engine

import (
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/recall"
)

// memoryChecks is what is known of a tenant's memories. What they were before comes first, then their records, then the
// time index; of their project, its index and their expiry is heard later.
type memoryChecks struct {
	before   map[memoryName][]versionSeen // of memories that did not come yet
	memories map[memoryName]*memorySeen
	expiries map[string]memoryName // entries that must be in the expiry index

	remembers bool // there is a memory
}

func (c *memoryChecks) init() {
	c.before, c.memories, c.expiries = map[memoryName][]versionSeen{}, map[memoryName]*memorySeen{}, map[string]memoryName{}
}

type memoryName struct {
	pinc incarnation
	key  string
}

func (n memoryName) record() []byte { return memoryKey(n.pinc, n.key) }

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

// inProject says which project a finding is about. It counts for nothing where that is to be swept: what is being swept
// goes piece by piece.
func (f *Finding) inProject(pinc incarnation) *Finding {
	f.pinc, f.unlessSwept = pinc, true
	return f
}

func (s *space) damagedMemory(key []byte) {
	s.damage().pinc = incarnation(key[3:])
	s.memoryRecord(key, nil)
}

func (s *space) memory(key, value []byte) { s.memoryRecord(key, value) }

// memoryRecord holds a memory, or what one was before, against its key; value is nil where it is damaged.
func (s *space) memoryRecord(key, value []byte) {
	name := memoryName{pinc: incarnation(key[3:])}
	end := len(key) - 1
	version := 0
	if key[2] == 'h' {
		end -= 4
		version = int(binary.BigEndian.Uint32(key[end+1:]))
	}
	name.key = string(key[3+8 : end])
	kind := "memory"
	if version > 0 {
		kind = "memory_version"
	}
	wrong := func(code, format string, args ...any) { s.wrong(kind, key, code, format, args...).inProject(name.pinc) }
	rec := decodeMemory(value)
	switch {
	case value == nil: // told already
		rec = nil
	case rec.damaged:
		wrong(foundMalformed, "%q cannot be read", name.key)
		rec = nil
	case rec.Key != name.key || rec.Incarnation == (incarnation{}) || !slices.Contains(memoryCategories, rec.Category):
		wrong(foundMalformed, "%q calls itself %q, its category %q", name.key, rec.Key, rec.Category)
		rec = nil
	case key[2] == 'h' && (version == 0 || rec.Version != version || rec.Replaced == nil):
		wrong(foundMalformed, "what %q was in version %d is of version %d", name.key, version, rec.Version)
		rec = nil
	}
	if key[2] == 'h' {
		seen := versionSeen{keptVersion: keptVersion{Version: version}, lost: rec == nil}
		if rec != nil {
			seen.Bytes, seen.of = rec.Bytes, rec.Incarnation
		}
		s.before[name] = append(s.before[name], seen)
		return
	}
	s.remember(name, rec, wrong)
}

// remember holds a memory against its versions, and notes what is to come; rec is nil where it cannot be read.
func (s *space) remember(name memoryName, rec *memoryRecord, wrong func(string, string, ...any)) {
	m := &memorySeen{lost: rec == nil}
	s.memories[name], s.remembers = m, true
	kept := s.before[name]
	delete(s.before, name)
	if rec == nil {
		return
	}
	m.updated = rec.UpdatedAt.UnixMilli()
	if entry, err := rec.entry(); err == nil {
		m.entry = maphash.Bytes(s.seed, entry)
	}
	d := rec.doc()
	m.doc = s.docPrint(&recall.Document{ID: d.id, Category: categoriesOfIndex[d.category], Session: d.session, Group: d.source,
		Tags: d.tags, Importance: d.importance, Created: d.created, Expires: d.expires})
	if rec.ExpiresAt != nil {
		s.expiries[string(expiryKey(*rec.ExpiresAt, name.record()))] = name
	}
	if rec.Version <= len(rec.History) || rec.Replaced != nil {
		wrong(foundMalformed, "%q is in version %d and has %d before it", name.key, rec.Version, len(rec.History))
	}
	for i, said := range rec.History {
		at := slices.IndexFunc(kept, func(v versionSeen) bool { return v.Version == said.Version })
		switch {
		case at < 0:
			s.wrong("memory_version", memoryVersionKey(name.pinc, name.key, said.Version), foundMissing,
				"version %d of %q is not there", said.Version, name.key).inProject(name.pinc)
		case !kept[at].lost && (kept[at].keptVersion != said || kept[at].of != rec.Incarnation):
			wrong(foundMismatch, "%q says of version %d that it has %d bytes, it has %d, of %s", name.key, said.Version, said.Bytes,
				kept[at].Bytes, kept[at].of)
		case said.Version >= rec.Version || i > 0 && said.Version <= rec.History[i-1].Version:
			wrong(foundMalformed, "%q is in version %d and has a version %d before it", name.key, rec.Version, said.Version)
		}
	}
	for _, v := range kept {
		if !slices.ContainsFunc(rec.History, func(said keptVersion) bool { return said.Version == v.Version }) {
			s.wrong("memory_version", memoryVersionKey(name.pinc, name.key, v.Version), foundOrphan,
				"%q has no version %d", name.key, v.Version).inProject(name.pinc)
		}
	}
}

// docPrint is the fingerprint of what an indexed document says of its memory, but for words.
func (s *space) docPrint(d *recall.Document) uint64 {
	meta := recall.Document{ID: d.ID, Category: d.Category, Session: d.Session, Group: d.Group, Tags: d.Tags,
		Importance: d.Importance, Created: d.Created, Expires: d.Expires}
	return maphash.Bytes(s.seed, meta.Append(nil))
}

func (s *space) memoryTime(key, value []byte) {
	at, name := timeEntry(key)
	m := s.memories[name]
	wrong := func(code, format string, args ...any) { s.bad(key, code, format, args...).inProject(name.pinc) }
	var entry memoryEntry
	if err := json.Unmarshal(value, &entry); err != nil {
		wrong(foundMalformed, "it does not decode: %v", err)
	}
	switch {
	case m == nil:
		wrong(foundMissing, "the time index names the memory %q, which is not there", name.key)
		return
	case m.lost:
	case m.updated != at:
		wrong(foundMismatch, "the time index has %q at %s, it was changed at %s", name.key, timeOf(at), timeOf(m.updated))
		return
	case m.entry != maphash.Bytes(s.seed, value):
		wrong(foundMismatch, "the time index says of %q: %q, the memory does not", name.key, value)
	}
	m.timed = true
}

func (s *space) damagedMemoryTime(key []byte) {
	at, name := timeEntry(key)
	s.damage().pinc = name.pinc
	if m := s.memories[name]; m != nil && (m.lost || m.updated == at) {
		m.timed = true
	}
}

func timeEntry(key []byte) (ms int64, of memoryName) {
	at, name := splitMemoryTime(key)
	return at.UnixMilli(), memoryName{incarnation(key[3:]), name}
}

// memoryExpiry holds an entry of the expiry index that names a memory against it.
func (s *space) memoryExpiry(key []byte) {
	pinc, id, ok := splitMemoryKey(splitExpiry(key))
	if _, due := s.expiries[string(key)]; due && ok {
		delete(s.expiries, string(key))
		return
	}
	if m := s.memories[memoryName{pinc, id}]; m == nil || !m.lost {
		s.bad(key, foundMissing, "the expiry index names the memory %q, which does not expire then", id).inProject(pinc)
	}
}

// finishMemories tells what was promised and did not come.
func (s *space) finishMemories() {
	missing := func(n memoryName, format string) {
		s.wrong("memory", n.record(), foundMissing, format, n.key).inProject(n.pinc)
	}
	homeless := map[incarnation]memoryName{}
	for name, m := range s.memories {
		if !s.belongs(name.pinc) && s.lostProjects == 0 {
			homeless[name.pinc] = name
		}
		if !m.timed {
			missing(name, "the time index does not name the memory %q, so that no list shows it")
		}
		if _, ok := s.projects[name.pinc]; ok && !m.indexed {
			missing(name, "the index does not name the memory %q, so that it is not recalled")
		}
	}
	for _, name := range s.expiries {
		missing(name, "the expiry index does not name the memory %q, so that it would stay for good")
	}
	for name, versions := range s.before {
		s.wrong("memory_version", memoryVersionKey(name.pinc, name.key, versions[0].Version), foundOrphan,
			"%d versions of a memory %q that does not exist", len(versions), name.key).inProject(name.pinc)
	}
	for pinc, name := range homeless {
		s.wrong("memory", name.record(), foundOrphan, "memories of a project that does not exist, %q among them", name.key).
			pinc = pinc
	}
	s.memories, s.expiries, s.before = nil, nil, nil
}
