// Package verify reads a whole store and reports what is wrong in it.
//
// It walks over a snapshot of the store, tenant by tenant, and over each tenant's records in key order. Every kind of
// records has one Check, from the package that owns the kind. A Check checks a record against the kind's codec and
// against earlier records, and notes which records must follow. The walk is a single pass in bounded memory: a check
// never reads another record. It keeps a few numbers about what it has seen. If two lists must be equal, it keeps the
// difference of the sums of their fingerprints, which must be zero at the end.
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

// Report is the result of Store.
type Report struct {
	Tenants int            `json:"tenants"`
	Records int            `json:"records"`
	Bytes   int64          `json:"bytes"` // of keys and values
	Kinds   map[string]int `json:"kinds"` // number of records of each kind
	// Findings are errors. Leftovers are what an interrupted change may leave: they are harmless and will be removed.
	// Both lists have at most 1000 entries; the counts include all.
	Findings      []Finding `json:"findings"`
	FindingCount  int       `json:"finding_count"`
	Leftovers     []Finding `json:"leftovers"`
	LeftoverCount int       `json:"leftover_count"`
}

// maxFindings is the maximum length of each list of findings in a report.
const maxFindings = 1000

// Clean reports whether nothing is wrong.
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

	Pinc        ident.Incarnation `json:"-"` // of the project, whose name is only known at the end
	Harmless    bool              `json:"-"` // it is a leftover
	unlessSwept bool              // the finding is dropped if the project will be swept
}

// Codes of findings.
const (
	foundDamaged   = "damaged"      // it fails its checksum
	foundUnknown   = "unknown_kind" // its key is of no known kind
	foundMalformed = "malformed"    // it does not decode, or contradicts its key
	foundMissing   = "missing"      // others need it, but it does not exist
	foundOrphan    = "orphan"       // it belongs to nothing, and nothing will remove it
	foundMismatch  = "mismatch"     // it contradicts others
)

// Subject is what a finding is about: a record, with its project and session.
type Subject struct {
	Kind        records.Kind // of the wrong record; key may be that of another record, which refers to it
	in          *Space
	key         []byte
	pinc        ident.Incarnation
	session     string
	unlessSwept bool
}

// Of returns the subject with its project and session.
func (a Subject) Of(pinc ident.Incarnation, session string) Subject {
	a.pinc, a.session = pinc, session
	return a
}

// InProject returns the subject with its project. Its findings are dropped if the project will be swept, because a
// sweep removes records piece by piece.
func (a Subject) InProject(pinc ident.Incarnation) Subject {
	a.pinc, a.unlessSwept = pinc, true
	return a
}

// Malformed adds the finding that the record does not decode, or contradicts its key.
func (a Subject) Malformed(format string, args ...any) *Finding {
	return a.wrong(foundMalformed, format, args...)
}

// Missing adds the finding that the record does not exist, although others need it.
func (a Subject) Missing(format string, args ...any) *Finding {
	return a.wrong(foundMissing, format, args...)
}

// Orphan adds the finding that the record belongs to nothing, and nothing will remove it.
func (a Subject) Orphan(format string, args ...any) *Finding {
	return a.wrong(foundOrphan, format, args...)
}

// Mismatch adds the finding that the record contradicts others.
func (a Subject) Mismatch(format string, args ...any) *Finding {
	return a.wrong(foundMismatch, format, args...)
}

func (a Subject) wrong(code, format string, args ...any) *Finding {
	f := &Finding{Tenant: a.in.tenant, Session: a.session, Code: code, Pinc: a.pinc, unlessSwept: a.unlessSwept}
	if a.Kind != nil {
		f.Kind = a.Kind.Name()
	}
	if len(a.in.Findings) <= 2*maxFindings { // The report lists no more; only their number counts.
		f.Detail, f.Key = fmt.Sprintf(format, args...), hex.EncodeToString(a.key)
	}
	a.in.Findings = append(a.in.Findings, f)
	return f
}

// Check checks the records of one kind.
type Check struct {
	Kind records.Kind
	// Record checks one record, in key order, against earlier ones, and notes what later ones need. It is also called
	// for a damaged record, without a value, which already has a finding.
	Record func(s *Space, it store.Item)
	// Expiry gets the key of an entry of the expiry index that names a record of this kind. If it is nil, Space
	// compares such entries with the calls of Space.Expires.
	Expiry func(s *Space, key []byte)
}

// Checker holds one package's checks of one tenant, with what they have seen.
type Checker interface {
	Checks() []Check
	// Finish runs the checks that need all of the tenant's records.
	Finish(s *Space)
}

// crossChecker is a Checker that also needs records of the system space.
type crossChecker interface {
	// Across compares a tenant, after all of its records, with what the same package's checks have seen of the system
	// space.
	Across(s *Space, system Checker)
}

// Checks is a Checker without final checks.
type Checks []Check

func (l Checks) Checks() []Check { return l }

func (Checks) Finish(*Space) {}

// Store reads a whole sealed store and checks every record against its kind and against the others. It changes
// nothing, and nothing else may write meanwhile. checkers returns the checks of one tenant, in the order in which they
// finish.
func Store(ctx context.Context, s store.Store, checkers func() []Checker) (*Report, error) {
	v := &verifier{checkers: checkers, report: Report{Kinds: map[string]int{}, Findings: []Finding{},
		Leftovers: []Finding{}}, spaces: map[string]*Space{}}
	if err := store.Snapshot(ctx, records.LongValues(s), v.visit); err != nil {
		return nil, err
	}
	v.end()
	return &v.report, nil
}

// verifier checks a whole store.
type verifier struct {
	checkers func() []Checker
	report   Report
	at       *Space            // of the current tenant
	spaces   map[string]*Space // by tenant, kept as long as others need them
}

// space starts a tenant.
func (v *verifier) space(tenant string) *Space {
	s := newSpace(tenant, append([]Checker{OwnChecks{}}, v.checkers()...))
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

// end compares the tenants with the system space and collects their findings.
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
			delete(v.spaces, id) // it is partly deleted, and the rest will follow
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
			// Creating a tenant starts with its mark, its project and its key; a crash may leave just these.
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
