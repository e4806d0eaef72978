package verify

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Space is one tenant's space as far as its records were seen: what was found in it, and the facts that rooms share.
type Space struct {
	Subject  // the record at hand
	Findings []*Finding

	tenant   string
	rooms    []Room
	checks   map[string]Check // by the kind's name
	seed     maphash.Seed
	found    *Finding                // that the record at hand is damaged, where it is
	expiring map[string]records.Kind // records that the expiry index must name, with their kinds
	expected map[string]expectation  // records that must come, by key

	// Facts that rooms tell others.
	InUse        bool                         // there is more than making a tenant begins with
	Projects     map[ident.Incarnation]string // the names of those that live
	LostProjects bool                         // a project is damaged: any record may be its own
	Swept        map[ident.Incarnation]bool   // projects that a job is to sweep
	Staged       map[ident.Incarnation]bool   // sessions and boards under import
	Tenants      map[string]bool              // in the system space: whether each is being deleted
}

func newSpace(tenant string, rooms []Room) *Space {
	s := &Space{tenant: tenant, rooms: rooms, checks: map[string]Check{}, seed: maphash.MakeSeed(),
		expiring: map[string]records.Kind{}, expected: map[string]expectation{},
		Projects: map[ident.Incarnation]string{},
		Swept:    map[ident.Incarnation]bool{}, Staged: map[ident.Incarnation]bool{}, Tenants: map[string]bool{}}
	for _, room := range rooms {
		for _, c := range room.Checks() {
			s.checks[c.Kind.Name()] = c
		}
	}
	return s
}

// visit checks the next record, of a kind.
func (s *Space) visit(kind records.Kind, it store.Item) {
	s.Subject, s.found = s.At(kind, it.Key), nil
	if it.Damaged {
		s.found = s.wrong(foundDamaged, "the record fails its checksum")
	}
	s.checks[kind.Name()].Record(s, it)
}

// finish does what needs all of the tenant's records. It keeps only what is held against the system space later.
func (s *Space) finish() {
	for _, room := range s.rooms {
		room.Finish(s)
	}
	for _, key := range slices.Sorted(maps.Keys(s.expected)) {
		e := s.expected[key]
		e.Missing("%s", e.detail)
	}
	s.rooms = slices.DeleteFunc(s.rooms, func(room Room) bool { _, ok := room.(crossRoom); return !ok })
	s.checks, s.expiring, s.expected, s.Staged = nil, nil, nil, nil
}

// across holds a finished tenant against the system space, which is finished too and has the same rooms.
func (s *Space) across(system *Space) {
	for i, room := range s.rooms {
		room.(crossRoom).Across(s, system.rooms[i])
	}
}

// At is a record of the tenant's space, whether it is there or not: one of the kind, of which the record under key
// tells.
func (s *Space) At(kind records.Kind, key []byte) Subject {
	return Subject{Kind: kind, in: s, key: key}
}

// About says which project and session the record at hand is of, for all that is found about it.
func (s *Space) About(pinc ident.Incarnation, session string) {
	s.pinc, s.session = pinc, session
	if s.found != nil {
		s.found.Pinc, s.found.Session = pinc, session
	}
}

// Decode reads a record's JSON. Where it does not decode, that is a finding, and the answer is false. So it is for a
// damaged record, whose finding is made already.
func (s *Space) Decode(it store.Item, into any) bool {
	if it.Damaged {
		return false
	}
	err := json.Unmarshal(it.Value, into)
	if err != nil {
		s.Malformed("it does not decode: %v", err)
	}
	return err == nil
}

// Sized finds that a record's value does not have the n bytes that its kind has. The answer is whether it has.
func (s *Space) Sized(it store.Item, n int, of string) bool {
	if !it.Damaged && len(it.Value) != n {
		s.Malformed("it holds %d bytes, not the %d of %s", len(it.Value), n, of)
	}
	return len(it.Value) == n
}

