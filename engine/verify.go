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
	// Findings are what is wrong, Leftovers what an interrupted change may leave: harmless, removed in time. Both name
	// at most maxFindings; the counts are of all.
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
	unlessSwept bool        // it counts for nothing where the project is to be swept
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

// maxFindings bounds what a report names.
const maxFindings = 1000

// Verify reads a sealed store whole and holds every record against its kind and against the others. Nothing else may
// write meanwhile. It changes nothing. What it keeps in memory grows with the number of sessions and memories, and of the
// documents of one index and the entries of one board, not with what they hold.
func Verify(ctx context.Context, s store.Store) (*Report, error) {
	v := &verifier{kinds: map[string]recordKind{}, report: Report{Kinds: map[string]int{}, Findings: []Finding{},
		Leftovers: []Finding{}}, spaces: map[string]*space{}}
	for _, k := range recordKinds() {
		v.kinds[k.name] = k
	}
	if err := store.Snapshot(ctx, longValues(s), v.visit); err != nil {
		return nil, err
	}
	v.end()
	return &v.report, nil
}

type verifier struct {
	kinds  map[string]recordKind // by name
	report Report
	at     *space
	spaces map[string]*space // by tenant, kept as far as others need them
}

func (v *verifier) visit(tenant string, it store.Item) error {
	if v.at == nil || v.at.tenant != tenant {
		if v.at != nil {
			v.at.finish()
		}
		v.at = newSpace(tenant)
		v.spaces[tenant] = v.at
	}
	v.report.Records++
	v.report.Bytes += int64(len(it.Key) + len(it.Value))
	if store.IsRest(it.Key) {
		v.report.Kinds["rest"]++
		v.at.wrong("rest", it.Key, foundOrphan, "it is the rest of a long value that is not there")
		return nil
	}
	of := kindOf(tenant, it.Key)
	if of == nil {
		v.at.wrong("unknown", it.Key, foundUnknown, "the key %q begins like no record of this version", clipKey(it.Key))
		return nil
	}
	kind := v.kinds[of.name]
	v.report.Kinds[kind.name]++
	v.at.kind = kind.name
	if it.Damaged {
		v.at.wrong(kind.name, it.Key, foundDamaged, "the record fails its checksum")
		v.at.lastFound = len(v.at.findings) - 1
		if kind.damaged != nil {
			kind.damaged(v.at, it.Key)
		}
		return nil
	}
	kind.check(v.at, it.Key, it.Value)
	return nil
}

func clipKey(key []byte) []byte { return key[:min(len(key), 24)] }

// end holds the tenants against each other and gathers what was found in them.
func (v *verifier) end() {
	if v.at != nil {
		v.at.finish()
	}
	system := v.spaces[systemTenant]
	if system == nil {
		system = newSpace(systemTenant)
	}
	v.tenants(system)
	for _, tenant := range slices.Sorted(maps.Keys(v.spaces)) {
		s := v.spaces[tenant]
		if t, ok := system.tenants[tenant]; ok && t.Deleting {
			continue // half of it is gone, and the rest follows
		}
		for _, f := range s.findings {
			if f.unlessSwept && s.sweptProjects[f.pinc] {
				continue
			}
			f.Project = s.projectName(f.pinc)
			v.add(f)
		}
	}
}

// tenants holds the records of tenants against their spaces.
func (v *verifier) tenants(system *space) {
	for id, t := range system.tenants {
		v.report.Tenants++
		s := v.spaces[id]
		if s == nil {
			s = newSpace(id)
			v.spaces[id] = s
		}
		if s.live == (incarnation{}) && !t.Deleting {
			s.wrong("live", liveKey, foundMissing, "the tenant's mark is not there: no key of it works")
		}
		s.pipelines(system.builtIns)
	}
	for id, s := range v.spaces {
		if _, ok := system.tenants[id]; ok || id == systemTenant {
			continue
		}
		f := s.wrong("tenant", tenantKey(id), foundOrphan, "there are records of a tenant that does not exist")
		// Making a tenant begins with its mark, its project and its key; a crash may leave it at that.
		f.harmless = len(s.heads) == 0 && s.policies == nil && len(s.boards) == 0 && !s.remembers && len(s.projects) <= 1
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

// space is one tenant's records as far as they were seen: what later ones are held against.
type space struct {
	tenant    string
	kind      string // of the record at hand
	findings  []Finding
	lastFound int // the finding that the record at hand is damaged

	live     incarnation
	keys     map[string]incarnation // API key -> the tenant that it was made in
	lostKeys int
	projects map[incarnation]string
	named    []namedPolicy // in projects' pipelines
	expiring map[string]string
	tenants  map[string]tenantRecord // system space only
	builtIns map[string]bool         // system space only

	sessionChecks
	decisionChecks
	policyChecks
	memoryChecks
	recallChecks
	boardChecks
}

func newSpace(tenant string) *space {
	s := &space{tenant: tenant, keys: map[string]incarnation{}, projects: map[incarnation]string{},
		expiring: map[string]string{}, tenants: map[string]tenantRecord{}, builtIns: map[string]bool{}}
	s.sessionChecks.init()
	s.decisionChecks.init()
	s.policyChecks.init()
	s.memoryChecks.init()
	s.recallChecks.init()
	s.boardChecks.init()
	return s
}

// wrong notes a finding. What it returns may be added to until the next one.
func (s *space) wrong(kind string, key []byte, code, format string, args ...any) *Finding {
	if len(s.findings) > 2*maxFindings { // more than anybody reads: only their number counts
		s.findings = append(s.findings, Finding{Tenant: s.tenant, Kind: kind, Code: code})
	} else {
		s.findings = append(s.findings, Finding{Tenant: s.tenant, Kind: kind, Code: code,
			Detail: fmt.Sprintf(format, args...), Key: hex.EncodeToString(key)})
	}
	return &s.findings[len(s.findings)-1]
}

// bad is wrong for the record at hand.
func (s *space) bad(key []byte, code, format string, args ...any) *Finding {
	return s.wrong(s.kind, key, code, format, args...)
}

// damage is the finding that the record at hand is damaged.
func (s *space) damage() *Finding { return &s.findings[s.lastFound] }

// of says which project and session a finding is about.
func (f *Finding) of(pinc incarnation, session string) *Finding {
	f.pinc, f.Session = pinc, session
	return f
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

// finish does what needs all of the tenant's records, and lets go of what no other tenant needs.
func (s *space) finish() {
	s.finishSessions()
	s.finishDecisions()
	s.finishPolicies()
	s.finishRecords()
	s.finishRecall()
	s.finishMemories()
	s.finishBoards()
}

// belongs tells whether a project lives, or its sweep is still to come.
func (s *space) belongs(pinc incarnation) bool {
	_, ok := s.projects[pinc]
	return ok || s.sweptProjects[pinc]
}
