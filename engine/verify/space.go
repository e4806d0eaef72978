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

// Space is one tenant's space as far as its records have been visited: the findings, and the facts that checks share.
type Space struct {
	Subject  // the current record
	Findings []*Finding

	tenant   string
	checkers []Checker
	checks   map[string]Check // by the kind's name
	seed     maphash.Seed
	found    *Finding                // the finding that the current record is damaged, if it is
	expiring map[string]records.Kind // records that the expiry index must list, with their kinds
	expected map[string]expectation  // records that must follow, by key

	// Facts that checks share.
	InUse        bool                         // there is more than a new tenant has
	Projects     map[ident.Incarnation]string // the names of existing projects
	LostProjects bool                         // a project is damaged: any record may belong to it
	Swept        map[ident.Incarnation]bool   // projects that a job will sweep
	Staged       map[ident.Incarnation]bool   // sessions and boards under import
	Tenants      map[string]bool              // in the system space: whether each is being deleted
}

func newSpace(tenant string, checkers []Checker) *Space {
	s := &Space{tenant: tenant, checkers: checkers, checks: map[string]Check{}, seed: maphash.MakeSeed(),
		expiring: map[string]records.Kind{}, expected: map[string]expectation{},
		Projects: map[ident.Incarnation]string{},
		Swept:    map[ident.Incarnation]bool{}, Staged: map[ident.Incarnation]bool{}, Tenants: map[string]bool{}}
	for _, checker := range checkers {
		for _, c := range checker.Checks() {
			s.checks[c.Kind.Name()] = c
		}
	}
	return s
}

// visit checks the next record.
func (s *Space) visit(kind records.Kind, it store.Item) {
	s.Subject, s.found = s.At(kind, it.Key), nil
	if it.Damaged {
		s.found = s.wrong(foundDamaged, "the record fails its checksum")
	}
	s.checks[kind.Name()].Record(s, it)
}

// finish runs the checks that need all of the tenant's records. It keeps only what is compared with the system space
// later.
func (s *Space) finish() {
	for _, checker := range s.checkers {
		checker.Finish(s)
	}
	for _, key := range slices.Sorted(maps.Keys(s.expected)) {
		e := s.expected[key]
		e.Missing("%s", e.detail)
	}
	s.checkers = slices.DeleteFunc(s.checkers, func(checker Checker) bool { _, ok := checker.(crossChecker); return !ok })
	s.checks, s.expiring, s.expected, s.Staged = nil, nil, nil, nil
}

// across compares a finished tenant with the system space, which must be finished too and have the same checks.
func (s *Space) across(system *Space) {
	for i, checker := range s.checkers {
		checker.(crossChecker).Across(s, system.checkers[i])
	}
}

// At returns a Subject for a record of the tenant's space, which may not exist: one of the given kind, which the
// record under key refers to.
func (s *Space) At(kind records.Kind, key []byte) Subject {
	return Subject{Kind: kind, in: s, key: key}
}

// About sets the project and session of the current record, for all findings about it.
func (s *Space) About(pinc ident.Incarnation, session string) {
	s.pinc, s.session = pinc, session
	if s.found != nil {
		s.found.Pinc, s.found.Session = pinc, session
	}
}

// Decode decodes a record's JSON and reports whether it succeeded. A failure is a finding. It also returns false for
// a damaged record, which already has a finding.
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

// Sized reports whether a record's value has the n bytes of its kind. If not, that is a finding.
func (s *Space) Sized(it store.Item, n int, of string) bool {
	if !it.Damaged && len(it.Value) != n {
		s.Malformed("it holds %d bytes, not the %d of %s", len(it.Value), n, of)
	}
	return len(it.Value) == n
}

// Decodes is the Record function of a Check for a kind that refers to no other records.
func Decodes[T any](s *Space, it store.Item) { s.Decode(it, new(T)) }

// Expires is the Record function of a Check for a kind that refers to no other records and expires.
func Expires[T any](s *Space, it store.Item) {
	s.Decode(it, new(T))
	s.Expires(it.Key)
}

// Expires records that the current record has an entry in the expiry index as long as it exists.
func (s *Space) Expires(key []byte) { s.expiring[string(key)] = s.Kind }

// expectation is the finding if a record does not follow.
type expectation struct {
	Subject
	detail string
}

// Expect records that the record of a key must follow. If it does not, the finding is about the subject.
func (s *Space) Expect(key []byte, about Subject, format string, args ...any) {
	s.expected[string(key)] = expectation{about, fmt.Sprintf(format, args...)}
}

// Came reports whether a record was expected, and removes the expectation.
func (s *Space) Came(key []byte) bool {
	_, ok := s.expected[string(key)]
	delete(s.expected, string(key))
	return ok
}

// Lives reports whether a project exists.
func (s *Space) Lives(pinc ident.Incarnation) bool { _, ok := s.Projects[pinc]; return ok }

// Belongs reports whether records may belong to a project, because it exists, will be swept, or may be one whose record
// is damaged.
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

// Fingerprint returns a hash of a value. The sum of the fingerprints of all expected values minus that of all values
// found is zero if both are equal.
func Fingerprint[T comparable](s *Space, v T) uint64 { return maphash.Comparable(s.seed, v) }

// OwnChecks checks the kinds that belong to no other package: idempotent answers, staged data, and expiry entries.
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

// staged records the incarnation at the end of a job's key.
func (OwnChecks) staged(s *Space, it store.Item) {
	s.Staged[ident.Incarnation(it.Key[len(it.Key)-8:])] = true
}

// keepTheirTime lists the kinds whose records exist until they expire. Others that expire may be removed earlier.
var keepTheirTime = []records.Kind{records.Once, records.Audit, records.Usage, records.Import}

// expiry compares the record that an entry names with those that expire. The entry has no information in its value.
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