// Decodes is a Check's Record for a kind that says nothing of others.
func Decodes[T any](s *Space, it store.Item) { s.Decode(it, new(T)) }

// Expires is a Check's Record for a kind that says nothing of others and expires.
func Expires[T any](s *Space, it store.Item) {
	s.Decode(it, new(T))
	s.Expires(it.Key)
}

// Expires notes that the record at hand has an entry in the expiry index for as long as it is there.
func (s *Space) Expires(key []byte) { s.expiring[string(key)] = s.Kind }

// expectation is what is found missing where a record does not come.
type expectation struct {
	Subject
	detail string
}

// Expect notes that the record of a key must come later. Where it does not, the finding is about the subject.
func (s *Space) Expect(key []byte, about Subject, format string, args ...any) {
	s.expected[string(key)] = expectation{about, fmt.Sprintf(format, args...)}
}

// Came tells whether a record was expected; it is not any more.
func (s *Space) Came(key []byte) bool {
	_, ok := s.expected[string(key)]
	delete(s.expected, string(key))
	return ok
}

// Lives tells whether a project is there.
func (s *Space) Lives(pinc ident.Incarnation) bool { _, ok := s.Projects[pinc]; return ok }

// Belongs tells whether a project lives, or its sweep is still to come, or it may be one that is damaged.
func (s *Space) Belongs(pinc ident.Incarnation) bool {
	return s.Lives(pinc) || s.Swept[pinc] || s.LostProjects
}

func (s *Space) projectName(pinc ident.Incarnation) string {
	if pinc == (ident.Incarnation{}) {
		return ""
	}
	if name, ok := s.Projects[pinc]; ok {
		return name
	}
	return "(incarnation " + pinc.String() + ")"
}

// Fingerprint is a number for a value. Adding those of all that is expected and subtracting those of all that came
// gives zero where both are equal.
func Fingerprint[T comparable](s *Space, v T) uint64 { return maphash.Comparable(s.seed, v) }

// OwnChecks are of what belongs to no room: idempotent answers, what is staged, and when records expire.
type OwnChecks struct{}

func (c OwnChecks) Checks() []Check {
	return []Check{
		{Kind: records.Once, Record: Expires[records.OnceRecord]},
		{Kind: records.StagedSessionJob, Record: c.stagedSession},
		{Kind: records.StagedBoardJob, Record: c.staged},
		{Kind: records.Expiry, Record: c.expiry},
	}
}

func (c OwnChecks) stagedSession(s *Space, it store.Item) {
	s.Sized(it, len(ident.Incarnation{}), "an incarnation")
	c.staged(s, it)
}

// staged notes the incarnation that a job's key ends with.
func (OwnChecks) staged(s *Space, it store.Item) {
	s.Staged[ident.Incarnation(it.Key[len(it.Key)-8:])] = true
}

// keepTheirTime are the kinds whose records are there until they expire. Others that expire may be removed before.
var keepTheirTime = []records.Kind{records.Once, records.Audit, records.Usage, records.Import}

// expiry holds the record that an entry names against those that expire. The entry's value says nothing.
func (OwnChecks) expiry(s *Space, it store.Item) {
	if !it.Damaged && len(it.Value) != 1 {
		s.Malformed("an expiry entry holds %d bytes", len(it.Value))
	}
	names := records.SplitExpiry(it.Key)
	kind := records.KindOf(s.tenant, names)
	if kind != nil && s.checks[kind.Name()].Expiry != nil {
		s.checks[kind.Name()].Expiry(s, it.Key)
		return
	}
	if s.expiring[string(names)] != nil {
		delete(s.expiring, string(names))
	} else if kind == nil || slices.Contains(keepTheirTime, kind) {
		s.Missing("the expiry index names the record %x, which is not there", names)
	}
}

func (OwnChecks) Finish(s *Space) {
	for key, kind := range s.expiring {
		s.At(kind, []byte(key)).Missing("the expiry index does not name it, so that it would stay for good")
	}
}
