package engine

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// space is one tenant's records as far as they were seen: what was found, and the facts that rooms share.
type space struct {
	tenant   string
	rooms    []roomChecks
	checks   map[string]recordCheck // by kind
	findings []*Finding
	seed     maphash.Seed

	subject          // the record at hand
	found   *Finding // that the record at hand is damaged

	expiring map[string]string      // records that the expiry index must name, with their kinds
	expected map[string]expectation // records that must come, by key

	// Facts that rooms tell.
	inUse        bool                   // there is more than making a tenant begins with
	projects     map[incarnation]string // the names of those that live
	lostProjects bool                   // a project is damaged: any record may be its own
	swept        map[incarnation]bool   // projects that a job is to sweep
	staged       map[incarnation]bool   // sessions and boards under import
	tenants      map[string]bool        // in the system space: whether each is being deleted
}

func newSpace(tenant string, rooms []roomChecks) *space {
	s := &space{tenant: tenant, rooms: rooms, checks: map[string]recordCheck{}, seed: maphash.MakeSeed(),
		expiring: map[string]string{}, expected: map[string]expectation{}, projects: map[incarnation]string{},
		swept: map[incarnation]bool{}, staged: map[incarnation]bool{}, tenants: map[string]bool{}}
	for _, room := range rooms {
		for _, c := range room.checks() {
			s.checks[c.kind] = c
		}
	}
	return s
}

func (s *space) visit(kind string, it store.Item) {
	s.subject, s.found = s.at(kind, it.Key), nil
	if it.Damaged {
		s.found = s.wrong(foundDamaged, "the record fails its checksum")
	}
	s.checks[kind].record(s, it)
}

// finish does what needs all of the tenant's records, and lets go of what the system space is not held against.
func (s *space) finish() {
	for _, room := range s.rooms {
		room.finish(s)
	}
	for _, key := range slices.Sorted(maps.Keys(s.expected)) {
		e := s.expected[key]
		e.missing("%s", e.detail)
	}
	s.rooms = slices.DeleteFunc(s.rooms, func(room roomChecks) bool { _, ok := room.(crossChecks); return !ok })
	s.checks, s.expiring, s.expected, s.staged = nil, nil, nil, nil
}

// across holds a finished tenant against the system space, which is finished too and has the same rooms.
func (s *space) across(system *space) {
	for i, room := range s.rooms {
		room.(crossChecks).across(s, system.rooms[i])
	}
}

// about says which project and session the record at hand is of, for all that is found about it.
func (s *space) about(pinc incarnation, session string) {
	s.pinc, s.session = pinc, session
	if s.found != nil {
		s.found.pinc, s.found.Session = pinc, session
	}
}

// decode is json.Unmarshal with a finding in place of an error. It is false for a damaged record, without another
// finding.
func (s *space) decode(it store.Item, into any) bool {
	if it.Damaged {
		return false
	}
	err := json.Unmarshal(it.Value, into)
	if err != nil {
		s.malformed("it does not decode: %v", err)
	}
	return err == nil
}

// sized notes that a whole record's value does not have the length that its kind has.
func (s *space) sized(it store.Item, n int, of string) bool {
	if !it.Damaged && len(it.Value) != n {
		s.malformed("it holds %d bytes, not the %d of %s", len(it.Value), n, of)
	}
	return len(it.Value) == n
}

// decodes checks a record that says nothing of others.
func decodes[T any](s *space, it store.Item) { s.decode(it, new(T)) }

// expires checks a record that says nothing of others and expires.
func expires[T any](s *space, it store.Item) {
	s.decode(it, new(T))
	s.expires(it.Key)
}

// expires notes a record that has an entry in the expiry index for as long as it is there.
func (s *space) expires(key []byte) { s.expiring[string(key)] = s.kind }

// expectation is what is found missing where a record does not come.
type expectation struct {
	subject
	detail string
}

// expect notes that a record must come, before it does. Where it does not, the finding is about the subject.
func (s *space) expect(key []byte, about subject, format string, args ...any) {
	s.expected[string(key)] = expectation{about, fmt.Sprintf(format, args...)}
}

// came tells whether a record was expected; it is not any more.
func (s *space) came(key []byte) bool {
	_, ok := s.expected[string(key)]
	delete(s.expected, string(key))
	return ok
}

// lives tells whether a project is there.
func (s *space) lives(pinc incarnation) bool { _, ok := s.projects[pinc]; return ok }

// belongs tells whether a project lives, or its sweep is still to come, or it may be one that is damaged.
func (s *space) belongs(pinc incarnation) bool {
	return s.lives(pinc) || s.swept[pinc] || s.lostProjects
}

func (s *space) projectName(pinc incarnation) string {
	if pinc == (incarnation{}) {
		return ""
	}
	if name, ok := s.projects[pinc]; ok {
		return name
	}
	return "(incarnation " + pinc.String() + ")"
}

// idIn reads the client's id that a key ends with, after a prefix of so many bytes.
func idIn(key []byte, prefix int) string { return string(key[prefix : len(key)-1]) }

// fingerprint stands for a value in sums of what is expected, less what came: such a sum is zero where both are equal.
func fingerprint[T comparable](s *space, v T) uint64 { return maphash.Comparable(s.seed, v) }

// ownChecks are of what belongs to no room: idempotent answers, imports under way, and when records expire.
type ownChecks struct{}

func (c ownChecks) checks() []recordCheck {
	return []recordCheck{
		{kind: "idempotent", record: expires[onceRecord]},
		{kind: "import", record: c.imports},
		{kind: "job_import", record: c.stagedSession},
		{kind: "job_import_board", record: c.staged},
		{kind: "expiry", record: c.expiry},
	}
}

func (ownChecks) imports(s *space, it store.Item) {
	var rec importProgress
	if s.decode(it, &rec) && rec.Lines < 2 {
		s.malformed("it tells of %d lines, of which the first is no record", rec.Lines)
	}
	s.expires(it.Key)
}

func (c ownChecks) stagedSession(s *space, it store.Item) {
	s.sized(it, len(incarnation{}), "an incarnation")
	c.staged(s, it)
}

// staged notes what a job names: its key ends with the incarnation.
func (ownChecks) staged(s *space, it store.Item) {
	s.staged[incarnation(it.Key[len(it.Key)-8:])] = true
}

// keepTheirTime are the kinds whose records are there until they expire. Others that expire may be removed before.
var keepTheirTime = []string{"idempotent", "audit", "usage", "import"}

// expiry holds an entry's key against the records that expire: its value says nothing.
func (ownChecks) expiry(s *space, it store.Item) {
	if !it.Damaged && len(it.Value) != 1 {
		s.malformed("an expiry entry holds %d bytes", len(it.Value))
	}
	names := splitExpiry(it.Key)
	kind := kindOf(s.tenant, names)
	if kind != nil && s.checks[kind.name].expiry != nil {
		s.checks[kind.name].expiry(s, it.Key)
		return
	}
	if _, ok := s.expiring[string(names)]; ok {
		delete(s.expiring, string(names))
	} else if kind == nil || slices.Contains(keepTheirTime, kind.name) {
		s.missing("the expiry index names the record %x, which is not there", names)
	}
}

func (ownChecks) finish(s *space) {
	for key, kind := range s.expiring {
		s.at(kind, []byte(key)).missing("the expiry index does not name it, so that it would stay for good")
	}
}
