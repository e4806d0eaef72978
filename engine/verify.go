package engine

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

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

	pinc        incarnation // of the project, until its name is known
	unlessSwept bool        // the finding is dropped where the project is to be swept
	harmless    bool
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

// subject is what a finding is about: a record, and the project and session that it is of.
type subject struct {
	in          *space
	kind        string
	key         []byte
	pinc        incarnation
	session     string
	unlessSwept bool
}

func (s *space) at(kind string, key []byte) subject { return subject{in: s, kind: kind, key: key} }

func (a subject) of(pinc incarnation, session string) subject {
	a.pinc, a.session = pinc, session
	return a
}

// inProject drops the finding where the project is to be swept, because a sweep removes records piece by piece.
func (a subject) inProject(pinc incarnation) subject {
	a.pinc, a.unlessSwept = pinc, true
	return a
}

func (a subject) malformed(format string, args ...any) *Finding {
	return a.wrong(foundMalformed, format, args...)
}

func (a subject) missing(format string, args ...any) *Finding {
	return a.wrong(foundMissing, format, args...)
}

func (a subject) orphan(format string, args ...any) *Finding {
	return a.wrong(foundOrphan, format, args...)
}

func (a subject) mismatch(format string, args ...any) *Finding {
	return a.wrong(foundMismatch, format, args...)
}

func (a subject) wrong(code, format string, args ...any) *Finding {
	f := &Finding{Tenant: a.in.tenant, Session: a.session, Kind: a.kind, Code: code, pinc: a.pinc,
		unlessSwept: a.unlessSwept}
	if len(a.in.findings) <= 2*maxFindings { // of more, which nobody reads, only the number counts
		f.Detail, f.Key = fmt.Sprintf(format, args...), hex.EncodeToString(a.key)
	}
	a.in.findings = append(a.in.findings, f)
	return f
}

// maxFindings bounds what a report names.
const maxFindings = 1000

// recordCheck is how a room checks the records of one kind.
type recordCheck struct {
	kind string
	// record holds one record, in the order of keys, against those before it and notes what later ones need. A damaged
	// record comes too, without a value: its finding is made already.
	record func(s *space, it store.Item)
	// expiry takes an entry of the expiry index that names a record of this kind. It is nil where the index holds no
	// more than the record's key.
	expiry func(s *space, key []byte)
}

// roomChecks are one room's checks of one tenant, with what they know of it.
type roomChecks interface {
	checks() []recordCheck
	// finish does what needs all of the tenant's records.
	finish(s *space)
}

// checkList is a room's checks where nothing is left for the end.
type checkList []recordCheck

func (l checkList) checks() []recordCheck { return l }

func (checkList) finish(*space) {}

// crossChecks are those of a room that needs records of the system space too.
type crossChecks interface {
	// across holds a tenant, all of whose records came, against what the same room knows of the system space.
	across(s *space, system roomChecks)
}

// verifyStore reads a sealed store whole and holds every record against its kind and against the others. Nothing else
// may write meanwhile. It changes nothing. rooms makes the checks of one tenant, in the order that they finish.
func verifyStore(ctx context.Context, s store.Store, rooms func() []roomChecks) (*Report, error) {
	v := &verifier{rooms: rooms, report: Report{Kinds: map[string]int{}, Findings: []Finding{},
		Leftovers: []Finding{}}, spaces: map[string]*space{}}
	if err := store.Snapshot(ctx, longValues(s), v.visit); err != nil {
		return nil, err
	}
	v.end()
	return &v.report, nil
}

type verifier struct {
	rooms  func() []roomChecks
	report Report
	at     *space
	spaces map[string]*space // by tenant, kept as far as others need them
}

func (v *verifier) space(tenant string) *space {
	s := newSpace(tenant, append([]roomChecks{ownChecks{}}, v.rooms()...))
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
		v.at.at("rest", it.Key).orphan("it is the rest of a long value that is not there")
		return nil
	}
	kind := kindOf(tenant, it.Key)
	if kind == nil {
		v.at.at("unknown", it.Key).wrong(foundUnknown, "the key %q begins like no record of this version",
			it.Key[:min(len(it.Key), 24)])
		return nil
	}
	v.report.Kinds[kind.name]++
	v.at.visit(kind.name, it)
	return nil
}

// end holds the tenants against the system space and gathers what was found in them.
func (v *verifier) end() {
	if v.at != nil {
		v.at.finish()
	}
	system := v.spaces[systemTenant]
	if system == nil {
		system = v.space(systemTenant)
		system.finish()
	}
	v.report.Tenants = len(system.tenants)
	for id, deleting := range system.tenants {
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
		if _, known := system.tenants[tenant]; !known && s != system {
			f := s.at("tenant", kindTenant.Key(tenant)).orphan("there are records of a tenant that does not exist")
			// Making a tenant begins with its mark, its project and its key; a crash may leave it at that.
			f.harmless = !s.inUse && len(s.projects) <= 1
		}
		for _, f := range s.findings {
			if f.unlessSwept && s.swept[f.pinc] {
				continue
			}
			f.Project = s.projectName(f.pinc)
			v.add(*f)
		}
	}
}

func (v *verifier) add(f Finding) {
	list, count := &v.report.Findings, &v.report.FindingCount
	if f.harmless {
		list, count = &v.report.Leftovers, &v.report.LeftoverCount
	}
	if *count++; len(*list) < maxFindings {
		*list = append(*list, f)
	}
}
