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

// Report is what Verify found in a store.
type Report struct {
	Tenants int            `json:"tenants"`
	Records int            `json:"records"`
	Bytes   int64          `json:"bytes"` // of keys and values
	Kinds   map[string]int `json:"kinds"` // records of each kind
	// Findings are what is wrong. Leftovers are what an interrupted change may leave: they do no harm and are removed
	// in time. Both lists name at most maxFindings; the counts are of all.
	Findings      []Finding `json:"findings"`
	FindingCount  int       `json:"finding_count"`
	Leftovers     []Finding `json:"leftovers"`
	LeftoverCount int       `json:"leftover_count"`
}

// Clean tells whether nothing is wrong.
func (r *Report) Clean() bool { return r.FindingCount == 0 }

// Finding is one thing that is wrong.
type Finding struct {
	Tenant  string `json:"tenant"`
	Project string `json:"project,omitempty"`
	Session string `json:"session,omitempty"`
	Kind    string `json:"kind"` // of the record, as in Report.Kinds
	Code    string `json:"code"` // one of the found constants
	Detail  string `json:"detail"`
	Key     string `json:"key,omitempty"` // of the record, in hex

	Pinc        ident.Incarnation `json:"-"` // of the project, until its name is known
	unlessSwept bool              // the finding is dropped where the project is to be swept
	Harmless    bool              `json:"-"`
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
	in          *Space
	Kind        string
	key         []byte
	pinc        ident.Incarnation
	session     string
	unlessSwept bool
}

func (s *Space) At(kind string, key []byte) Subject { return Subject{in: s, Kind: kind, key: key} }

func (a Subject) Of(pinc ident.Incarnation, session string) Subject {
	a.pinc, a.session = pinc, session
	return a
}

// InProject drops the finding where the project is to be swept, because a sweep removes records piece by piece.
func (a Subject) InProject(pinc ident.Incarnation) Subject {
	a.pinc, a.unlessSwept = pinc, true
	return a
}

func (a Subject) Malformed(format string, args ...any) *Finding {
	return a.wrong(foundMalformed, format, args...)
}

func (a Subject) Missing(format string, args ...any) *Finding {
	return a.wrong(foundMissing, format, args...)
}

func (a Subject) Orphan(format string, args ...any) *Finding {
	return a.wrong(foundOrphan, format, args...)
}

func (a Subject) Mismatch(format string, args ...any) *Finding {
	return a.wrong(foundMismatch, format, args...)
}

func (a Subject) wrong(code, format string, args ...any) *Finding {
	f := &Finding{Tenant: a.in.tenant, Session: a.session, Kind: a.Kind, Code: code, Pinc: a.pinc,
		unlessSwept: a.unlessSwept}
	if len(a.in.Findings) <= 2*maxFindings { // of more, which nobody reads, only the number counts
		f.Detail, f.Key = fmt.Sprintf(format, args...), hex.EncodeToString(a.key)
	}
	a.in.Findings = append(a.in.Findings, f)
	return f
}

// maxFindings bounds what a report names.
const maxFindings = 1000

// RecordCheck is how a room checks the records of one kind.
type RecordCheck struct {
	Kind string
	// record holds one record, in the order of keys, against those before it and notes what later ones need. A damaged
	// record comes too, without a value: its finding is made already.
	Record func(s *Space, it store.Item)
	// expiry takes an entry of the expiry index that names a record of this kind. It is nil where the index holds no
	// more than the record's key.
	Expiry func(s *Space, key []byte)
}

// RoomChecks are one room's checks of one tenant, with what they know of it.
type RoomChecks interface {
	Checks() []RecordCheck
	// finish does what needs all of the tenant's records.
	Finish(s *Space)
}

// CheckList is a room's checks where nothing is left for the end.
type CheckList []RecordCheck

func (l CheckList) Checks() []RecordCheck { return l }

func (CheckList) Finish(*Space) {}

// crossChecks are those of a room that needs records of the system space too.
type crossChecks interface {
	// across holds a tenant, all of whose records came, against what the same room knows of the system space.
	Across(s *Space, system RoomChecks)
}

// Store reads a sealed store whole and holds every record against its kind and against the others. Nothing else
// may write meanwhile. It changes nothing. rooms makes the checks of one tenant, in the order that they finish.
func Store(ctx context.Context, s store.Store, rooms func() []RoomChecks) (*Report, error) {
	v := &verifier{rooms: rooms, report: Report{Kinds: map[string]int{}, Findings: []Finding{},
		Leftovers: []Finding{}}, spaces: map[string]*Space{}}
	if err := store.Snapshot(ctx, records.LongValues(s), v.visit); err != nil {
		return nil, err
	}
	v.end()
	return &v.report, nil
}

type verifier struct {
	rooms  func() []RoomChecks
	report Report
	at     *Space
	spaces map[string]*Space // by tenant, kept as far as others need them
}

func (v *verifier) space(tenant string) *Space {
	s := newSpace(tenant, append([]RoomChecks{OwnChecks{}}, v.rooms()...))
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
		v.at.At("rest", it.Key).Orphan("it is the rest of a long value that is not there")
		return nil
	}
	kind := records.KindOf(tenant, it.Key)
	if kind == nil {
		v.at.At("unknown", it.Key).wrong(foundUnknown, "the key %q begins like no record of this version",
			it.Key[:min(len(it.Key), 24)])
		return nil
	}
	v.report.Kinds[kind.Name]++
	v.at.visit(kind.Name, it)
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
			f := s.At("tenant", records.Tenant.Key(tenant)).Orphan("there are records of a tenant that does not exist")
			// Making a tenant begins with its mark, its project and its key; a crash may leave it at that.
			f.Harmless = !s.InUse && len(s.Projects) <= 1
		}
		for _, f := range s.Findings {
			if f.unlessSwept && s.Swept[f.Pinc] {
				continue
			}
			f.Project = s.projectName(f.Pinc)
			v.add(*f)
		}
	}
}

func (v *verifier) add(f Finding) {
	list, count := &v.report.Findings, &v.report.FindingCount
	if f.Harmless {
		list, count = &v.report.Leftovers, &v.report.LeftoverCount
	}
	if *count++; len(*list) < maxFindings {
		*list = append(*list, f)
	}
}
