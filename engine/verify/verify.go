// Package verify reads a whole store and says what is wrong in it.
//
// It walks over a snapshot of the store, tenant by tenant, and each tenant's records in the order of their keys. Every
// kind of records has one Check, which the room that owns the kind makes: it holds a record against the kind's codec,
// against records that came before, and notes what must come later. The hard idea is that this is one walk in bounded
// memory: a check never reads another record. It keeps a few numbers of what it has seen, and where two lists must be
// equal, it keeps the difference of the sums of their fingerprints, which is zero then.
package verify

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Report is what Store found in a store.
type Report struct {
	Tenants int            `json:"tenants"`
	Records int            `json:"records"`
	Bytes   int64          `json:"bytes"` // of keys and values
	Kinds   map[string]int `json:"kinds"` // records of each kind
	// Findings are what is wrong. Leftovers are what an interrupted change may leave: they do no harm and are removed
	// in time. Both lists name at most 1000; the counts are of all.
	Findings      []Finding `json:"findings"`
	FindingCount  int       `json:"finding_count"`
	Leftovers     []Finding `json:"leftovers"`
	LeftoverCount int       `json:"leftover_count"`
}

// maxFindings bounds how many findings a list of a report names.
const maxFindings = 1000

// Clean tells whether nothing is wrong.
func (r *Report) Clean() bool { return r.FindingCount == 0 }

func (r *Report) add(f Finding) {
	list, count := &r.Findings, &r.FindingCount
	if f.Harmless {
		list, count = &r.Leftovers, &r.LeftoverCount
	}
	*count++
	if len(*list) < maxFindings {
		*list = append(*list, f)
	}
}

// Finding is one thing that is wrong.
type Finding struct {
	Tenant  string `json:"tenant"`
	Project string `json:"project,omitempty"`
	Session string `json:"session,omitempty"`
	Kind    string `json:"kind"` // of the record, as in Report.Kinds
	Code    string `json:"code"` // one of the found constants
	Detail  string `json:"detail"`
	Key     string `json:"key,omitempty"` // of the record, in hex

	Pinc        ident.Incarnation `json:"-"` // of the project, whose name is known at the end only
	Harmless    bool              `json:"-"` // it is a leftover
	unlessSwept bool              // the finding is dropped where the project is to be swept
}

// What can be wrong with a record.
const (
	foundDamaged   = "damaged"      // it fails its checksum
	foundUnknown   = "unknown_kind" // its key is of no kind that there is
	foundMalformed = "malformed"    // it does not decode, or says something else than its key
	foundMissing   = "missing"      // others need it, and it is not there
	foundOrphan    = "orphan"       // it belongs to nothing, and nothing will remove it
	foundMismatch  = "mismatch"     // it contradicts others
)

// Subject is what a finding is about: a record, and the project and session that it is of.
type Subject struct {
	Kind        records.Kind // of the record that is wrong; key may be another's, which tells of it
	in          *Space
	key         []byte
	pinc        ident.Incarnation
	session     string
	unlessSwept bool
}

// Of is the subject with the project and session that it is of.
func (a Subject) Of(pinc ident.Incarnation, session string) Subject {
	a.pinc, a.session = pinc, session
	return a
}

// InProject is the subject with its project. Its findings are dropped where the project is to be swept, because a sweep
// removes records piece by piece.
func (a Subject) InProject(pinc ident.Incarnation) Subject {
	a.pinc, a.unlessSwept = pinc, true
	return a
}

// Malformed finds that the record does not decode, or says something else than its key.
func (a Subject) Malformed(format string, args ...any) *Finding {
	return a.wrong(foundMalformed, format, args...)
}

// Missing finds that the record is not there, and others need it.
func (a Subject) Missing(format string, args ...any) *Finding {
	return a.wrong(foundMissing, format, args...)
}

// Orphan finds that the record belongs to nothing, and nothing will remove it.
func (a Subject) Orphan(format string, args ...any) *Finding {
	return a.wrong(foundOrphan, format, args...)
}

// Mismatch finds that the record contradicts others.
func (a Subject) Mismatch(format string, args ...any) *Finding {
	return a.wrong(foundMismatch, format, args...)
}

func (a Subject) wrong(code, format string, args ...any) *Finding {
	f := &Finding{Tenant: a.in.tenant, Session: a.session, Code: code, Pinc: a.pinc, unlessSwept: a.unlessSwept}
	if a.Kind != nil {
		f.Kind = a.Kind.Name()
	}
	if len(a.in.Findings) <= 2*maxFindings { // The report does not name more, so only their number counts.
		f.Detail, f.Key = fmt.Sprintf(format, args...), hex.EncodeToString(a.key)
	}
	a.in.Findings = append(a.in.Findings, f)
	return f
}

// Check is how a room checks the records of one kind.
type Check struct {
	Kind records.Kind
	// Record holds one record, in the order of keys, against those before it and notes what later ones need. A damaged
	// record comes too, without a value: its finding is made already.
	Record func(s *Space, it store.Item)
	// Expiry takes the key of an entry of the expiry index that names a record of this kind. Where it is nil, Space
	// holds such entries against what the room told with Space.Expires.
	Expiry func(s *Space, key []byte)
}

// Room is one room's checks of one tenant, with what they have seen of it.
type Room interface {
	Checks() []Check
	// Finish does what needs all of the tenant's records.
	Finish(s *Space)
}

// crossRoom is a room that also needs records of the system space.
type crossRoom interface {
	// Across holds a tenant, all of whose records came, against what the same room has seen of the system space.
	Across(s *Space, system Room)
}

// Checks are a room's where nothing is left for the end.
type Checks []Check

func (l Checks) Checks() []Check { return l }

func (Checks) Finish(*Space) {}

// Store reads a sealed store whole and holds every record against its kind and against the others. It changes nothing,
// and nothing else may write meanwhile. rooms makes the checks of one tenant, in the order that they finish.
func Store(ctx context.Context, s store.Store, rooms func() []Room) (*Report, error) {
	v := &verifier{rooms: rooms, report: Report{Kinds: map[string]int{}, Findings: []Finding{},
		Leftovers: []Finding{}}, spaces: map[string]*Space{}}
	if err := store.Snapshot(ctx, records.LongValues(s), v.visit); err != nil {
		return nil, err
	}
	v.end()
	return &v.report, nil
}

// verifier goes through a whole store.
type verifier struct {
	rooms  func() []Room
	report Report
	at     *Space            // of the tenant whose records are coming
	spaces map[string]*Space // by tenant, kept as far as others need them
}

// space begins a tenant.
func (v *verifier) space(tenant string) *Space {
	s := newSpace(tenant, append([]Room{OwnChecks{}}, v.rooms()...))
	v.spaces[tenant] = s
	return s
}

func (v *verifier) visit(tenant string, it store.Item) error {
	if v.at == nil || v.at.tenant != tenant {
		if v.at != nil {
			v.at.finish()
		}
		v.at = v.space(tenant)
	}
	v.report.Records++
	v.report.Bytes += int64(len(it.Key) + len(it.Value))
	if store.IsRest(it.Key) {
		v.report.Kinds["rest"]++
		v.at.At(nil, it.Key).Orphan("it is the rest of a long value that is not there").Kind = "rest"
		return nil
	}
	kind := records.KindOf(tenant, it.Key)
	if kind == nil {
		v.at.At(nil, it.Key).wrong(foundUnknown, "the key %q begins like no record of this version",
			it.Key[:min(len(it.Key), 24)]).Kind = "unknown"
		return nil
	}
	v.report.Kinds[kind.Name()]++
	v.at.visit(kind, it)
	return nil
}

// end holds the tenants against the system space and gathers what was found in them.
func (v *verifier) end() {
	if v.at != nil {
		v.at.finish()
	}
	system := v.spaces[records.SystemTenant]
	if system == nil {
		system = v.space(records.SystemTenant)
		system.finish()
	}
	v.report.Tenants = len(system.Tenants)
	for id, deleting := range system.Tenants {
		if deleting {
			delete(v.spaces, id) // half of it is gone, and the rest follows
			continue
		}
		s := v.spaces[id]
		if s == nil {
			s = v.space(id)
			s.finish()
		}
		s.across(system)
	}
	for _, tenant := range slices.Sorted(maps.Keys(v.spaces)) {
		s := v.spaces[tenant]
		if _, known := system.Tenants[tenant]; !known && s != system {
			f := s.At(records.Tenant, records.Tenant.Key(tenant)).
				Orphan("there are records of a tenant that does not exist")
			// Making a tenant begins with its mark, its project and its key; a crash may leave it at that.
			f.Harmless = !s.InUse && len(s.Projects) <= 1
		}
		for _, f := range s.Findings {
			if f.unlessSwept && s.Swept[f.Pinc] {
				continue
			}
			f.Project = s.projectName(f.Pinc)
			v.report.add(*f)
		}
	}
}
